//! Evolution API (WhatsApp): the required list, and the bodies that know better than their status.

use recado_core::Class::Transient;
use recado_core::Fault;
use recado_core::outcome::NetworkKind;
use serde_json::json;

use crate::given::{classify, http, sandbox};

/// A refusal of the server: the status again, its name, and the message.
fn refusal(status: u16, error: &str, message: &str) -> Fault {
    let body = format!(r#"{{"status":{status},"error":"{error}","response":{{"message":[{message}]}}}}"#);
    http(status, &body)
}

fn bad_request(message: &str) -> Fault {
    refusal(400, "Bad Request", message)
}

/// Meta's refusal, as the Cloud API channel passes it on inside a 201.
fn cloud(code: u32, message: &str) -> Fault {
    let body = json!({
        "message": format!("(#{code}) {message}"),
        "type": "OAuthException",
        "code": code,
        "error_data": { "messaging_product": "whatsapp", "details": "no" },
        "fbtrace_id": "A190",
    });
    Fault { code: Some(code.to_string().into()), ..http(201, &body.to_string()) }
}

// Required.
rows! { "evolution":
    fn w1_400_bad_request_is_permanent() {
        bad_request(r#""Owned media must be a url or base64""#) => Permanent, Message, "evolution/400"
    }
    fn w1_404_not_found_is_permanent() {
        refusal(404, "Not Found", r#""number not found""#) => Permanent, Message, "evolution/404"
    }
    fn w1_429_too_many_requests_is_a_rate_limit() {
        http(429, "Too Many Requests") => RateLimit, Provider, "evolution/429"
    }
    fn w1_500_is_transient() {
        refusal(500, "Internal Server Error", r#""boom""#) => Transient, Provider, "evolution/500"
    }
    fn w1_502_is_transient() { http(502, "<html>Bad Gateway</html>") => Transient, Provider, "evolution/502" }
    fn w1_503_is_transient() { http(503, "") => Transient, Provider, "evolution/503" }
    fn w1_504_is_transient() { http(504, "") => Transient, Provider, "evolution/504" }
    fn w1_a_timeout_is_transient() {
        Fault::network(NetworkKind::Timeout, "") => Transient, Provider, "evolution/network"
    }
}

// Statuses that the requirement leaves open.
rows! { "evolution":
    fn w1_401_blames_the_key() {
        refusal(401, "Unauthorized", r#""Unauthorized""#) => Permanent, Credential, "evolution/401"
    }
    fn w1_403_blames_the_key() {
        refusal(403, "Forbidden", r#""not allowed""#) => Permanent, Credential, "evolution/403"
    }
    fn w1_408_is_transient() { http(408, "") => Transient, Provider, "evolution/408" }
    fn w1_410_is_permanent() { http(410, "") => Permanent, Message, "evolution/410" }
    fn w1_425_is_transient() { http(425, "") => Transient, Provider, "evolution/425" }
    fn w1_422_is_permanent() { http(422, "") => Permanent, Message, "evolution/4xx" }
    fn w1_520_is_transient() { http(520, "") => Transient, Provider, "evolution/5xx" }
    fn w1_301_is_permanent() { http(301, "") => Permanent, Message, "evolution/3xx" }
}

// The body knows better than the 400.
rows! { "evolution":
    fn w1_400_exists_false_is_a_number_that_is_not_on_whatsapp() {
        bad_request(r#"{"jid":"5511@s.whatsapp.net","exists":false,"number":"5511"}"#)
            => Permanent, Message, "evolution/not-on-whatsapp"
    }
    fn w1_400_exists_false_first_and_with_spaces_is_known_too() {
        bad_request(r#"{ "exists" : false, "jid": "5511@s.whatsapp.net" }"#)
            => Permanent, Message, "evolution/not-on-whatsapp"
    }
    fn w1_exists_false_is_known_in_the_sandbox_too() {
        sandbox("400", "exists:false") => Permanent, Message, "evolution/not-on-whatsapp"
    }
    fn w1_400_exists_true_says_nothing_about_the_number() {
        bad_request(r#"{"jid":"5511@s.whatsapp.net","exists":true,"number":"5511"}"#)
            => Permanent, Message, "evolution/400"
    }
    fn w1_503_with_a_file_that_does_not_exist_says_nothing_about_the_number() {
        http(503, r#"{"fileExists":false}"#) => Transient, Provider, "evolution/503"
    }
    fn w1_evolution_400_connection_closed_is_transient_and_blames_the_instance() {
        bad_request(r#""Error: Connection Closed""#) => Transient, Credential, "evolution/connection-closed"
    }
    fn w1_evolution_500_connection_closed_blames_the_instance_and_not_the_server() {
        refusal(500, "Internal Server Error", r#""Error: Connection Closed""#)
            => Transient, Credential, "evolution/connection-closed"
    }
    fn w1_evolution_400_rate_overlimit_is_a_rate_limit_of_the_instance() {
        bad_request(r#""Error: rate-overlimit""#) => RateLimit, Credential, "evolution/rate-overlimit"
    }
    fn w1_evolution_400_timed_out_is_transient() {
        bad_request(r#""Error: Timed Out""#) => Transient, Provider, "evolution/timed-out"
    }
    fn w1_404_unknown_instance_blames_the_set_up_and_not_the_number() {
        refusal(404, "Not Found", r#""The \"loja-1\" instance does not exist""#)
            => Permanent, Credential, "evolution/unknown-instance"
    }
    fn w1_404_that_mentions_an_instance_is_the_numbers_fault_all_the_same() {
        refusal(404, "Not Found", r#""number unknown to instance loja-1""#)
            => Permanent, Message, "evolution/404"
    }
}

// Refusals of the Cloud API channel, inside a 201.
rows! { "evolution":
    fn w1_201_with_the_servers_own_refusal_inside_is_judged_by_the_body() {
        http(201, r#"{"status":"ERROR","response":{"message":["Error: Connection Closed"]}}"#)
            => Transient, Credential, "evolution/connection-closed"
    }
    fn w1_cloud_1_unknown_error_is_transient() {
        cloud(1, "API Unknown") => Transient, Provider, "evolution/graph-1"
    }
    fn w1_cloud_2_service_is_transient() {
        cloud(2, "API Service") => Transient, Provider, "evolution/graph-2"
    }
    fn w1_cloud_4_too_many_calls_is_a_rate_limit() {
        cloud(4, "API Too Many Calls") => RateLimit, Provider, "evolution/graph-4"
    }
    fn w1_cloud_17_user_limit_is_a_rate_limit() {
        cloud(17, "User request limit reached") => RateLimit, Credential, "evolution/graph-17"
    }
    fn w1_cloud_341_application_limit_is_a_rate_limit() {
        cloud(341, "Application limit reached") => RateLimit, Provider, "evolution/graph-341"
    }
    fn w1_cloud_368_blocked_for_a_while_is_transient() {
        cloud(368, "Temporarily blocked for policies violations")
            => Transient, Credential, "evolution/graph-368"
    }
    fn w1_cloud_is_transient_is_retried() {
        http(201, r#"{"message":"no","code":190,"is_transient":true}"#)
            => Transient, Provider, "evolution/graph-is-transient"
    }
    fn w1_cloud_102_session_blames_the_credential() {
        cloud(102, "API Session") => Permanent, Credential, "evolution/graph-102"
    }
    fn w1_cloud_190_token_expired_blames_the_credential() {
        cloud(190, "Access token has expired") => Permanent, Credential, "evolution/graph-190"
    }
    fn w1_cloud_10_permission_denied_blames_the_credential() {
        cloud(10, "Application does not have permission") => Permanent, Credential, "evolution/graph-10"
    }
    fn w1_cloud_200_permission_blames_the_credential() {
        cloud(200, "API Permission") => Permanent, Credential, "evolution/graph-2xx"
    }
    fn w1_cloud_506_duplicate_is_permanent() {
        cloud(506, "Duplicate post") => Permanent, Message, "evolution/graph-506"
    }
    fn w1_cloud_80007_account_limit_is_a_rate_limit() {
        cloud(80007, "Rate limit issues") => RateLimit, Credential, "evolution/graph-80007"
    }
    fn w1_cloud_130429_throughput_is_a_rate_limit() {
        cloud(130_429, "Rate limit hit") => RateLimit, Credential, "evolution/graph-130429"
    }
    fn w1_cloud_131048_spam_limit_is_a_rate_limit() {
        cloud(131_048, "Spam rate limit hit") => RateLimit, Credential, "evolution/graph-131048"
    }
    fn w1_cloud_131056_pair_limit_is_a_rate_limit_of_this_number() {
        cloud(131_056, "Pair rate limit hit") => RateLimit, Message, "evolution/graph-131056"
    }
    fn w1_cloud_131000_something_went_wrong_is_transient() {
        cloud(131_000, "Something went wrong") => Transient, Provider, "evolution/graph-131000"
    }
    fn w1_cloud_131016_service_unavailable_is_transient() {
        cloud(131_016, "Service unavailable") => Transient, Provider, "evolution/graph-131016"
    }
    fn w1_cloud_131031_account_locked_blames_the_credential() {
        cloud(131_031, "Business account locked") => Permanent, Credential, "evolution/graph-131031"
    }
    fn w1_cloud_131042_payment_blames_the_credential() {
        cloud(131_042, "Payment issue") => Permanent, Credential, "evolution/graph-131042"
    }
    fn w1_cloud_131026_undeliverable_is_permanent() {
        cloud(131_026, "Message undeliverable") => Permanent, Message, "evolution/graph-131026"
    }
    fn w1_cloud_131030_recipient_not_allowed_is_permanent() {
        cloud(131_030, "Recipient phone number not in allowed list")
            => Permanent, Message, "evolution/graph-131030"
    }
    fn w1_cloud_131047_outside_the_window_is_permanent() {
        cloud(131_047, "Re-engagement message") => Permanent, Message, "evolution/graph-131047"
    }
    fn w1_cloud_100_invalid_parameter_is_permanent() {
        cloud(100, "Invalid parameter") => Permanent, Message, "evolution/graph-100"
    }
    fn w4_cloud_with_an_unknown_number_is_unknown_and_retried() {
        cloud(1_902, "something new") => Unknown, Provider, "recado/unknown"
    }
}

#[test]
fn w1_timed_out_stays_uncertain_as_the_transport_says() {
    let handed_over = Fault { uncertain: true, ..bad_request(r#""Error: Timed Out""#) };
    let failure = classify("evolution", handed_over);
    assert!(failure.uncertain);
    assert_eq!((failure.class, &*failure.rule), (Transient, "evolution/timed-out"));
}
