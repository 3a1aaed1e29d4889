//! Seed 004, what the field knows about its providers, and the mixed set.

use recado_core::Blame::{Credential, Message, Provider};
use recado_core::Class::{Permanent, RateLimit, Transient};
use recado_core::outcome::{Fault, NetworkKind};

use crate::given::{assert_judged, classify, http, sandbox, smtp};

const SEED_004_SETS: [&str; 3] = ["social", "openai", "http"];

#[test]
fn f7_seed_004_classification_table() {
    let table = [
        (500, Transient, Provider),
        (502, Transient, Provider),
        (503, Transient, Provider),
        (429, RateLimit, Provider),
        (400, Permanent, Message),
        (401, Permanent, Credential),
        (403, Permanent, Credential),
        (404, Permanent, Message),
    ];
    for set in SEED_004_SETS {
        for (status, class, blame) in table {
            let failure = classify(set, http(status, ""));
            let rule = format!("{set}/{status}");
            assert_eq!((failure.class, failure.blame, &*failure.rule), (class, blame, &*rule), "{status}");
        }
        let timeout = classify(set, Fault::network(NetworkKind::Timeout, "30 s"));
        assert_eq!((timeout.class, timeout.blame), (Transient, Provider), "{set}: timeout");
    }
}

#[test]
fn f7_statuses_that_seed_004_leaves_open() {
    let table = [
        (408, Transient, Provider, "408"),
        (425, Transient, Provider, "425"),
        (504, Transient, Provider, "504"),
        (501, Transient, Provider, "5xx"),
        (599, Transient, Provider, "5xx"),
        (410, Permanent, Message, "410"),
        (422, Permanent, Message, "4xx"),
        (301, Permanent, Message, "3xx"),
        (307, Permanent, Message, "3xx"),
    ];
    for set in SEED_004_SETS {
        for (status, class, blame, row) in table {
            let failure = classify(set, http(status, ""));
            let rule = format!("{set}/{row}");
            assert_eq!((failure.class, failure.blame, &*failure.rule), (class, blame, &*rule), "{status}");
        }
    }
}

fn graph(code: u16) -> String {
    format!(
        r#"{{"error":{{"message":"(#{code}) no","type":"OAuthException","code":{code},"error_subcode":190}}}}"#
    )
}

#[test]
fn meta_graph_codes_decide_before_the_status() {
    let table = [
        (1, Transient, Provider, "social/graph-1"),
        (2, Transient, Provider, "social/graph-2"),
        (4, RateLimit, Provider, "social/graph-4"),
        (17, RateLimit, Credential, "social/graph-17"),
        (341, RateLimit, Provider, "social/graph-341"),
        (368, Transient, Credential, "social/graph-368"),
        (102, Permanent, Credential, "social/graph-102"),
        (190, Permanent, Credential, "social/graph-190"),
        (10, Permanent, Credential, "social/graph-10"),
        (200, Permanent, Credential, "social/graph-2xx"),
        (299, Permanent, Credential, "social/graph-2xx"),
        (506, Permanent, Message, "social/graph-506"),
        // Not in the list, however alike they look.
        (100, Permanent, Message, "social/400"),
        (1900, Permanent, Message, "social/400"),
        (2000, Permanent, Message, "social/400"),
        (40, Permanent, Message, "social/400"),
    ];
    assert_judged(
        "social",
        table.map(|(code, class, blame, rule)| (http(400, &graph(code)), class, blame, rule)),
    );
}

#[test]
fn meta_is_transient_saves_a_refusal() {
    let flagged = |flag| format!(r#"{{"error":{{"code":190,"is_transient": {flag}}}}}"#);
    assert_judged(
        "social",
        [
            (http(400, &flagged("true")), Transient, Provider, "social/graph-is-transient"),
            (http(400, &flagged("false")), Permanent, Credential, "social/graph-190"),
        ],
    );
}

#[test]
fn meta_codes_are_not_read_into_other_answers() {
    let youtube = r#"{"error":{"code":403,"message":"Forbidden","errors":[{"reason":"forbidden"}]}}"#;
    let tiktok = r#"{"error":{"code":"scope_not_authorized","log_id":"190"}}"#;
    assert_judged(
        "social",
        [
            (http(403, youtube), Permanent, Credential, "social/403"),
            (http(404, &graph(2)), Permanent, Message, "social/404"),
            (http(503, &graph(190)), Transient, Provider, "social/503"),
            (http(401, tiktok), Permanent, Credential, "social/401"),
            (http(400, r#"{"error_code":190,"zip_code":4}"#), Permanent, Message, "social/400"),
        ],
    );
    assert_judged("http", [(http(400, &graph(2)), Permanent, Message, "http/400")]);
}

#[test]
fn tiktok_names_are_known() {
    let body = |name| format!(r#"{{"error":{{"code":"{name}","message":"no"}}}}"#);
    let by_name = |status, name| http(status, &body(name));
    assert_judged(
        "social",
        [
            (by_name(429, "rate_limit_exceeded"), RateLimit, Provider, "social/rate_limit_exceeded"),
            (by_name(500, "internal_error"), Transient, Provider, "social/internal_error"),
            (by_name(401, "access_token_invalid"), Permanent, Credential, "social/access_token_invalid"),
            (by_name(400, "invalid_params"), Permanent, Message, "social/invalid_params"),
            // Older endpoints answer 200 and put the error inside.
            (by_name(200, "internal_error"), Transient, Provider, "social/internal_error"),
        ],
    );
}

#[test]
fn youtube_quotas_are_a_matter_of_waiting() {
    let body = |reason| format!(r#"{{"error":{{"code":403,"errors":[{{"reason":"{reason}"}}]}}}}"#);
    assert_judged(
        "social",
        [
            (http(403, &body("quotaExceeded")), RateLimit, Credential, "social/quotaExceeded"),
            (http(400, &body("uploadLimitExceeded")), RateLimit, Credential, "social/uploadLimitExceeded"),
        ],
    );
}

#[test]
fn openai_tells_too_fast_from_out_of_credit() {
    let body = |code| format!(r#"{{"error":{{"message":"no","type":"x","code":"{code}"}}}}"#);
    assert_judged(
        "openai",
        [
            (http(429, &body("rate_limit_exceeded")), RateLimit, Provider, "openai/rate_limit_exceeded"),
            (http(429, &body("insufficient_quota")), Permanent, Credential, "openai/insufficient_quota"),
            (http(429, ""), RateLimit, Provider, "openai/429"),
            (http(503, "The engine is currently overloaded"), Transient, Provider, "openai/503"),
            (http(401, &body("invalid_api_key")), Permanent, Credential, "openai/401"),
        ],
    );
}

#[test]
fn general_knows_smtp_and_http_and_reads_500_to_503_as_http() {
    for answer in [smtp, sandbox] {
        assert_judged(
            "general",
            [
                (answer("500", ""), Transient, Provider, "general/500"),
                (answer("501", ""), Transient, Provider, "general/5xx"),
                (answer("502", ""), Transient, Provider, "general/502"),
                (answer("503", "Service Temporarily Unavailable"), Transient, Provider, "general/503"),
                (answer("504", ""), Transient, Provider, "general/504"),
                (answer("421", "try later"), Transient, Provider, "general/421"),
                (answer("450", ""), Transient, Message, "general/450"),
                (answer("451", ""), Transient, Provider, "general/451"),
                (answer("452", ""), Transient, Provider, "general/452"),
                (answer("455", ""), Transient, Provider, "general/45x"),
                (answer("551", ""), Permanent, Message, "general/551"),
                (answer("552", ""), Permanent, Message, "general/552"),
                (answer("552", "too many recipients"), Transient, Message, "general/x52-too-many-recipients"),
                (answer("553", ""), Permanent, Message, "general/553"),
                (answer("554", ""), Permanent, Message, "general/554"),
                (answer("555", ""), Permanent, Message, "general/55x"),
                (answer("535", ""), Permanent, Credential, "general/535"),
                (answer("400", ""), Permanent, Message, "general/400"),
                (answer("401", ""), Permanent, Credential, "general/401"),
                (answer("404", ""), Permanent, Message, "general/404"),
                (answer("408", ""), Transient, Provider, "general/408"),
                (answer("422", ""), Permanent, Message, "general/4xx"),
                (answer("429", "retry-after=2"), RateLimit, Provider, "general/429"),
                (answer("302", ""), Permanent, Message, "general/3xx"),
                (answer("Throttling", "slow down"), RateLimit, Provider, "general/Throttling"),
                (answer("MessageRejected", "no"), Permanent, Message, "general/MessageRejected"),
            ],
        );
    }
}

#[test]
fn general_reads_the_status_of_an_answer_whose_name_it_does_not_know() {
    let named = |status| Fault { code: Some("WeirdError".into()), ..http(status, "") };
    assert_judged(
        "general",
        [
            (named(400), Permanent, Message, "general/status/400"),
            (named(429), RateLimit, Provider, "general/status/429"),
            (named(503), Transient, Provider, "general/status/503"),
        ],
    );
}
