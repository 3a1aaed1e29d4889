//! The classification table and rules, and HTTP in general.

use std::sync::Arc;
use std::time::Duration;

use recado_core::Class::RateLimit;
use recado_core::outcome::{Fault, NetworkKind};

use crate::given::{assert_judged, classify, http};

/// The sets that the table governs.
const SETS: [&str; 3] = ["social", "openai", "http"];

/// `fn name() { fault => class, blame, row }`, in each of these sets.
macro_rules! in_each_set {
    ($(fn $name:ident() { $fault:expr => $class:ident, $blame:ident, $row:literal })*) => {$(
        #[test]
        fn $name() {
            for set in SETS {
                let rule: &'static str = format!("{set}/{}", $row).leak();
                let row = ($fault, recado_core::Class::$class, recado_core::Blame::$blame, rule);
                assert_judged(set, [row]);
            }
        }
    )*};
}

// The table.
in_each_set! {
    fn f7_a_timeout_is_transient() {
        Fault::network(NetworkKind::Timeout, "no answer within 30 s") => Transient, Provider, "network"
    }
    fn f7_500_is_transient() { http(500, "Internal Server Error") => Transient, Provider, "500" }
    fn f7_502_is_transient() { http(502, "<html>Bad Gateway</html>") => Transient, Provider, "502" }
    fn f7_503_is_transient() { http(503, "Service Unavailable") => Transient, Provider, "503" }
    fn f7_429_is_a_rate_limit() { http(429, "Too Many Requests") => RateLimit, Provider, "429" }
    fn f7_429_with_retry_after_is_a_rate_limit() {
        Fault { retry_after: Some(Duration::from_secs(7)), ..http(429, "") } => RateLimit, Provider, "429"
    }
    fn f7_400_is_permanent() { http(400, "Bad Request") => Permanent, Message, "400" }
    fn f7_401_is_permanent_and_blames_the_credential() {
        http(401, "Unauthorized") => Permanent, Credential, "401"
    }
    fn f7_403_is_permanent_and_blames_the_credential() {
        http(403, "Forbidden") => Permanent, Credential, "403"
    }
    fn f7_404_is_permanent() { http(404, "Not Found") => Permanent, Message, "404" }
}

// The rules below the table: 5xx and network errors are retried.
in_each_set! {
    fn f8_501_is_transient_as_any_5xx() { http(501, "") => Transient, Provider, "5xx" }
    fn f8_504_is_transient() { http(504, "") => Transient, Provider, "504" }
    fn f8_599_is_transient_as_any_5xx() { http(599, "") => Transient, Provider, "5xx" }
    fn f8_an_unknown_host_is_transient() {
        Fault::network(NetworkKind::Dns, "no such host") => Transient, Provider, "network"
    }
    fn f8_a_refused_connection_is_transient() {
        Fault::network(NetworkKind::Connect, "connection refused") => Transient, Provider, "network"
    }
    fn f8_a_broken_handshake_is_transient() {
        Fault::network(NetworkKind::Tls, "certificate expired") => Transient, Provider, "network"
    }
    fn f8_a_lost_connection_is_transient() {
        Fault::network(NetworkKind::Dropped, "reset by peer") => Transient, Provider, "network"
    }
    fn f8_garbage_instead_of_an_answer_is_transient() {
        Fault::network(NetworkKind::Protocol, "invalid HTTP version") => Transient, Provider, "network"
    }
}

// Statuses that the table leaves open.
in_each_set! {
    fn http_408_is_transient() { http(408, "") => Transient, Provider, "408" }
    fn http_425_is_transient() { http(425, "") => Transient, Provider, "425" }
    fn http_410_is_permanent() { http(410, "Gone") => Permanent, Message, "410" }
    fn http_409_is_permanent_as_any_other_4xx() { http(409, "") => Permanent, Message, "4xx" }
    fn http_422_is_permanent_as_any_other_4xx() { http(422, "") => Permanent, Message, "4xx" }
    fn http_301_is_permanent_for_it_is_not_followed() { http(301, "") => Permanent, Message, "3xx" }
    fn http_302_is_permanent_for_it_is_not_followed() { http(302, "") => Permanent, Message, "3xx" }
    fn http_307_is_permanent_for_it_is_not_followed() { http(307, "") => Permanent, Message, "3xx" }
    fn http_308_is_permanent_for_it_is_not_followed() { http(308, "") => Permanent, Message, "3xx" }
}

// What the webhook transport says before it reaches out.
rows! { "http":
    fn http_endpoint_unknown_is_permanent() {
        Fault::answer("ENDPOINT_UNKNOWN", "this company has no such endpoint")
            => Permanent, Message, "http/ENDPOINT_UNKNOWN"
    }
    fn http_endpoint_disabled_is_permanent() {
        Fault::answer("ENDPOINT_DISABLED", "switched off after 10 failures in a row")
            => Permanent, Message, "http/ENDPOINT_DISABLED"
    }
    fn http_address_refused_is_permanent() {
        Fault::answer("ADDRESS_REFUSED", "the name leads to a private address")
            => Permanent, Message, "http/ADDRESS_REFUSED"
    }
    fn http_a_body_that_mentions_such_a_code_is_judged_by_its_status() {
        http(503, "ENDPOINT_DISABLED") => Transient, Provider, "http/503"
    }
    fn http_a_body_in_the_manner_of_graph_is_judged_by_its_status() {
        http(400, r#"{"error":{"code":2,"is_transient":true}}"#) => Permanent, Message, "http/400"
    }
}

#[test]
fn f8_the_wish_to_be_asked_later_stays_with_the_failure() {
    for set in SETS {
        let wish = Some(Duration::from_secs(7));
        let failure = classify(set, Fault { retry_after: wish, ..http(429, "") });
        assert_eq!((failure.class, failure.retry_after), (RateLimit, wish), "{set}");
    }
}

#[test]
fn f8_a_wish_is_bounded_by_hold_max_and_the_operators_own_wait_is_not() {
    let century = Fault { retry_after: Some(Duration::from_secs(3_000_000_000)), ..http(429, "") };
    let hour = Duration::from_secs(3_600);
    assert_eq!(classify("http", century.clone()).retry_after, Some(hour));
    let mut own = super::super::given::set("http").clone();
    own.hold_max = Duration::from_secs(60);
    assert_eq!(own.classify(century.clone()).retry_after, Some(own.hold_max));
    Arc::make_mut(&mut own.rules).iter_mut().for_each(|rule| rule.wait = Some(6 * hour));
    let silent = Fault { retry_after: None, ..century };
    assert_eq!((own.classify(silent).retry_after, own.longest_wait()), (Some(6 * hour), 6 * hour));
}
