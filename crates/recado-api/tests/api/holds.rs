//! Holds that answers from outside imposed: listed with scope, reason and end, and lifted.

use recado_wire::holds::{HoldQuery, HoldScope};
use recado_wire::providers::PauseRequest;
use serde_json::json;

use crate::given::{Server, Setup};

#[tokio::test]
async fn a_hold_is_listed_and_lifted_once_with_who_did_it() {
    let server = Server::start(Setup::default()).await;
    let client = server.client();
    assert_eq!(client.holds(&HoldQuery::default()).await.unwrap().items, []);
    let job =
        json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["429 retry-after=600", "ok"]}});
    let first = server.enqueue(job).await;
    server.until(&first, "retrying").await;
    let held =
        server.enqueue(json!({"route": "sandbox", "companyId": "globex", "data": {"script": ["ok"]}})).await;
    server.until(&held, "parked").await;

    let hold = client.holds(&HoldQuery::default()).await.unwrap().items.remove(0);
    assert_eq!((hold.scope, &*hold.provider), (HoldScope::Provider, "sandbox"));
    assert_eq!((hold.company_id.as_ref(), hold.until.since(hold.since.unwrap()).as_secs()), (None, 600));
    assert!(hold.reason.starts_with("429, Retry-After 600 s: "), "{}", hold.reason);
    let parked = server.get(&format!("/v1/jobs/{held}")).await.body;
    assert_eq!(parked["nextAttemptAt"], json!(hold.until), "it is not tried before the hold ends");

    let why = PauseRequest { reason: Some("their mistake".to_owned()) };
    assert_eq!(client.lift_hold(&hold.id, &why).await.unwrap(), hold);
    server.until(&held, "sent").await;
    assert_eq!(client.holds(&HoldQuery::default()).await.unwrap().items, []);
    let again = client.lift_hold(&hold.id, &why).await.unwrap_err();
    assert!(again.to_string().contains("there is no hold"), "{again}");
}
