//! Sampling and encoding of spans; the way to a collector is tested end to end.

use recado_core::{Timestamp, TraceParent};
use recado_engine::traces::{Attribute, SpanKind};
use serde_json::json;

use super::*;

fn exporter(sample: f64) -> (Exporter, mpsc::Receiver<Span>) {
    let (queue, spans) = mpsc::channel(2);
    (Exporter { queue, sample, counts: Arc::default() }, spans)
}

fn span() -> Span {
    Span {
        name: "attempt",
        kind: SpanKind::Client,
        context: TraceParent::new(0xabc, 0xdef).unwrap().sampled(),
        parent: Some(7),
        started_at: Timestamp::from_millis(1_700_000_000_123),
        took: Duration::from_micros(1_500),
        failed: true,
        attributes: vec![
            ("route", "email".into()),
            ("attempt", Attribute::Number(2)),
            ("duplicate", Attribute::Flag(false)),
        ],
    }
}

#[test]
fn a_share_of_the_traces_is_sampled_by_their_ids_alone() {
    let sampled = |share: f64| {
        let (exporter, _) = exporter(share);
        (0..1_000_u128).filter(|n| exporter.samples(n * (u128::from(u64::MAX) / 1_000))).count()
    };
    assert_eq!((sampled(0.0), sampled(1.0)), (0, 1_000));
    assert!((240..=260).contains(&sampled(0.25)), "{}", sampled(0.25));
}

#[test]
fn what_there_is_no_room_for_is_dropped_and_counted() {
    let (exporter, mut spans) = exporter(1.0);
    (0..5).for_each(|_| exporter.record(span()));
    assert_eq!(exporter.spans(), Spans { exported: 0, dropped: 3 });
    assert_eq!(take(&mut Vec::new(), &mut spans).len(), 2);
}

#[test]
fn a_span_is_written_as_the_specification_has_it() {
    let body =
        otlp::request(&otlp::resource("node-1"), &[span(), Span { parent: None, failed: false, ..span() }]);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let resource = &body["resourceSpans"][0]["resource"]["attributes"];
    assert_eq!(resource[0], json!({ "key": "service.name", "value": { "stringValue": "recado" } }));
    let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let expected = json!({
        "traceId": "00000000000000000000000000000abc",
        "spanId": "0000000000000def",
        "parentSpanId": "0000000000000007",
        "name": "attempt",
        "kind": 3,
        "startTimeUnixNano": "1700000000123000000",
        "endTimeUnixNano": "1700000000124500000",
        "attributes": [
            { "key": "route", "value": { "stringValue": "email" } },
            { "key": "attempt", "value": { "intValue": "2" } },
            { "key": "duplicate", "value": { "boolValue": false } },
        ],
        "status": { "code": 2 },
    });
    assert_eq!(spans[0], expected);
    assert_eq!((spans[1].get("parentSpanId"), &spans[1]["status"]), (None, &json!({})));
}

#[test]
fn a_collector_that_took_only_some_says_how_many_it_did_not() {
    for (answer, count) in [
        ("{}", 0),
        (r#"{"partialSuccess":{}}"#, 0),
        (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#, 3),
        (r#"{"partialSuccess":{"rejectedSpans":3}}"#, 3),
    ] {
        assert_eq!(rejected(Payload::new(answer).ok().as_ref()), count, "{answer}");
    }
    assert_eq!(rejected(None), 0);
}

#[test]
fn only_what_may_work_later_is_tried_again() {
    let answered = |status: u16| {
        judge(Fault { status: Some(status), ..Fault::answer(&status.to_string(), "words of its own") })
    };
    assert!(RETRIED.into_iter().all(|status| matches!(answered(status), Tried::Later { .. })));
    for status in [400, 401, 404, 413, 500] {
        let Tried::Refused { why } = answered(status) else { panic!("{status} is tried again") };
        assert_eq!(why, format!("it answers {status}"), "its words are not repeated");
    }
    let away = Fault::network(recado_core::NetworkKind::Connect, "no connection");
    assert!(matches!(judge(away), Tried::Later { .. }));
}
