//! A job's trace from its caller to its provider, with a collector that hears of every step.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::asking::{JSON, ask_with};
use super::far_ends::collector::{self, attribute, spans_of};
use super::far_ends::mail::Relay;
use super::far_ends::{Act, FarEnd, Request, evolution, page, receiver, ses};
use super::scene::Scene;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Retried at once, so that a test can see the end of it.
const HASTY: &str = "[routes.whatsapp]\npolicy = { schedule = [\"0s\", \"20ms\", \"20ms\", \"20ms\"] }\n";

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

fn text(number: &str) -> Value {
    json!({ "number": number, "text": "Olá! Sua consulta é amanhã às 9h." })
}

/// Enqueues within the caller's trace.
#[track_caller]
fn send(scene: &Scene, route: &str, id: &str, data: &Value, flags: &str) {
    let body = json!({ "jobId": id, "route": route, "companyId": "acme", "data": data }).to_string();
    let headers = [JSON, ("traceparent", &parent(flags))];
    let (status, answer) = ask_with(scene.address, ("POST", "/v1/jobs"), &headers, &body);
    assert_eq!(status, 202, "{answer}");
}

/// Trace, span and flags that a request carries.
#[track_caller]
fn carried(request: &Request) -> [String; 3] {
    let header = request.header("traceparent");
    let parts: Vec<_> = header.split('-').map(str::to_owned).collect();
    let [version, trace, span, flags] = <[String; 4]>::try_from(parts).expect(header);
    assert_eq!(version, "00");
    [trace, span, flags]
}

fn with_collector(provider: &FarEnd, collector: &FarEnd) -> Scene {
    Scene::with(&format!("{}{HASTY}{}", evolution::provider(provider), collector::config(collector)))
}

#[test]
fn collector_and_provider_hear_of_the_same_attempts_and_retries_are_siblings_below_the_caller() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    provider.orders("5511900000001", [page(503)]);
    send(&scene, "whatsapp", "order-1", &text("5511900000001"), "01");
    let job = scene.sent("order-1");
    assert_eq!(job["traceparent"], json!(parent("01")), "the job says whose trace it is in");

    let asked: Vec<_> = provider.about("5511900000001").iter().map(carried).collect();
    assert_eq!(asked.len(), 2, "the fault fired");
    for [trace, _, flags] in &asked {
        assert_eq!((&**trace, &**flags), (TRACE, "01"));
    }
    let ids: BTreeSet<&str> = asked.iter().map(|[_, span, _]| &**span).chain([CALLER]).collect();
    assert_eq!(ids.len(), 3, "each attempt has a span of its own");

    let attempts = spans_of(&collector, "attempt", "order-1", 2);
    for (number, (span, [_, id, _])) in attempts.iter().zip(&asked).enumerate() {
        assert_eq!(span["spanId"], json!(id), "the provider and the collector mean the same attempt");
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(TRACE), &json!(CALLER)));
        assert_eq!(span["kind"], 3);
        for (key, value) in [
            ("route", json!("whatsapp")),
            ("companyId", json!("acme")),
            ("provider", json!("evolution")),
            ("attempt", json!((number + 1).to_string())),
        ] {
            assert_eq!(attribute(span, key), value, "{key}");
        }
        let nanos = |key: &str| span[key].as_str().expect("text").parse::<u128>().expect("nanoseconds");
        assert!(nanos("startTimeUnixNano") < nanos("endTimeUnixNano"), "{span:#}");
    }
    assert_eq!(
        ["result", "errorClassification", "rule"].map(|key| attribute(&attempts[0], key)),
        ["failed", "TRANSIENT", "evolution/503"].map(|word| json!(word))
    );
    assert_eq!((&attempts[0]["status"]["code"], &attempts[1]["status"]), (&json!(2), &json!({})));
    assert_eq!(attribute(&attempts[1], "result"), "sent");

    let enqueue = &spans_of(&collector, "enqueue", "order-1", 1)[0];
    assert_eq!((&enqueue["traceId"], &enqueue["parentSpanId"]), (&json!(TRACE), &json!(CALLER)));
    assert_eq!(enqueue["kind"], 2);
    let first = &collector.ledger()[0];
    assert_eq!(
        first.json()["resourceSpans"][0]["resource"]["attributes"][0],
        json!({ "key": "service.name", "value": { "stringValue": "recado" } })
    );
}

#[test]
fn without_a_caller_the_enqueue_begins_the_trace_and_every_attempt_is_below_it() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    provider.orders("5511900000002", [page(503)]);
    scene.send("whatsapp", "acme", "order-2", &text("5511900000002"));
    scene.sent("order-2");
    let enqueue = &spans_of(&collector, "enqueue", "order-2", 1)[0];
    assert_eq!(enqueue.get("parentSpanId"), None, "{enqueue:#}");
    let attempts = spans_of(&collector, "attempt", "order-2", 2);
    for (span, request) in attempts.iter().zip(provider.about("5511900000002")) {
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"]),
            (&enqueue["traceId"], &enqueue["spanId"]),
            "{span:#}"
        );
        let [trace, id, flags] = carried(&request);
        assert_eq!((&span["traceId"], &span["spanId"], &*flags), (&json!(trace), &json!(id), "01"));
    }
}

#[test]
fn a_call_and_what_it_asks_are_in_the_callers_trace() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    let body = json!({ "route": "whatsapp", "companyId": "acme", "data": text("5511900000003") }).to_string();
    let headers = [JSON, ("traceparent", &parent("01"))];
    let (status, answer) = ask_with(scene.address, ("POST", "/v1/calls"), &headers, &body);
    assert_eq!(status, 200, "{answer}");
    let [trace, id, _] = carried(&provider.only("5511900000003"));
    assert_eq!(trace, TRACE);
    collector.once(&id, 1);
    let spans = collector::spans(&collector);
    let [call, attempt] = ["call", "attempt"].map(|name| spans.iter().find(|span| span["name"] == name));
    let (call, attempt) = (call.expect("a call"), attempt.expect("an attempt"));
    assert_eq!((&attempt["spanId"], &attempt["parentSpanId"]), (&json!(id), &json!(CALLER)));
    assert_eq!((&call["parentSpanId"], attribute(call, "result")), (&json!(CALLER), json!("answered")));
}

#[test]
fn what_the_caller_does_not_record_is_passed_on_and_not_recorded() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    send(&scene, "whatsapp", "unrecorded", &text("5511900000004"), "00");
    send(&scene, "whatsapp", "recorded", &text("5511900000005"), "01");
    scene.sent("unrecorded");
    assert_eq!(carried(&provider.only("5511900000004"))[2], "00");
    spans_of(&collector, "attempt", "recorded", 1);
    scene.restarted();
    let recorded: BTreeSet<_> =
        collector::spans(&collector).iter().map(|span| attribute(span, "jobId").to_string()).collect();
    assert_eq!(recorded, BTreeSet::from(["\"recorded\"".to_owned()]));
}

#[test]
fn without_a_collector_the_callers_trace_is_passed_on_and_none_is_made_up() {
    let (http, customer, aws, relay) = (evolution::start(), receiver::start(), ses::start(), Relay::start());
    let scene = Scene::with(&format!(
        "{}{}{}{}",
        evolution::provider(&http),
        ses::provider(&aws),
        relay.provider(),
        receiver::ALLOWED
    ));
    let (endpoint, _) = scene.endpoint("acme", &customer.url(), &["JobSent"]);
    let mail =
        json!({ "from": "acme@acme.example", "to": ["ana@example.com"], "subject": "Oi", "text": "Olá" });
    let hook = json!({ "endpointId": endpoint, "event": "order.paid", "payload": { "order": 7 } });
    for (route, id, data) in [
        ("whatsapp", "by-http", text("5511900000006")),
        ("webhook", "by-webhook", hook),
        ("email-ses", "by-ses", mail.clone()),
        ("email", "by-smtp", mail),
    ] {
        send(&scene, route, id, &data, "01");
        scene.sent(id);
    }
    let asked = [http.only("5511900000006"), customer.only("order"), aws.only("ana@example.com")];
    let spans: BTreeSet<_> = asked.iter().map(|request| carried(request)[1].clone()).collect();
    assert!(asked.iter().all(|request| carried(request)[0] == TRACE), "{asked:?}");
    assert_eq!(spans.len(), 3);
    let mail = String::from_utf8(relay.taken()[0].text.clone()).expect("text").to_lowercase();
    assert!(!mail.contains("traceparent") && !mail.contains(TRACE), "{mail}");
    // What tells of a job is in the job's trace.
    assert_eq!(carried(&customer.once("by-http", 1)[0])[0], TRACE);

    scene.send("whatsapp", "acme", "without-trace", &text("5511900000007"));
    let job = scene.sent("without-trace");
    assert_eq!((http.only("5511900000007").header("traceparent"), job.get("traceparent")), ("", None));
}

#[test]
fn a_collector_that_hangs_holds_up_neither_deliveries_nor_the_stop() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    collector.always("", Act::silence());
    for number in 10..30 {
        scene.send("whatsapp", "acme", &format!("hung-{number}"), &text(&format!("55119000000{number}")));
    }
    for number in 10..30 {
        scene.sent(&format!("hung-{number}"));
    }
    collector.once("resourceSpans", 1);
    scene.sent("hung-29");
    let scene = scene.restarted();
    assert_eq!(scene.job("hung-10")["status"], "sent");
}

#[test]
fn a_collector_that_refuses_costs_spans_that_are_counted_and_is_told_of_once() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    collector.always("", super::far_ends::json(400, json!({ "message": "not these" })));
    for (id, number) in [("refused-1", "5511900000031"), ("refused-2", "5511900000032")] {
        let before = collector.ledger().len();
        scene.send("whatsapp", "acme", id, &text(number));
        scene.sent(id);
        collector.once("resourceSpans", before + 1);
    }
    let warned = scene.logged(
        "The collector of traces does not take spans; they are dropped until it does, and deliveries continue",
        1,
    );
    assert_eq!(warned[0]["why"], "it answers 400");
    let dropped = || {
        let (_, page) = ask_with(scene.address, ("GET", "/metrics"), &[], "");
        let line = page.lines().find_map(|line| line.strip_prefix("recado_trace_spans_dropped_total "));
        line.expect("a figure").parse::<f64>().expect("a number")
    };
    super::given::eventually(|| dropped() >= 4.0);
    collector.recovers();
    scene.send("whatsapp", "acme", "taken", &text("5511900000033"));
    spans_of(&collector, "attempt", "taken", 1);
    scene.logged("The collector of traces takes spans again", 1);
    assert_eq!(scene.logged(warned[0]["message"].as_str().expect("words"), 1).len(), 1, "said once");
}

#[test]
fn what_is_queued_at_a_stop_reaches_the_collector() {
    let (provider, collector) = (evolution::start(), collector::start());
    let scene = with_collector(&provider, &collector);
    scene.send("whatsapp", "acme", "last", &text("5511900000040"));
    scene.sent("last");
    scene.restarted();
    let names: BTreeSet<_> =
        collector::spans(&collector).iter().map(|span| span["name"].to_string()).collect();
    assert_eq!(names, BTreeSet::from(["\"attempt\"".to_owned(), "\"enqueue\"".to_owned()]));
}
