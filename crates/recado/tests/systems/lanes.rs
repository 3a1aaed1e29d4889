//! Lanes: a provider that is down, a company that is loud and a limit that is used up hold back their own
//! jobs and nobody else's.

use recado_core::Timestamp;
use serde_json::{Value, json};

use super::far_ends::{FarEnd, json as answer, page};
use super::given::{Server, eventually};
use super::scene::{Scene, tries};

/// A provider that takes everything until it is told otherwise.
fn far_end() -> FarEnd {
    FarEnd::start(|_| answer(200, json!({})))
}

/// The same, out of order.
fn broken() -> FarEnd {
    let far_end = far_end();
    far_end.always("", page(503));
    far_end
}

/// A provider and a route of the same name.
fn lane(name: &str, far_end: &FarEnd, terms: &str) -> String {
    let url = far_end.url();
    format!("[providers.{name}]\nurl = \"{url}\"\n{terms}[routes.{name}]\npolicy = {{ base = \"20ms\" }}\n")
}

/// It opens at the first failure and stays so for the rest of a test.
const OPENS_AT_ONCE: &str = "breaker = { failures = 1, reset = \"1h\" }\n";

fn data(words: &str) -> Value {
    json!({ "path": "v1/things", "body": { "words": words } })
}

/// Takes in `count` jobs of a company, named `company-0` and on.
#[track_caller]
fn enqueue(server: &Server, route: &str, company: &str, count: usize) -> Vec<String> {
    let ids: Vec<_> = (0..count).map(|at| format!("{company}-{at}")).collect();
    let job = |id: &String| json!({ "jobId": id, "route": route, "companyId": company, "data": data(id) });
    let jobs: Value = ids.iter().map(job).collect();
    let (status, body) = server.ask("POST", "/v1/jobs/batch", &jobs);
    assert_eq!((status, &body["accepted"]), (200, &json!(count)), "{body}");
    ids
}

#[track_caller]
fn tell(server: &Server, path: &str, body: Value) -> Value {
    let (status, told) = server.ask("POST", &format!("/v1/providers/{path}"), &body);
    assert_eq!(status, 200, "{path}: {told}");
    told
}

fn provider(server: &Server, name: &str) -> Value {
    server.get(&format!("/v1/providers/{name}"))
}

/// The job waits for this, and has spent nothing.
#[track_caller]
fn is_parked(server: &Server, id: &str, reason: &str) -> Value {
    let job = server.get(&format!("/v1/jobs/{id}"));
    assert_eq!((&job["status"], &job["waitingFor"]["reason"]), (&json!("parked"), &json!(reason)), "{job:#}");
    assert_eq!(tries(&job), Vec::<String>::new(), "{job:#}");
    job
}

fn jobs(server: &Server, route: &str) -> Vec<Value> {
    let list = server.get(&format!("/v1/jobs?route={route}&limit=1000"));
    list["items"].as_array().expect("jobs").clone()
}

/// The companies of the requests, in the order of their arrival.
fn companies(far_end: &FarEnd) -> Vec<String> {
    let company = |words: &Value| words.as_str().and_then(|words| words.split('-').next()).map(str::to_owned);
    far_end.ledger().iter().filter_map(|request| company(&request.json()["words"])).collect()
}

fn count(companies: &[String], name: &str) -> usize {
    companies.iter().filter(|company| *company == name).count()
}

#[test]
fn f1_a_provider_that_is_down_costs_its_jobs_no_attempt_and_others_no_time() {
    const FAILURES: usize = 3;
    const RESET_MS: i64 = 1_500;
    let (down, up) = (broken(), far_end());
    let terms = "concurrency = 1\nbreaker = { failures = 3, reset = \"1500ms\", ramp = \"0s\" }\n";
    let scene = Scene::with(&(lane("down", &down, terms) + &lane("up", &up, "")));
    let listener = scene.listen();
    let ids = enqueue(&scene, "down", "acme", 200);

    // It opens, and two probes find it still broken.
    eventually(|| listener.count("CircuitBreakerOpened") >= 3);
    is_parked(&scene, &ids[199], "breaker");
    assert!(provider(&scene, "down")["parked"].as_u64().unwrap() > 150, "{}", provider(&scene, "down"));
    scene.send("up", "acme", "elsewhere", &data("elsewhere"));
    scene.sent("elsewhere");
    assert_ne!(provider(&scene, "down")["state"], "CLOSED");

    down.recovers();
    eventually(|| jobs(&scene, "down").iter().all(|job| job["status"] == "sent"));
    assert_eq!(provider(&scene, "down")["state"], "CLOSED");
    eventually(|| listener.count("CircuitBreakerClosed") == 1);

    let at = |time: &Value| time.as_str().unwrap().parse::<Timestamp>().unwrap().as_millis();
    let ended = jobs(&scene, "down");
    let attempts: Vec<_> = ended.iter().flat_map(|job| job["attempts"].as_array().unwrap()).collect();
    assert_eq!(attempts.len(), down.ledger().len(), "every attempt reached out");
    let mut failed: Vec<_> = attempts.iter().filter(|attempt| attempt["result"] == "failed").collect();
    failed.sort_by_key(|attempt| at(&attempt["startedAt"]));
    assert_eq!(
        failed.len(),
        FAILURES + listener.count("CircuitBreakerOpened") - 1,
        "what opened it, and probes"
    );
    for pair in failed[FAILURES - 1..].windows(2) {
        let quiet_ms = at(&pair[1]["startedAt"]) - at(&pair[0]["endedAt"]);
        assert!(quiet_ms >= RESET_MS, "a probe after {quiet_ms} ms");
    }
}

#[test]
fn f1_a_breaker_that_is_open_stays_open_over_kill_9() {
    let far_end = broken();
    let scene = Scene::with(&lane("down", &far_end, OPENS_AT_ONCE));
    let listener = scene.listen();
    enqueue(&scene, "down", "acme", 3);
    // The event is told once the state is durable.
    eventually(|| listener.count("CircuitBreakerOpened") == 1);
    eventually(|| jobs(&scene, "down").iter().all(|job| job["status"] != "delivering"));
    let (asked, since) = (far_end.ledger().len(), provider(&scene, "down")["since"].clone());

    scene.signal("KILL");
    eventually(|| std::net::TcpStream::connect(scene.address).is_err());
    let server = scene.place.serve();
    let restored = provider(&server, "down");
    assert_eq!((&restored["state"], &restored["since"]), (&json!("OPEN"), &since), "{restored:#}");
    assert!(restored["reason"].as_str().is_some_and(|reason| reason.contains("503")), "{restored:#}");
    let id = server.enqueue(json!({ "route": "down", "companyId": "acme", "data": data("late") }));
    is_parked(&server, &id, "breaker");
    assert_eq!(far_end.ledger().len(), asked, "nobody asked it again");

    far_end.recovers();
    tell(&server, "down/breaker", json!({ "action": "close", "reason": "mended" }));
    server.job_once(&id, "sent");
}

#[test]
fn f3_code_of_ones_own_asks_under_the_same_breaker() {
    let far_end = far_end();
    let scene = Scene::with(&lane("shared", &far_end, "breaker = { failures = 2, reset = \"1h\" }\n"));
    for failures in 1..=2 {
        let permit = tell(&scene, "shared/permit", Value::Null);
        assert_eq!((&permit["permitted"], &permit["state"]), (&json!(true), &json!("CLOSED")), "{permit}");
        let told = tell(&scene, "shared/failure", json!({ "reason": "504 from the gateway" }));
        assert_eq!(told["failuresInWindow"], failures, "{told:#}");
    }
    let refused = tell(&scene, "shared/permit", Value::Null);
    assert_eq!((&refused["permitted"], &refused["state"]), (&json!(false), &json!("OPEN")), "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("504 from the gateway"), "{refused}");
    assert!((1..=3_600_000).contains(&refused["retryAfterMs"].as_u64().unwrap()), "{refused}");

    // Recado's own jobs wait as well, and a person may know better.
    let ids = enqueue(&scene, "shared", "acme", 1);
    is_parked(&scene, &ids[0], "breaker");
    tell(&scene, "shared/breaker", json!({ "action": "close", "reason": "the gateway is back" }));
    scene.sent(&ids[0]);
    assert_eq!(tell(&scene, "shared/permit", Value::Null)["permitted"], true);
    far_end.was_asked(&ids[0], 1);
}

#[test]
fn f1_a_breaker_opened_by_hand_waits_for_a_hand() {
    let far_end = far_end();
    let scene = Scene::with(&lane("held", &far_end, "breaker = { reset = \"1ms\" }\n"));
    let told = tell(&scene, "held/breaker", json!({ "action": "open", "reason": "maintenance" }));
    assert_eq!((&told["state"], &told["heldOpen"]), (&json!("OPEN"), &json!(true)), "{told:#}");
    let ids = enqueue(&scene, "held", "acme", 1);
    let job = is_parked(&scene, &ids[0], "breaker");
    assert!(job["waitingFor"]["why"].as_str().unwrap().contains("maintenance"), "{job:#}");
    assert_eq!(job["waitingFor"].get("until"), None, "no probe is due: {job:#}");
    tell(&scene, "held/breaker", json!({ "action": "close", "reason": "done" }));
    scene.sent(&ids[0]);
}

#[test]
fn a_provider_that_is_paused_gets_nothing_until_it_is_resumed_even_after_a_restart() {
    let (far_end, other) = (far_end(), far_end());
    let scene = Scene::with(&(lane("quiet", &far_end, "") + &lane("other", &other, "")));
    tell(&scene, "quiet/pause", json!({ "reason": "invoice day" }));
    let ids = enqueue(&scene, "quiet", "acme", 5);
    let scene = scene.restarted();
    for id in &ids {
        is_parked(&scene, id, "pause");
    }
    scene.send("other", "acme", "elsewhere", &data("elsewhere"));
    scene.sent("elsewhere");
    assert_eq!(far_end.ledger().len(), 0);
    tell(&scene, "quiet/resume", Value::Null);
    for id in &ids {
        scene.sent(id);
    }
}

#[test]
fn g10_a_company_that_arrives_waits_for_turns_and_not_for_queues() {
    let far_end = far_end();
    let scene = Scene::with(&lane("fair", &far_end, "concurrency = 5\n"));
    tell(&scene, "fair/pause", Value::Null);
    enqueue(&scene, "fair", "loud", 2_000);
    let late = enqueue(&scene, "fair", "late", 10);
    tell(&scene, "fair/resume", Value::Null);
    for id in &late {
        scene.sent(id);
    }
    let arrived = companies(&far_end);
    let last = arrived.iter().rposition(|company| company == "late").unwrap();
    let before = count(&arrived[..last], "loud");
    assert_eq!(count(&arrived, "late"), 10);
    assert!((1..60).contains(&before), "{before} jobs of the other company went before the tenth");
}

#[test]
fn g24_weights_share_a_lane() {
    let far_end = far_end();
    let scene = Scene::with(&(lane("tiers", &far_end, "concurrency = 1\n") + "[fairness]\nbatch = 2\n"));
    tell(&scene, "tiers/pause", Value::Null);
    for (company, weight) in [("gold", 3), ("silver", 2), ("bronze", 1)] {
        let (status, tenant) =
            scene.ask("PUT", &format!("/v1/tenants/{company}"), &json!({ "weight": weight }));
        assert_eq!((status, &tenant["weight"]), (200, &json!(weight)), "{tenant}");
        enqueue(&scene, "tiers", company, 60);
    }
    tell(&scene, "tiers/resume", Value::Null);
    far_end.once("", 180);
    // A round has twelve jobs: six, four and two.
    let arrived = companies(&far_end);
    for (at, round) in arrived[..96].chunks(12).enumerate() {
        assert_eq!(
            ["gold", "silver", "bronze"].map(|name| count(round, name)),
            [6, 4, 2],
            "round {at}: {round:?}"
        );
    }
}

#[test]
fn g22_a_company_that_is_paused_holds_up_nobody() {
    let far_end = far_end();
    let scene = Scene::with(&lane("fair", &far_end, ""));
    let set = |paused: bool| scene.ask("PUT", "/v1/tenants/idle", &json!({ "paused": paused }));
    assert_eq!(set(true).0, 200);
    let idle = enqueue(&scene, "fair", "idle", 1);
    let busy = enqueue(&scene, "fair", "busy", 3);
    for id in &busy {
        scene.sent(id);
    }
    is_parked(&scene, &idle[0], "pause");
    far_end.was_asked(&idle[0], 0);
    assert_eq!(set(false).0, 200);
    scene.sent(&idle[0]);
}

#[test]
fn g16_what_is_over_the_rate_waits_and_spends_nothing() {
    let far_end = far_end();
    let scene = Scene::with(&lane("slow", &far_end, "rate = { max = 2, per = \"2h\" }\n"));
    let ids = enqueue(&scene, "slow", "acme", 5);
    far_end.once("", 2);
    eventually(|| jobs(&scene, "slow").iter().filter(|job| job["status"] == "sent").count() == 2);
    let waiting: Vec<_> = ids.iter().filter(|id| scene.job(id)["status"] != "sent").collect();
    for id in &waiting {
        let job = is_parked(&scene, id, "limit");
        assert!(job["waitingFor"]["until"].is_string(), "{job:#}");
    }
    assert_eq!((waiting.len(), far_end.ledger().len()), (3, 2));
}

#[test]
fn f8_a_limit_of_one_credential_holds_back_that_company_alone() {
    let far_end = far_end();
    let rules = "classify = [{ status = 429, as = \"rate_limit\", blame = \"credential\" }]\n";
    let scene = Scene::with(&(lane("shared", &far_end, "") + rules));
    far_end.always("acme-0", page(429).with("retry-after", 3_600));
    let first = enqueue(&scene, "shared", "acme", 1);
    scene.retrying(&first[0], 1);
    let second = scene.enqueue(json!({ "route": "shared", "companyId": "acme", "data": data("again") }));
    is_parked(&scene, &second, "limit");
    for id in enqueue(&scene, "shared", "other", 3) {
        scene.sent(&id);
    }
    far_end.was_asked(&second, 0);
}

#[test]
fn f8_a_provider_that_asks_for_quiet_gets_it_from_all() {
    let far_end = far_end();
    let scene = Scene::with(&lane("shared", &far_end, ""));
    far_end.always("acme-0", page(429).with("retry-after", 3_600));
    let first = enqueue(&scene, "shared", "acme", 1);
    scene.retrying(&first[0], 1);
    let others = enqueue(&scene, "shared", "other", 3);
    for id in &others {
        is_parked(&scene, id, "limit");
    }
    assert_eq!(far_end.ledger().len(), 1);
    assert_eq!(provider(&scene, "shared")["state"], "CLOSED", "whoever says slower is alive");
}

#[test]
fn g24_the_second_provider_takes_over_and_the_attempt_says_so() {
    let (main, spare) = (broken(), far_end());
    let config = format!(
        "[providers.main]\nurl = \"{}\"\n{OPENS_AT_ONCE}[providers.spare]\nurl = \"{}\"\n\
         [routes.both]\nproviders = [\"main\", \"spare\"]\npolicy = {{ base = \"20ms\" }}\n",
        main.url(),
        spare.url()
    );
    let scene = Scene::with(&config);
    scene.send("both", "acme", "first", &data("first"));
    let job = scene.sent("first");
    let served: Vec<_> = job["attempts"].as_array().unwrap().iter().map(|it| &it["provider"]).collect();
    assert_eq!(served, ["main", "spare"], "{job:#}");
    for id in enqueue(&scene, "both", "acme", 10) {
        scene.sent(&id);
        spare.was_asked(&id, 1);
    }
    assert_eq!(main.ledger().len(), 1, "closed off, it is asked no more");
    assert_eq!(spare.only("first").header("idempotency-key"), "first");
}

#[test]
fn g24_a_job_whose_answer_was_lost_goes_back_to_whoever_may_have_it() {
    use super::far_ends::Act;

    let (main, spare) = (far_end(), far_end());
    main.orders("", [Act::Drop]);
    let config = format!(
        "[providers.main]\nurl = \"{}\"\nbreaker = {{ failures = 1, reset = \"500ms\" }}\n[providers.spare]\nurl = \"{}\"\n\
         [routes.both]\nproviders = [\"main\", \"spare\"]\npolicy = {{ base = \"20ms\" }}\n",
        main.url(),
        spare.url()
    );
    let scene = Scene::with(&config);
    scene.send("both", "acme", "maybe", &data("maybe"));
    let job = scene.sent("maybe");
    assert_eq!(job["attempts"][0]["result"], "uncertain", "{job:#}");
    main.was_asked("maybe", 2);
    spare.was_asked("maybe", 0);
}

#[test]
fn g22_the_runbook_sees_bounds_and_stops_one_company() {
    let far_end = far_end();
    let scene = Scene::with(&lane("fair", &far_end, "concurrency = 1\n"));
    tell(&scene, "fair/pause", Value::Null);
    enqueue(&scene, "fair", "acme", 50);
    let tenant = |scene: &Scene| scene.get("/v1/tenants/acme");
    assert_eq!(tenant(&scene)["queued"], 50);

    // The commands of both pages, in their order.
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in ["lanes.md", "lanes.pt-BR.md"] {
        let page = std::fs::read_to_string(docs.join(page)).expect("a page");
        let steps: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("   recado ")).collect();
        let mut seen = Vec::new();
        for step in &steps {
            let words: Vec<_> = step.split(' ').collect();
            let said = scene.recado(&words).done();
            let tenant = tenant(&scene);
            seen.push((tenant["maxPerMinute"].as_u64(), tenant["paused"] == true));
            if *step == "tenants" {
                assert!(said.contains("acme") && said.contains("50"), "{said}");
            }
        }
        let (unbound, bound, stopped) = ((None, false), (Some(60), false), (Some(60), true));
        assert_eq!(seen, [unbound, unbound, bound, stopped, unbound], "{steps:?}");
    }
    tell(&scene, "fair/resume", Value::Null);
    far_end.once("", 50);
}
