//! Leases: workers outside Recado.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::given::{Answer, Server, ms, on_each_store};

async fn put(server: &Server, id: &str) {
    server
        .enqueue(json!({"jobId": id, "route": "work", "companyId": "acme", "data": {"n": id}, "userId": "u"}))
        .await;
}

async fn lease(server: &Server, more: Value) -> Vec<Value> {
    let mut body = json!({"routes": ["work"], "workerId": "worker-1"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let answer = server.post("/v1/leases", body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["leases"].as_array().unwrap().clone()
}

async fn settle(server: &Server, lease: &Value, verb: &str, body: Value) -> Answer {
    let token = lease["leaseToken"].as_str().unwrap();
    server.post(&format!("/v1/leases/{token}/{verb}"), body.to_string()).await
}

#[tokio::test]
async fn a_worker_gets_the_job_with_its_lease_and_its_success_ends_it() {
    on_each_store(async |server: &Server| {
        put(server, "j").await;
        let before = server.engine.now();
        let leases = lease(server, json!({"max": 10, "leaseMs": 5_000})).await;
        let [held] = leases.as_slice() else { panic!("{leases:?}") };
        assert_eq!((&held["attempt"], &held["job"]["jobId"]), (&json!(1), &json!("j")));
        assert_eq!((&held["job"]["data"], &held["job"]["companyId"]), (&json!({"n": "j"}), &json!("acme")));
        let expires: recado_core::Timestamp = held["expiresAt"].as_str().unwrap().parse().unwrap();
        assert!((5_000..6_000).contains(&expires.since(before).as_millis()), "{expires}");
        assert!(lease(server, json!({})).await.is_empty(), "it is held");

        let answer = settle(server, held, "succeed", json!({"result": {"protocol": "P-1"}})).await;
        assert_eq!(
            (answer.status, answer.body),
            (200, json!({"leaseToken": held["leaseToken"], "settled": true}))
        );
        let shown = server.get("/v1/jobs/j").await.body;
        assert_eq!((&shown["status"], &shown["answer"]), (&json!("sent"), &json!({"protocol": "P-1"})));
    })
    .await;
}

#[tokio::test]
async fn leases_with_large_payloads_come_in_several_answers_and_all_of_them_come() {
    let server = Server::plain().await;
    let pad = "x".repeat(500_000);
    for n in 0..40 {
        let data = json!({"pad": pad});
        server
            .enqueue(json!({"jobId": n.to_string(), "route": "work", "companyId": "acme", "data": data}))
            .await;
    }
    let first = lease(&server, json!({"max": 1_000})).await.len();
    assert!(first < 40, "twenty megabytes came at once");
    assert_eq!(first + lease(&server, json!({"max": 1_000})).await.len(), 40);
    for n in 0..100 {
        put(&server, &format!("small-{n}")).await;
    }
    assert_eq!(lease(&server, json!({"max": 1_000})).await.len(), 100, "small ones come together");
}

#[tokio::test]
async fn a_success_needs_no_body() {
    let server = Server::plain().await;
    put(&server, "j").await;
    let held = lease(&server, json!({})).await.remove(0);
    let url = server.url(&format!("/v1/leases/{}/succeed", held["leaseToken"].as_str().unwrap()));
    assert_eq!(server.http.post(url).send().await.unwrap().status(), 200);
    assert_eq!(server.get("/v1/jobs/j").await.body["status"], "sent");
}

#[tokio::test]
async fn a_failure_is_classified_by_the_routes_rules_and_retried_on_its_policy() {
    on_each_store(async |server: &Server| {
        put(server, "f").await;
        let held = lease(server, json!({})).await.remove(0);
        let failure = json!({"code": "503", "message": "busy", "retryAfterMs": 3_600_000});
        assert_eq!(settle(server, &held, "fail", failure).await.status, 200);
        let shown = server.get("/v1/jobs/f").await.body;
        assert_eq!(shown["status"], "retrying");
        let attempt = &shown["attempts"][0];
        assert_eq!(
            (&attempt["errorCode"], &attempt["errorClassification"]),
            (&json!("503"), &json!("TRANSIENT"))
        );
        assert_eq!(attempt["nextRetryDelayMs"], 3_600_000, "Retry-After is obeyed");
    })
    .await;
}

#[tokio::test]
async fn a_stale_token_is_refused_and_changes_nothing() {
    on_each_store(async |server: &Server| {
        put(server, "s").await;
        let held = lease(server, json!({})).await.remove(0);
        assert_eq!(settle(server, &held, "succeed", json!({})).await.status, 200);
        for (verb, body) in [
            ("succeed", json!({"result": "again"})),
            ("fail", json!({"message": "after all it failed"})),
            ("extend", json!({"leaseMs": 5_000})),
        ] {
            settle(server, &held, verb, body).await.is_problem(409, "stale_lease");
        }
        let shown = server.get("/v1/jobs/s").await.body;
        assert_eq!((&shown["status"], shown.get("answer")), (&json!("sent"), None));
        let never = json!({"leaseToken": "0".repeat(32)});
        settle(server, &never, "succeed", json!({})).await.is_problem(409, "stale_lease");
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_ran_out_belongs_to_the_next_worker() {
    on_each_store(async |server: &Server| {
        put(server, "o").await;
        let first = lease(server, json!({"leaseMs": 1_000})).await.remove(0);
        let second = lease(server, json!({"waitMs": 5_000, "workerId": "worker-2"})).await.remove(0);
        assert_eq!((&second["job"]["jobId"], &second["attempt"]), (&json!("o"), &json!(2)));
        settle(server, &first, "succeed", json!({})).await.is_problem(409, "stale_lease");
        assert_eq!(server.get("/v1/jobs/o").await.body["heldBy"]["workerId"], "worker-2");
        assert_eq!(settle(server, &second, "succeed", json!({})).await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn an_extended_lease_lasts() {
    on_each_store(async |server: &Server| {
        put(server, "e").await;
        let held = lease(server, json!({"leaseMs": 1_000})).await.remove(0);
        let before = server.engine.now();
        let answer = settle(server, &held, "extend", json!({"leaseMs": 60_000})).await;
        assert_eq!(answer.status, 200);
        let expires: recado_core::Timestamp = answer.body["expiresAt"].as_str().unwrap().parse().unwrap();
        assert!((60_000..61_000).contains(&expires.since(before).as_millis()));
        tokio::time::sleep(ms(1_700)).await;
        assert_eq!(
            settle(server, &held, "succeed", json!({})).await.status,
            200,
            "the first end passed long ago"
        );
    })
    .await;
}

#[tokio::test]
async fn a_long_poll_wakes_within_milliseconds_of_an_enqueue() {
    on_each_store(async |server: &Server| {
        let mut late = Vec::new();
        for n in 0..5 {
            let waiting = async {
                let leases = lease(server, json!({"waitMs": 10_000})).await;
                assert_eq!(leases[0]["job"]["jobId"], format!("n{n}"));
                Instant::now()
            };
            let enqueuing = async {
                tokio::time::sleep(ms(100)).await;
                put(server, &format!("n{n}")).await;
                Instant::now()
            };
            let (woken, enqueued) = tokio::join!(waiting, enqueuing);
            late.push(woken.saturating_duration_since(enqueued));
        }
        late.sort_unstable();
        assert!(late[2] < ms(25), "the median wake-up took {:?}", late[2]);
    })
    .await;
}

#[tokio::test]
async fn a_long_poll_that_finds_nothing_ends_in_time_with_nothing() {
    let server = Server::plain().await;
    let started = Instant::now();
    assert!(lease(&server, json!({"waitMs": 300})).await.is_empty());
    let took = started.elapsed();
    assert!((ms(290)..Duration::from_secs(3)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_worker_that_hangs_up_while_it_waits_takes_no_job_with_it() {
    on_each_store(async |server: &Server| {
        let body = json!({"routes": ["work"], "workerId": "gone", "waitMs": 30_000}).to_string();
        for _ in 0..5 {
            let poll = server.post("/v1/leases", body.clone());
            assert!(tokio::time::timeout(ms(50), poll).await.is_err(), "it waits");
        }
        tokio::time::sleep(ms(100)).await;
        put(server, "kept").await;
        let held = lease(server, json!({"waitMs": 1_000})).await;
        assert_eq!(held[0]["job"]["jobId"], "kept", "the waiting worker gets it, not one that has gone");
    })
    .await;
}

#[tokio::test]
async fn a_claim_whose_worker_hung_up_gives_its_jobs_back_at_once() {
    on_each_store(async |server: &Server| {
        for n in 0..20 {
            let id = format!("torn{n}");
            put(server, &id).await;
            let request = recado_engine::attempt::worker_leases::LeaseRequest {
                routes: vec![recado_core::RouteName::new("work").unwrap()],
                max: 10,
                wait: Duration::from_secs(30),
                lease: Duration::from_secs(600),
                worker_id: "gone".into(),
            };
            // Asked, and gone before the store has answered.
            let mut asking = Box::pin(server.engine.attempts.lease(&request));
            let is_asked = poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx).is_pending())).await;
            assert!(is_asked, "the claim was answered before it could be torn");
            drop(asking);
            let held = lease(server, json!({"waitMs": 2_000})).await;
            let [held] = held.as_slice() else { panic!("{id} went with the worker that hung up") };
            assert_eq!(
                (&held["job"]["jobId"], &held["attempt"]),
                (&json!(id), &json!(1)),
                "no attempt was spent"
            );
            assert_eq!(settle(server, held, "succeed", json!({})).await.status, 200);
        }
    })
    .await;
}

#[tokio::test]
async fn many_reports_settle_in_one_request_each_on_its_own() {
    on_each_store(async |server: &Server| {
        for id in ["1", "2", "3"] {
            put(server, id).await;
        }
        let leases = lease(server, json!({"max": 3})).await;
        let token = |n: usize| leases[n]["leaseToken"].clone();
        let reports = json!([
            {"leaseToken": token(0), "succeed": {"result": 5}},
            {"leaseToken": token(1), "fail": {"code": "550", "message": "no such user"}},
            {"leaseToken": token(0), "succeed": {}},
            {"leaseToken": "zzz", "succeed": {}},
            {"leaseToken": token(2)},
            {"leaseToken": token(2), "succeed": {}, "fail": {"message": "x"}},
            {"leaseToken": token(2), "fail": {"message": " ", "retryAfterMs": -1}},
            {"leaseToken": token(2), "succeed": [1]},
            7,
        ]);
        let answer = server.post("/v1/leases/settle", reports.to_string()).await;
        assert_eq!(
            (answer.status, &answer.body["settled"], &answer.body["refused"]),
            (200, &json!(2), &json!(7))
        );
        let items = answer.body["items"].as_array().unwrap();
        let codes: Vec<_> = items.iter().map(|item| item["error"]["code"].as_str().unwrap_or("-")).collect();
        let invalid = "validation_failed";
        assert_eq!(codes, ["-", "-", "stale_lease", invalid, invalid, invalid, invalid, invalid, invalid]);
        let places = |n: usize| {
            let faults = items[n]["error"]["errors"].as_array().unwrap().iter();
            faults.map(|fault| fault["pointer"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (places(3), places(4), places(5)),
            (vec!["/leaseToken".into()], vec!["/succeed".into()], vec!["/fail".into()])
        );
        assert_eq!(places(6), ["/fail/retryAfterMs", "/fail/message"]);
        assert_eq!(places(7), ["/succeed"]);
        assert_eq!(server.get("/v1/jobs/1").await.body["answer"], 5);
        assert_eq!(server.get("/v1/jobs/2").await.body["status"], "failed");
        assert_eq!(
            server.get("/v1/jobs/3").await.body["status"],
            "delivering",
            "what is unclear is left alone"
        );
        server.post("/v1/leases/settle", "{}").await.faults_at(&[""]);
        let many: Vec<_> = (0..1_001).map(|_| json!({})).collect();
        server
            .post("/v1/leases/settle", Value::from(many).to_string())
            .await
            .is_problem(413, "payload_too_large");
    })
    .await;
}

#[tokio::test]
async fn every_fault_of_a_request_for_leases_is_reported_at_once() {
    let server = Server::plain().await;
    let body = json!({
        "routes": ["work", 5, "sandbox", "nowhere"], "max": 0, "waitMs": 60_001, "leaseMs": 999, "workerId": " ", "wait": 1
    });
    let answer = server.post("/v1/leases", body.to_string()).await;
    let mut found = answer.pointers();
    found.sort_unstable();
    assert_eq!(
        found,
        ["/leaseMs", "/max", "/routes/1", "/routes/2", "/routes/3", "/wait", "/waitMs", "/workerId"]
    );
    assert!(answer.fault("/routes/2").contains("only routes of transport \"worker\" can be leased"));
    assert!(answer.fault("/routes/3").contains("known routes"));
    server
        .post("/v1/leases", json!({"routes": [], "workerId": "w"}).to_string())
        .await
        .faults_at(&["/routes"]);
    server.post("/v1/leases", "{}").await.faults_at(&["/routes", "/workerId"]);
}

#[tokio::test]
async fn g5_a_failure_without_words_is_refused_and_the_lease_stays() {
    let server = Server::plain().await;
    put(&server, "w").await;
    let held = lease(&server, json!({})).await.remove(0);
    for body in [json!({}), json!({"message": ""}), json!({"message": "  "}), json!({"message": null})] {
        settle(&server, &held, "fail", body).await.faults_at(&["/message"]);
    }
    settle(&server, &held, "extend", json!({})).await.faults_at(&["/leaseMs"]);
    settle(&server, &held, "extend", json!({"leaseMs": 1})).await.faults_at(&["/leaseMs"]);
    let large = json!({"result": "x".repeat(20_000)});
    settle(&server, &held, "succeed", large).await.faults_at(&["/result"]);
    assert_eq!(settle(&server, &held, "succeed", json!({})).await.status, 200);
    let no_token = json!({"leaseToken": "not-a-token"});
    settle(&server, &no_token, "succeed", json!({})).await.is_problem(404, "not_found");
}
