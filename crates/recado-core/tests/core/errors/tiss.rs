//! TISS claims: both required lists, matched by *contains*.

use recado_core::Blame::Message;
use recado_core::Class::{Permanent, Unknown};
use recado_core::Fault;
use recado_core::outcome::NetworkKind;

use crate::given::{assert_judged, classify, http};

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

/// `fn name() { error => class, blame }`: however it is said, the rule is the error's own.
macro_rules! contains {
    ($(fn $name:ident() { $error:literal => $class:ident, $blame:ident })*) => {$(
        #[test]
        fn $name() {
            let (class, blame) = (recado_core::Class::$class, recado_core::Blame::$blame);
            let rule = concat!("tiss/", $error);
            assert_judged("tiss", sayings($error).map(|fault| (fault, class, blame, rule)));
        }
    )*};
}

contains! {
    fn t2_invalid_patient_data_is_permanent() { "INVALID_PATIENT_DATA" => Permanent, Message }
    fn t2_insurance_expired_is_permanent() { "INSURANCE_EXPIRED" => Permanent, Message }
    fn t2_authorization_denied_is_permanent_and_no_matter_of_credentials() {
        "AUTHORIZATION_DENIED" => Permanent, Message
    }
    fn t2_duplicate_claim_is_permanent() { "DUPLICATE_CLAIM" => Permanent, Message }
    fn t2_invalid_procedure_code_is_permanent() { "INVALID_PROCEDURE_CODE" => Permanent, Message }
}

contains! {
    fn t2_timeout_is_transient() { "TIMEOUT" => Transient, Provider }
    fn t2_connection_error_is_transient() { "CONNECTION_ERROR" => Transient, Provider }
    fn t2_service_unavailable_is_transient() { "SERVICE_UNAVAILABLE" => Transient, Provider }
    fn t2_network_error_is_transient() { "NETWORK_ERROR" => Transient, Provider }
    fn t2_temporary_error_is_transient() { "TEMPORARY_ERROR" => Transient, Provider }
    fn t2_rate_limit_is_transient() { "RATE_LIMIT" => Transient, Provider }
    fn t2_server_error_is_transient() { "SERVER_ERROR" => Transient, Provider }
    fn t2_503_is_transient() { "503" => Transient, Provider }
    fn t2_504_is_transient() { "504" => Transient, Provider }
}

rows! { "tiss":
    fn t2_over_http_503_is_transient() { http(503, "") => Transient, Provider, "tiss/503" }
    fn t2_over_http_504_with_a_name_of_its_own_is_transient() {
        Fault { code: Some("ERR-9".into()), ..http(504, "") } => Transient, Provider, "tiss/status-503-504"
    }
    fn t2_over_http_the_body_comes_before_the_status() {
        http(503, "DUPLICATE_CLAIM") => Permanent, Message, "tiss/DUPLICATE_CLAIM"
    }
    fn t2_a_connection_that_is_refused_is_transient() {
        Fault::network(NetworkKind::Connect, "") => Transient, Provider, "tiss/network"
    }
    fn t4_an_unexpected_error_is_unknown_and_retried() {
        Fault { text: "Erro inesperado".into(), ..Fault::default() } => Unknown, Provider, "recado/unknown"
    }
    fn t4_an_error_that_is_nearly_in_the_list_is_unknown_and_retried() {
        Fault::answer("INVALID_PATIENT", "") => Unknown, Provider, "recado/unknown"
    }
    fn t4_over_http_a_400_that_names_nothing_is_unknown_and_retried() {
        http(400, "") => Unknown, Provider, "recado/unknown"
    }
}

const PERMANENT: [&str; 5] = [
    "tiss/INVALID_PATIENT_DATA",
    "tiss/INSURANCE_EXPIRED",
    "tiss/AUTHORIZATION_DENIED",
    "tiss/DUPLICATE_CLAIM",
    "tiss/INVALID_PROCEDURE_CODE",
];

const TRANSIENT: [&str; 9] = [
    "tiss/TIMEOUT",
    "tiss/CONNECTION_ERROR",
    "tiss/SERVICE_UNAVAILABLE",
    "tiss/NETWORK_ERROR",
    "tiss/TEMPORARY_ERROR",
    "tiss/RATE_LIMIT",
    "tiss/SERVER_ERROR",
    "tiss/503",
    "tiss/504",
];

#[test]
fn t2_a_permanent_error_wins_over_any_transient_one_beside_it() {
    let error = |rule: &'static str| rule.trim_start_matches("tiss/");
    for permanent in PERMANENT {
        for transient in TRANSIENT.map(error) {
            let name = error(permanent);
            for text in [format!("{name} after {transient}"), format!("{transient}: {name}")] {
                let fault = Fault { text: text.into(), ..Fault::default() };
                assert_judged("tiss", [(fault, Permanent, Message, permanent)]);
            }
        }
    }
}

#[test]
fn t4_an_error_on_neither_list_is_unknown_and_retried() {
    for error in ["Erro inesperado", "INVALID_PATIENT", "400", "INSURANCE EXPIRED"] {
        let failure = classify("tiss", Fault { text: error.into(), ..Fault::default() });
        assert_eq!((failure.class, &*failure.rule), (Unknown, "recado/unknown"), "{error}");
        assert!(failure.class.is_retryable());
    }
}
