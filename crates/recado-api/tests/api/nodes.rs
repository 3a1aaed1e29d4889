//! `GET /v1/nodes`.

use recado_wire::nodes::NodeHealth;
use serde_json::json;

use crate::given::{Server, on_each_store};

#[tokio::test]
async fn a_server_alone_is_the_one_node_and_does_all_of_the_work() {
    on_each_store(async |server: &Server| {
        let job = server
            .enqueue(json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}))
            .await;
        server.until(&job, "sent").await;
        // The delivery itself ends a moment after its job.
        let ended = async || server.get("/v1/nodes").await.body["items"][0]["endedLastMinute"].clone();
        while ended().await == 0 {}
        let answer = server.get("/v1/nodes").await;
        assert_eq!(answer.status, 200);
        let [node] = &answer.body["items"].as_array().unwrap()[..] else { panic!("{}", answer.body) };
        assert_eq!(node["health"], "ok");
        assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!((&node["endedLastMinute"], &node["sharePercent"]), (&json!(1), &json!(100.0)));

        let list = server.client().nodes().await.unwrap();
        assert_eq!(list.items[0].health, NodeHealth::Ok);
        assert_eq!(list.items[0].node_id, node["nodeId"]);
        assert!(list.items[0].last_seen_at >= list.items[0].started_at);
    })
    .await;
}
