//! Instagram (Meta's Graph), TikTok and YouTube: their bodies decide before the status.

use recado_core::Fault;
use serde_json::json;

use crate::given::{http, sandbox};

/// Graph's refusal. Its other numbers are there to be taken for the code by a careless pattern.
fn graph(code: u16, status: u16) -> Fault {
    let error = json!({
        "message": format!("(#{code}) no"),
        "type": "OAuthException",
        "code": code,
        "error_subcode": 190,
        "is_transient": false,
        "fbtrace_id": "A4",
    });
    http(status, &json!({ "error": error }).to_string())
}

fn tiktok(status: u16, code: &str) -> Fault {
    let error = json!({ "code": code, "message": "see the documentation", "log_id": "20250116190" });
    http(status, &json!({ "error": error }).to_string())
}

fn youtube(status: u16, domain: &str, reason: &str) -> Fault {
    let errors = json!([{ "message": "no", "domain": domain, "reason": reason }]);
    http(status, &json!({ "error": { "code": status, "message": "no", "errors": errors } }).to_string())
}

rows! { "social":
    fn graph_1_unknown_error_is_transient() { graph(1, 400) => Transient, Provider, "social/graph-1" }
    fn graph_2_service_is_transient() { graph(2, 400) => Transient, Provider, "social/graph-2" }
    fn graph_4_application_limit_is_a_rate_limit() { graph(4, 403) => RateLimit, Provider, "social/graph-4" }
    fn graph_17_user_limit_is_a_rate_limit_of_the_account() {
        graph(17, 400) => RateLimit, Credential, "social/graph-17"
    }
    fn graph_341_application_limit_is_a_rate_limit() {
        graph(341, 400) => RateLimit, Provider, "social/graph-341"
    }
    fn graph_368_blocked_for_a_while_is_transient_and_blames_the_account() {
        graph(368, 400) => Transient, Credential, "social/graph-368"
    }
    fn graph_is_transient_saves_a_refusal() {
        http(400, r#"{"error":{"code":190,"type":"OAuthException","is_transient": true}}"#)
            => Transient, Provider, "social/graph-is-transient"
    }
    fn graph_102_session_blames_the_token() { graph(102, 401) => Permanent, Credential, "social/graph-102" }
    fn graph_190_token_expired_blames_the_token() {
        graph(190, 400) => Permanent, Credential, "social/graph-190"
    }
    fn graph_10_permission_blames_the_token() { graph(10, 403) => Permanent, Credential, "social/graph-10" }
    fn graph_200_permission_blames_the_token() {
        graph(200, 403) => Permanent, Credential, "social/graph-2xx"
    }
    fn graph_299_permission_blames_the_token() {
        graph(299, 400) => Permanent, Credential, "social/graph-2xx"
    }
    fn graph_506_duplicate_post_is_permanent() { graph(506, 400) => Permanent, Message, "social/graph-506" }
}

// Not in the list, however alike they look.
rows! { "social":
    fn graph_100_is_not_10() { graph(100, 400) => Permanent, Message, "social/400" }
    fn graph_1900_is_not_190() { graph(1_900, 400) => Permanent, Message, "social/400" }
    fn graph_2000_is_not_200() { graph(2_000, 400) => Permanent, Message, "social/400" }
    fn graph_40_is_not_4() { graph(40, 400) => Permanent, Message, "social/400" }
    fn graph_error_code_and_zip_code_are_not_the_code() {
        http(400, r#"{"error_code":190,"zip_code":4,"code_of":2}"#) => Permanent, Message, "social/400"
    }
    fn graph_a_code_within_the_words_is_not_the_code() {
        http(400, r#"{"error":{"message":"your caption says \"code\": 190","code":36000}}"#)
            => Permanent, Message, "social/400"
    }
    fn graph_a_503_is_judged_by_its_status() { graph(190, 503) => Transient, Provider, "social/503" }
    fn graph_a_404_is_judged_by_its_status() { graph(2, 404) => Permanent, Message, "social/404" }
}

rows! { "social":
    fn tiktok_429_rate_limit_exceeded_is_a_rate_limit() {
        tiktok(429, "rate_limit_exceeded") => RateLimit, Provider, "social/rate_limit_exceeded"
    }
    fn tiktok_500_internal_error_is_transient() {
        tiktok(500, "internal_error") => Transient, Provider, "social/internal_error"
    }
    fn tiktok_401_access_token_invalid_blames_the_token() {
        tiktok(401, "access_token_invalid") => Permanent, Credential, "social/access_token_invalid"
    }
    fn tiktok_400_invalid_params_is_permanent() {
        tiktok(400, "invalid_params") => Permanent, Message, "social/invalid_params"
    }
    // Older endpoints answer 200 and put the error inside.
    fn tiktok_200_internal_error_is_transient() {
        tiktok(200, "internal_error") => Transient, Provider, "social/internal_error"
    }
    fn tiktok_401_scope_not_authorized_is_judged_by_its_status() {
        tiktok(401, "scope_not_authorized") => Permanent, Credential, "social/401"
    }
    fn tiktok_a_name_within_the_words_is_not_the_name() {
        http(400, r#"{"error":{"code":"bad_title","message":"title is internal_error"}}"#)
            => Permanent, Message, "social/400"
    }
    fn tiktok_a_name_that_a_worker_reports_as_its_code_is_known() {
        Fault::answer("access_token_invalid", "") => Permanent, Credential, "social/access_token_invalid"
    }
    fn tiktok_a_name_in_the_sandbox_is_known() {
        sandbox("400", "rate_limit_exceeded slow down") => RateLimit, Provider, "social/rate_limit_exceeded"
    }
}

rows! { "social":
    fn youtube_403_quota_exceeded_waits() {
        youtube(403, "youtube.quota", "quotaExceeded") => RateLimit, Credential, "social/quotaExceeded"
    }
    fn youtube_400_upload_limit_exceeded_waits() {
        youtube(400, "youtube.video", "uploadLimitExceeded")
            => RateLimit, Credential, "social/uploadLimitExceeded"
    }
    fn youtube_403_rate_limit_exceeded_waits() {
        youtube(403, "usageLimits", "rateLimitExceeded") => RateLimit, Credential, "social/rateLimitExceeded"
    }
    fn youtube_403_user_rate_limit_exceeded_waits() {
        youtube(403, "usageLimits", "userRateLimitExceeded")
            => RateLimit, Credential, "social/userRateLimitExceeded"
    }
    fn youtube_403_forbidden_blames_the_credential() {
        youtube(403, "youtube.channel", "forbidden") => Permanent, Credential, "social/403"
    }
    fn youtube_401_auth_error_blames_the_credential() {
        youtube(401, "youtube.header", "authorizationRequired") => Permanent, Credential, "social/401"
    }
    fn youtube_503_backend_error_is_transient() {
        youtube(503, "youtube.api", "backendError") => Transient, Provider, "social/503"
    }
}
