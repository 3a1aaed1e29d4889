//! Names that stand in stores, on the wire and in people's queries, and what is refused at the edge.

use recado_core::{
    Attempt, AttemptResult, Blame, Cause, Class, CompanyId, DeadLetterState, JobId, Payload, Priority,
    RouteName, Status,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::given::{after, attempts, buried, job, judged, smtp};

fn shown(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn g17_schemas_refuse_what_is_not_a_name_a_payload_or_a_priority() {
    for bad in ["", "a b", "São", "a/b", "x'; DROP", &"x".repeat(129)] {
        assert!(JobId::new(bad).is_err(), "{bad}");
        assert!(CompanyId::new(bad).is_err(), "{bad}");
        assert!(RouteName::new(bad).is_err(), "{bad}");
        assert!(serde_json::from_value::<JobId>(bad.into()).is_err(), "{bad}");
    }
    for bad in ["", "{", "{} {}", "{'a':1}", "undefined"] {
        assert!(Payload::new(bad).is_err(), "{bad}");
    }
    let levels: Vec<u8> = (0..=255).filter(|level| Priority::new(*level).is_some()).collect();
    assert_eq!(levels, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(Priority::default().level(), 5);
}

#[test]
fn g17_schemas_keep_what_is_good() {
    assert_eq!(JobId::new("123e4567-e89b-12d3-a456-426614174000").unwrap().as_str().len(), 36);
    assert_eq!(Payload::new(r#" {"a": 1} "#).unwrap().parse::<Value>().unwrap(), json!({"a": 1}));
}

#[test]
fn classes_blames_causes_and_results_have_the_contracts_names() {
    let classes = [Class::Transient, Class::Permanent, Class::RateLimit, Class::Unknown];
    assert_eq!(shown(classes), json!(["TRANSIENT", "PERMANENT", "RATE_LIMIT", "UNKNOWN"]));
    assert_eq!(shown(classes), shown(classes.map(Class::as_str)));
    assert_eq!(
        shown(Cause::ALL),
        json!(["EXHAUSTED", "PERMANENT", "EXPIRED", "INVALID_PAYLOAD", "FALLBACK"])
    );
    assert_eq!(shown(Cause::ALL), shown(Cause::ALL.map(Cause::as_str)));
    assert_eq!(
        shown([Blame::Message, Blame::Credential, Blame::Provider]),
        json!(["message", "credential", "provider"])
    );
    assert_eq!(shown([DeadLetterState::Dead, DeadLetterState::Replaying]), json!(["dead", "replaying"]));
    let results = [AttemptResult::Sent, AttemptResult::Failed, AttemptResult::Uncertain, AttemptResult::Lost];
    assert_eq!(shown(results), json!(["sent", "failed", "uncertain", "lost"]));
}

#[test]
fn statuses_have_the_contracts_names() {
    let names = "scheduled queued delivering retrying parked sent failed cancelled discarded";
    assert_eq!(shown(Status::ALL), shown(names.split(' ').collect::<Vec<_>>()));
    for status in Status::ALL {
        assert_eq!(Status::parse(status.as_str()), Some(status));
        assert_eq!(shown(status), status.to_string());
    }
}

#[test]
fn causes_read_back_and_strangers_do_not() {
    for cause in Cause::ALL {
        assert_eq!(Cause::parse(cause.as_str()), Some(cause));
    }
    assert_eq!(Cause::parse("exhausted"), None);
}

#[test]
fn an_attempt_on_the_wire_has_the_contracts_fields_and_reads_back() {
    let (transition, _) = after(job(), judged("smtp", smtp("550", "5.1.1 no such user")), &attempts(5));
    let attempt = buried(transition).attempt.unwrap();
    let wire = json!({
        "attempt": 1,
        "startedAt": "2025-01-12T10:30:00.000Z",
        "endedAt": "2025-01-12T10:30:00.040Z",
        "result": "failed",
        "errorCode": "550",
        "errorReason": "5.1.1 no such user",
        "errorClassification": "PERMANENT",
        "rule": "smtp/550",
        "blame": "message",
    });
    assert_eq!(shown(&attempt), wire);
    assert_eq!(serde_json::from_value::<Attempt>(wire).unwrap(), attempt);
}
