//! Seed 002 (Evolution API) and seed 003 (TISS), and what the field knows about them.

use recado_core::Blame::{Credential, Message, Provider};
use recado_core::Class::{Permanent, RateLimit, Transient, Unknown};
use recado_core::Fault;
use recado_core::outcome::NetworkKind;

use crate::given::{assert_judged, classify, http, sandbox};

#[test]
fn w1_seed_002_list() {
    assert_judged(
        "evolution",
        [
            (http(400, "Bad Request"), Permanent, Message, "evolution/400"),
            (http(404, "Not Found"), Permanent, Message, "evolution/404"),
            (http(429, "Too Many Requests"), RateLimit, Provider, "evolution/429"),
            (http(500, ""), Transient, Provider, "evolution/500"),
            (http(502, ""), Transient, Provider, "evolution/502"),
            (http(503, ""), Transient, Provider, "evolution/503"),
            (http(504, ""), Transient, Provider, "evolution/504"),
            (Fault::network(NetworkKind::Timeout, ""), Transient, Provider, "evolution/network"),
        ],
    );
}

#[test]
fn w1_statuses_that_seed_002_leaves_open() {
    assert_judged(
        "evolution",
        [
            (http(401, "Unauthorized"), Permanent, Credential, "evolution/401"),
            (http(408, ""), Transient, Provider, "evolution/408"),
            (http(425, ""), Transient, Provider, "evolution/425"),
            (http(422, ""), Permanent, Message, "evolution/4xx"),
            (http(520, ""), Transient, Provider, "evolution/5xx"),
        ],
    );
}

fn refusal(message: &str) -> String {
    format!(r#"{{"status":400,"error":"Bad Request","response":{{"message":[{message}]}}}}"#)
}

#[test]
fn w1_the_body_knows_better_than_the_400() {
    let absent = refusal(r#"{"jid":"5511@s.whatsapp.net","exists":false,"number":"5511"}"#);
    let present = refusal(r#"{"jid":"5511@s.whatsapp.net","exists":true,"number":"5511"}"#);
    let closed = refusal(r#""Error: Connection Closed""#);
    let too_fast = refusal(r#""Error: rate-overlimit""#);
    let timed_out = refusal(r#""Error: Timed Out""#);
    assert_judged(
        "evolution",
        [
            (http(400, &absent), Permanent, Message, "evolution/not-on-whatsapp"),
            (http(400, r#"{"exists" : false}"#), Permanent, Message, "evolution/not-on-whatsapp"),
            (sandbox("400", "exists:false"), Permanent, Message, "evolution/not-on-whatsapp"),
            (http(400, &present), Permanent, Message, "evolution/400"),
            (http(400, &closed), Transient, Credential, "evolution/connection-closed"),
            (http(400, &too_fast), RateLimit, Credential, "evolution/rate-overlimit"),
            (http(400, &timed_out), Transient, Provider, "evolution/timed-out"),
            // The Cloud API channel answers 201 with the error inside.
            (http(201, &closed), Transient, Credential, "evolution/connection-closed"),
        ],
    );
}

#[test]
fn w1_an_unknown_instance_is_no_invalid_number() {
    let instance = r#"{"status":404,"response":{"message":["The \"loja-1\" instance does not exist"]}}"#;
    let number = r#"{"status":404,"response":{"message":["number not found"]}}"#;
    assert_judged(
        "evolution",
        [
            (http(404, instance), Permanent, Credential, "evolution/unknown-instance"),
            (http(404, number), Permanent, Message, "evolution/404"),
        ],
    );
}

const TISS_PERMANENT: [(&str, &str); 5] = [
    ("INVALID_PATIENT_DATA", "tiss/INVALID_PATIENT_DATA"),
    ("INSURANCE_EXPIRED", "tiss/INSURANCE_EXPIRED"),
    ("AUTHORIZATION_DENIED", "tiss/AUTHORIZATION_DENIED"),
    ("DUPLICATE_CLAIM", "tiss/DUPLICATE_CLAIM"),
    ("INVALID_PROCEDURE_CODE", "tiss/INVALID_PROCEDURE_CODE"),
];

const TISS_TRANSIENT: [(&str, &str); 9] = [
    ("TIMEOUT", "tiss/TIMEOUT"),
    ("CONNECTION_ERROR", "tiss/CONNECTION_ERROR"),
    ("SERVICE_UNAVAILABLE", "tiss/SERVICE_UNAVAILABLE"),
    ("NETWORK_ERROR", "tiss/NETWORK_ERROR"),
    ("TEMPORARY_ERROR", "tiss/TEMPORARY_ERROR"),
    ("RATE_LIMIT", "tiss/RATE_LIMIT"),
    ("SERVER_ERROR", "tiss/SERVER_ERROR"),
    ("503", "tiss/503"),
    ("504", "tiss/504"),
];

/// The error alone, in a sentence, in small letters, and as the code that a worker gives.
fn sayings(error: &str) -> [Fault; 4] {
    let said = |text: String| Fault { text: text.into(), ..Fault::default() };
    [
        said(error.to_owned()),
        said(format!("TISS refused the batch ({error}) at 10:30")),
        said(error.to_lowercase()),
        Fault::answer(error, "see the portal"),
    ]
}

#[test]
fn t2_seed_003_permanent_list_by_contains() {
    for (error, rule) in TISS_PERMANENT {
        assert_judged("tiss", sayings(error).map(|fault| (fault, Permanent, Message, rule)));
    }
}

#[test]
fn t2_seed_003_transient_list_by_contains() {
    for (error, rule) in TISS_TRANSIENT {
        assert_judged("tiss", sayings(error).map(|fault| (fault, Transient, Provider, rule)));
    }
}

#[test]
fn t2_a_permanent_error_wins_over_any_transient_one_beside_it() {
    for (permanent, rule) in TISS_PERMANENT {
        for (transient, _) in TISS_TRANSIENT {
            for text in [format!("{permanent} after {transient}"), format!("{transient}: {permanent}")] {
                let fault = Fault { text: text.into(), ..Fault::default() };
                assert_judged("tiss", [(fault, Permanent, Message, rule)]);
            }
        }
    }
}

#[test]
fn t2_over_http_503_and_504_are_transient_and_what_the_body_says_comes_first() {
    let named = Fault { code: Some("ERR-9".into()), ..http(504, "") };
    assert_judged(
        "tiss",
        [
            (http(503, ""), Transient, Provider, "tiss/503"),
            (named, Transient, Provider, "tiss/status-503-504"),
            (http(503, "DUPLICATE_CLAIM"), Permanent, Message, "tiss/DUPLICATE_CLAIM"),
            (Fault::network(NetworkKind::Connect, ""), Transient, Provider, "tiss/network"),
        ],
    );
}

#[test]
fn t4_what_neither_list_of_seed_003_names_is_unknown_and_retried() {
    for error in ["Erro inesperado", "INVALID_PATIENT", "400", "INSURANCE EXPIRED"] {
        let failure = classify("tiss", Fault { text: error.into(), ..Fault::default() });
        assert_eq!((failure.class, &*failure.rule), (Unknown, "recado/unknown"), "{error}");
        assert!(failure.class.is_retryable());
    }
}
