//! Tenants: how each fares, how it is treated, why it waits.

use recado_wire::tenants::{TenantChange, TenantQuery};
use serde_json::{Value, json};

use crate::given::{Server, on_each_store};

async fn enqueue(server: &Server, route: &str, company: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(
            server.enqueue(json!({"route": route, "companyId": company, "data": {"script": ["ok"]}})).await,
        );
    }
    ids
}

/// Takes up to this many jobs of route `work`, and says whose they are.
async fn lease(server: &Server, max: usize) -> Vec<String> {
    let request = json!({"routes": ["work"], "max": max, "waitMs": 0, "leaseMs": 60_000, "workerId": "w"});
    let leases = server.post("/v1/leases", request.to_string()).await.body["leases"].clone();
    let company = |lease: &Value| lease["job"]["companyId"].as_str().unwrap().to_owned();
    leases.as_array().unwrap().iter().map(company).collect()
}

async fn tenant(server: &Server, company: &str) -> Value {
    let answer = server.get(&format!("/v1/tenants/{company}")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

async fn put(server: &Server, company: &str, change: Value) -> Value {
    let answer = server.put(&format!("/v1/tenants/{company}"), change).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[tokio::test]
async fn g12_a_tenant_shows_the_six_required_fields_and_what_it_waits_for() {
    on_each_store(async |server: &Server| {
        enqueue(server, "work", "acme", 5).await;
        enqueue(server, "work", "bolt", 2).await;
        assert_eq!(lease(server, 3).await, ["acme"; 3]);

        let acme = tenant(server, "acme").await;
        assert_eq!(acme["companyId"], "acme");
        assert!(acme["lastProcessedAt"].is_string(), "{acme}");
        assert_eq!(acme["roundsWithoutProcessing"], 0);
        assert_eq!(acme["currentPriority"], 5);
        assert_eq!(acme["totalProcessed"], 3);
        assert_eq!(acme["consecutiveBatchCount"], 3);
        assert_eq!((&acme["queued"], &acme["delivering"], &acme["dead"]), (&json!(2), &json!(3), &json!(0)));
        assert_eq!(
            (&acme["weight"], &acme["paused"], acme.get("maxPerMinute")),
            (&json!(1), &json!(false), None)
        );
        assert_eq!(acme["waitingFor"], json!({"reason": "turn"}));

        let bolt = tenant(server, "bolt").await;
        assert_eq!((&bolt["roundsWithoutProcessing"], &bolt["currentPriority"]), (&json!(1), &json!(4)));
        assert_eq!((&bolt["totalProcessed"], bolt.get("lastProcessedAt")), (&json!(0), None));
        assert_eq!(lease(server, 3).await, ["bolt", "bolt", "acme"], "who waited comes first");
        let bolt = tenant(server, "bolt").await;
        assert_eq!((&bolt["queued"], bolt.get("waitingFor")), (&json!(0), None), "nothing of it waits");
    })
    .await;
}

#[tokio::test]
async fn g12_a_tenant_is_summed_over_its_routes_and_shown_on_each() {
    on_each_store(async |server: &Server| {
        enqueue(server, "work", "acme", 4).await;
        enqueue(server, "tiss-claims", "acme", 2).await;
        enqueue(server, "work", "bolt", 1).await;
        server.enqueue(json!({"route": "work", "companyId": "acme", "delayMs": 600_000, "data": 1})).await;
        let dead = server
            .enqueue(
                json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["550 no such user"]}}),
            )
            .await;
        server.until(&dead, "failed").await;
        assert_eq!(lease(server, 2).await, ["acme"; 2]);

        let list = server.get("/v1/tenants").await.body;
        let companies: Vec<_> = list["items"].as_array().unwrap().iter().map(|it| &it["companyId"]).collect();
        assert_eq!(companies, ["acme", "bolt"]);
        let acme = &list["items"][0];
        assert_eq!(
            (&acme["queued"], &acme["delayed"], &acme["delivering"]),
            (&json!(4), &json!(1), &json!(2))
        );
        assert_eq!((&acme["dead"], &acme["totalProcessed"]), (&json!(1), &json!(3)), "{acme}");
        let routes = acme["routes"].as_array().unwrap();
        let queued: Vec<_> =
            routes.iter().map(|it| (it["route"].as_str().unwrap(), it["queued"].as_u64().unwrap())).collect();
        assert_eq!(queued, [("sandbox", 0), ("tiss-claims", 2), ("work", 2)], "{acme}");

        let on_one = server.get("/v1/tenants?route=tiss-claims&companyId=acme").await.body;
        assert_eq!(on_one["items"].as_array().unwrap().len(), 1);
        assert_eq!((&on_one["items"][0]["queued"], &on_one["items"][0]["dead"]), (&json!(2), &json!(0)));
        assert_eq!(server.get("/v1/tenants?route=patient").await.body, json!({"items": []}));
    })
    .await;
}

#[tokio::test]
async fn g22_a_weight_makes_a_tenants_turn_longer() {
    on_each_store(async |server: &Server| {
        assert_eq!(put(server, "acme", json!({"weight": 2})).await["weight"], 2);
        enqueue(server, "work", "acme", 9).await;
        enqueue(server, "work", "bolt", 9).await;
        let whose = lease(server, 9).await;
        assert_eq!(whose, [vec!["acme"; 6], vec!["bolt"; 3]].concat());
    })
    .await;
}

#[tokio::test]
async fn g22_a_paused_tenant_waits_alone_and_goes_on_when_it_is_let() {
    on_each_store(async |server: &Server| {
        let shown = put(server, "acme", json!({"paused": true})).await;
        assert_eq!((&shown["paused"], shown["pausedSince"].is_string()), (&json!(true), true), "{shown}");
        let waiting = enqueue(server, "sandbox", "acme", 2).await;
        let other = enqueue(server, "sandbox", "bolt", 1).await;
        server.until(&other[0], "sent").await;
        let job = server.until(&waiting[0], "parked").await;
        assert_eq!(
            (&job["waitingFor"]["code"], &job["waitingFor"]["why"]),
            (&json!("company"), &json!("tenant paused"))
        );
        assert_eq!(job["attempts"], json!([]));
        let acme = tenant(server, "acme").await;
        assert_eq!((&acme["queued"], &acme["waitingFor"]["reason"]), (&json!(2), &json!("pause")));
        assert_eq!(acme["routes"][0]["waitingFor"]["reason"], "pause");
        assert_eq!(
            server.get("/v1/providers/sandbox").await.body["parked"],
            0,
            "the provider is not to blame"
        );

        let shown = put(server, "acme", json!({"paused": false})).await;
        assert_eq!((&shown["paused"], shown.get("pausedSince")), (&json!(false), None));
        for id in &waiting {
            server.until(id, "sent").await;
        }
    })
    .await;
}

#[tokio::test]
async fn g22_a_tenants_bound_a_minute_holds_over_its_routes_and_null_takes_it_away() {
    let server = Server::plain().await;
    assert_eq!(put(&server, "acme", json!({"maxPerMinute": 2})).await["maxPerMinute"], 2);
    let first = enqueue(&server, "sandbox", "acme", 1).await;
    let second = enqueue(&server, "patient", "acme", 1).await;
    for id in [&first[0], &second[0]] {
        server.until(id, "sent").await;
    }
    let third = enqueue(&server, "sandbox", "acme", 1).await;
    let job = server.until(&third[0], "parked").await;
    assert_eq!((&job["waitingFor"]["reason"], &job["attempts"]), (&json!("limit"), &json!([])));
    assert!(job["waitingFor"]["until"].is_string(), "{job}");
    let shown = put(&server, "acme", json!({"maxPerMinute": null})).await;
    assert!(shown.get("maxPerMinute").is_none(), "{shown}");
    server.until(&third[0], "sent").await;
    server.stop().await;
}

#[tokio::test]
async fn g22_what_is_not_named_stays_and_terms_alone_make_a_tenant_known() {
    let server = Server::plain().await;
    let client = server.client();
    server.get("/v1/tenants/acme").await.is_problem(404, "not_found");
    let change = TenantChange { weight: Some(3), max_per_minute: Some(Some(100)), ..TenantChange::default() };
    client.set_tenant("acme", &change).await.unwrap();
    let change = TenantChange { paused: Some(true), ..TenantChange::default() };
    let shown = client.set_tenant("acme", &change).await.unwrap();
    assert_eq!((shown.weight, shown.max_per_minute, shown.paused), (3, Some(100), true));
    let since = shown.paused_since;
    let change = TenantChange { max_per_minute: Some(None), ..TenantChange::default() };
    let shown = client.set_tenant("acme", &change).await.unwrap();
    assert_eq!((shown.weight, shown.max_per_minute, shown.paused), (3, None, true));
    assert_eq!(shown.paused_since, since, "it has been paused all along");
    assert_eq!(client.tenant("acme").await.unwrap(), shown);
    assert_eq!(client.tenants(&TenantQuery::default()).await.unwrap().items, [shown]);
    server.stop().await;
}

#[tokio::test]
async fn tenants_are_listed_page_by_page_each_once_and_by_name() {
    on_each_store(async |server: &Server| {
        for n in 0..25 {
            put(server, &format!("c-{n:02}"), json!({"weight": 2})).await;
        }
        let client = server.client();
        let mut query = TenantQuery { limit: Some(10), ..TenantQuery::default() };
        let (mut seen, mut pages) = (Vec::new(), Vec::new());
        loop {
            let page = client.tenants(&query).await.unwrap();
            pages.push(page.items.len());
            seen.extend(page.items.into_iter().map(|tenant| tenant.company_id.as_str().to_owned()));
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, [10, 10, 5]);
        assert_eq!(seen, (0..25).map(|n| format!("c-{n:02}")).collect::<Vec<_>>());
        server.get("/v1/tenants?limit=0").await.faults_at(&["/limit"]);
        server.get("/v1/tenants?cursor=nonsense").await.faults_at(&["/cursor"]);
    })
    .await;
}

#[tokio::test]
async fn g22_who_paused_a_tenant_says_why_and_its_jobs_repeat_it() {
    let server = Server::plain().await;
    let shown = put(&server, "acme", json!({"paused": true, "reason": " invoice open "})).await;
    assert_eq!((&shown["pausedReason"], &shown["pausedBy"]), (&json!("invoice open"), &json!("api")));
    let waiting = enqueue(&server, "sandbox", "acme", 1).await;
    let job = server.until(&waiting[0], "parked").await;
    let pause = json!({
        "reason": "pause", "code": "company", "why": "tenant paused: invoice open", "said": "invoice open",
        "since": shown["pausedSince"], "actor": "api",
    });
    assert_eq!(job["waitingFor"], pause);
    let shown = put(&server, "acme", json!({"paused": false})).await;
    let gone = ["pausedReason", "pausedBy", "pausedSince"].iter().all(|name| shown.get(name).is_none());
    assert!(gone, "{shown}");
    let long = json!({"reason": "x".repeat(2_000)});
    server.put("/v1/tenants/acme", long).await.faults_at(&["/reason"]);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_tenants_terms_is_named_at_once_and_changes_nothing() {
    let server = Server::plain().await;
    let path = "/v1/tenants/acme";
    server.put(path, json!({"weight": 0, "maxPerMinute": 0})).await.faults_at(&["/weight", "/maxPerMinute"]);
    server.put(path, json!({"weight": 101, "paused": "yes"})).await.faults_at(&["/paused", "/weight"]);
    server.put(path, json!({"maxPerMinute": -1, "heavy": 1})).await.faults_at(&["/heavy", "/maxPerMinute"]);
    server.put("/v1/tenants/a%00b", json!({"weight": 1})).await.faults_at(&["/companyId"]);
    server.get("/v1/tenants/a%00b").await.is_problem(404, "not_found");
    server.get("/v1/tenants?company=acme").await.is_problem(422, "validation_failed");
    server.get(path).await.is_problem(404, "not_found");
    server.stop().await;
}
