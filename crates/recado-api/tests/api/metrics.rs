//! `GET /metrics`, `GET /v1/alerts` and `GET /v1/kpis`.

use recado_core::alert::Unit;
use recado_wire::kpis::{KpiQuery, KpiVerdict};
use serde_json::json;

use crate::given::{Server, Setup, on_each_store};

/// Status, content type and text.
async fn page(server: &Server, token: Option<&str>) -> (u16, String, String) {
    let request = server.http.get(server.url("/metrics"));
    let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
    let answer = request.send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), kind, answer.text().await.unwrap())
}

#[tokio::test]
async fn g18_answers_are_counted_by_the_pattern_that_matched() {
    on_each_store(async |server: &Server| {
        for id in ["a", "b", "c"] {
            server.get(&format!("/v1/jobs/{id}")).await;
        }
        server.get("/nothing/here/4711").await;
        let (status, kind, page) = page(server, None).await;
        assert_eq!((status, &*kind), (200, recado_observe::CONTENT_TYPE));
        let samples = [
            r#"recado_http_requests_total{method="GET",path="/v1/jobs/{jobId}",status="404"} 3"#,
            r#"recado_http_requests_total{method="GET",path="other",status="404"} 1"#,
        ];
        for sample in samples {
            assert!(page.lines().any(|line| line == sample), "{sample} is not on\n{page}");
        }
        assert!(!page.contains("4711"), "what was asked for is no label");
    })
    .await;
}

#[tokio::test]
async fn the_page_asks_for_the_token_and_counts_whom_it_turned_away() {
    let server = Server::start(Setup { token: Some("s3cret"), ..Setup::default() }).await;
    assert_eq!(page(&server, None).await.0, 401);
    let (status, _, page) = page(&server, Some("s3cret")).await;
    assert_eq!(status, 200);
    let sample = r#"recado_http_requests_total{method="GET",path="/metrics",status="401"} 1"#;
    assert!(page.lines().any(|line| line == sample), "{page}");
}

#[tokio::test]
async fn t15_the_client_reads_alerts_and_indicators() {
    on_each_store(async |server: &Server| {
        let job = json!({"route": "sandbox", "companyId": "acme", "data": {"script": ["503 busy", "ok"]}});
        let job = server.enqueue(job).await;
        server.until(&job, "sent").await;
        let client = server.client();
        let all = KpiQuery::default();
        while client.kpis(&all).await.unwrap().success_after_retry.volume == 0 {}
        let kpis = client.kpis(&all).await.unwrap();
        assert_eq!(kpis.success_after_retry.value, Some(1.0));
        assert_eq!(kpis.success_after_retry.verdict, KpiVerdict::TooFew, "one job proves nothing");
        assert_eq!((kpis.success_after_retry.met, kpis.success_after_retry.min_volume), (None, 20));
        assert!(kpis.since >= client.nodes().await.unwrap().items[0].started_at);
        let told = kpis
            .course
            .iter()
            .fold((0, 0, 0), |sum, part| (sum.0 + part.sent, sum.1 + part.retried, sum.2 + part.dead));
        assert_eq!((told, kpis.course_part_ms), ((1, 1, 0), 1_800_000));
        assert!(kpis.course.len() <= 2, "nothing was counted before the process began: {:?}", kpis.course);
        let routes: Vec<_> =
            kpis.by_route.iter().map(|flow| (&*flow.route, flow.attempts, flow.failed, flow.sent)).collect();
        assert_eq!(routes, [("sandbox", 2, 1, 1)]);
        let alerts = client.alerts().await.unwrap();
        assert!(alerts.items.is_empty());
        let units = alerts.rules.iter().map(|rule| (&*rule.name, rule.unit));
        assert!(units.clone().any(|one| one == ("queue_age", Unit::Time)));
        assert!(units.clone().any(|one| one == ("dlq_rate", Unit::Share)));
        assert!(alerts.rules.iter().any(|rule| rule.name == "failure_rate" && rule.threshold == 0.1));
    })
    .await;
}
