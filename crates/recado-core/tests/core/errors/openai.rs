//! OpenAI: two very different things behind 429.

use recado_core::Fault;

use crate::given::{http, sandbox};

fn refusal(status: u16, kind: &str, code: &str) -> Fault {
    let body = format!(r#"{{"error":{{"message":"no","type":"{kind}","param":null,"code":{code}}}}}"#);
    http(status, &body)
}

rows! { "openai":
    fn openai_429_rate_limit_exceeded_is_a_rate_limit() {
        refusal(429, "tokens", r#""rate_limit_exceeded""#)
            => RateLimit, Provider, "openai/rate_limit_exceeded"
    }
    fn openai_429_insufficient_quota_is_permanent_and_blames_the_account() {
        refusal(429, "insufficient_quota", r#""insufficient_quota""#)
            => Permanent, Credential, "openai/insufficient_quota"
    }
    fn openai_429_insufficient_quota_by_its_type_alone_is_permanent() {
        refusal(429, "insufficient_quota", "null") => Permanent, Credential, "openai/insufficient_quota"
    }
    fn openai_429_that_merely_mentions_insufficient_quota_is_a_rate_limit() {
        http(429, r#"{"error":{"message":"not an insufficient_quota","type":"requests","code":null}}"#)
            => RateLimit, Provider, "openai/429"
    }
    fn openai_insufficient_quota_that_a_worker_reports_as_its_code_is_known() {
        Fault::answer("insufficient_quota", "") => Permanent, Credential, "openai/insufficient_quota"
    }
    fn openai_insufficient_quota_in_the_sandbox_is_known() {
        sandbox("429", "insufficient_quota") => Permanent, Credential, "openai/insufficient_quota"
    }
    fn openai_503_overloaded_is_transient() {
        refusal(503, "server_error", "null") => Transient, Provider, "openai/503"
    }
    fn openai_500_server_error_is_transient() {
        refusal(500, "server_error", "null") => Transient, Provider, "openai/500"
    }
    fn openai_401_invalid_api_key_blames_the_key() {
        refusal(401, "invalid_request_error", r#""invalid_api_key""#) => Permanent, Credential, "openai/401"
    }
    fn openai_400_context_length_exceeded_is_permanent() {
        refusal(400, "invalid_request_error", r#""context_length_exceeded""#)
            => Permanent, Message, "openai/400"
    }
}
