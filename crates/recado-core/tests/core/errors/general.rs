//! The mixed set: SMTP and HTTP together, and where they clash (500–503) HTTP wins.

use recado_core::Fault;

use crate::given::{classify, http, sandbox, smtp};

fn named(status: u16) -> Fault {
    Fault { code: Some("WeirdError".into()), ..http(status, "") }
}

rows! { "general":
    fn general_500_is_read_as_http() { smtp("500", "") => Transient, Provider, "general/500" }
    fn general_501_is_read_as_http() { smtp("501", "") => Transient, Provider, "general/5xx" }
    fn general_502_is_read_as_http() { smtp("502", "") => Transient, Provider, "general/502" }
    fn general_503_is_read_as_http() {
        smtp("503", "Service Temporarily Unavailable") => Transient, Provider, "general/503"
    }
    fn general_504_is_read_as_http() { smtp("504", "") => Transient, Provider, "general/504" }
    fn general_400_is_read_as_http() { smtp("400", "") => Permanent, Message, "general/400" }
    fn general_401_is_read_as_http() { smtp("401", "") => Permanent, Credential, "general/401" }
    fn general_403_is_read_as_http() { smtp("403", "") => Permanent, Credential, "general/403" }
    fn general_404_is_read_as_http() { smtp("404", "") => Permanent, Message, "general/404" }
    fn general_408_is_read_as_http() { smtp("408", "") => Transient, Provider, "general/408" }
    fn general_410_is_read_as_http() { smtp("410", "") => Permanent, Message, "general/410" }
    fn general_422_is_read_as_http() { smtp("422", "") => Permanent, Message, "general/4xx" }
    fn general_425_is_read_as_http() { smtp("425", "") => Transient, Provider, "general/425" }
    fn general_429_is_read_as_http() { smtp("429", "") => RateLimit, Provider, "general/429" }
    fn general_302_is_read_as_http() { smtp("302", "") => Permanent, Message, "general/3xx" }
}

rows! { "general":
    fn general_421_is_read_as_smtp() { smtp("421", "try later") => Transient, Provider, "general/421" }
    fn general_450_is_read_as_smtp() { smtp("450", "") => Transient, Message, "general/450" }
    fn general_451_is_read_as_smtp() { smtp("451", "") => Transient, Provider, "general/451" }
    fn general_452_is_read_as_smtp() { smtp("452", "") => Transient, Provider, "general/452" }
    fn general_455_is_read_as_smtp() { smtp("455", "") => Transient, Provider, "general/45x" }
    fn general_535_is_read_as_smtp() { smtp("535", "") => Permanent, Credential, "general/535" }
    fn general_551_is_read_as_smtp() { smtp("551", "") => Permanent, Message, "general/551" }
    fn general_552_is_read_as_smtp() { smtp("552", "") => Permanent, Message, "general/552" }
    fn general_553_is_read_as_smtp() { smtp("553", "") => Permanent, Message, "general/553" }
    fn general_554_is_read_as_smtp() { smtp("554", "") => Permanent, Message, "general/554" }
    fn general_555_is_read_as_smtp() { smtp("555", "") => Permanent, Message, "general/55x" }
}

// The words that refine SMTP's codes, and the names of SES.
rows! { "general":
    fn general_temporarily_deferred_is_a_rate_limit() {
        smtp("421", "temporarily deferred") => RateLimit, Provider, "general/temporarily-deferred"
    }
    fn general_4xx_too_fast_is_a_rate_limit() {
        smtp("450", "too many messages") => RateLimit, Provider, "general/4xx-too-fast"
    }
    fn general_552_too_many_recipients_is_transient() {
        smtp("552", "too many recipients") => Transient, Message, "general/x52-too-many-recipients"
    }
    fn general_greylisting_is_transient() {
        smtp("451", "Greylisted") => Transient, Message, "general/greylist"
    }
    fn general_graylisting_is_transient() {
        smtp("451", "Graylisted") => Transient, Message, "general/graylist"
    }
    fn general_451_with_an_enhanced_code_5_that_says_temporary_is_transient() {
        smtp("451", "5.3.0 temporary failure") => Transient, Message, "general/45x-5.x.x-temporary"
    }
    fn general_535_that_says_temporary_is_transient() {
        smtp("535", "temporary lock") => Transient, Credential, "general/53x-temporary"
    }
    fn general_550_that_says_temporary_is_transient() {
        smtp("550", "try again later") => Transient, Message, "general/55x-temporary"
    }
    fn general_daily_quota_is_a_rate_limit() {
        smtp("454", "Daily message quota exceeded") => RateLimit, Provider, "general/daily-quota"
    }
    fn general_sending_rate_is_a_rate_limit() {
        smtp("454", "Maximum sending rate exceeded") => RateLimit, Provider, "general/sending-rate"
    }
    fn general_throttling_is_a_rate_limit() {
        smtp("Throttling", "slow down") => RateLimit, Provider, "general/Throttling"
    }
    fn general_message_rejected_is_permanent() {
        smtp("MessageRejected", "no") => Permanent, Message, "general/MessageRejected"
    }
}

// An answer whose name it does not know goes by its status.
rows! { "general":
    fn general_400_with_a_strange_name_is_permanent() {
        named(400) => Permanent, Message, "general/status/400"
    }
    fn general_429_with_a_strange_name_is_a_rate_limit() {
        named(429) => RateLimit, Provider, "general/status/429"
    }
    fn general_503_with_a_strange_name_is_transient() {
        named(503) => Transient, Provider, "general/status/503"
    }
}

#[test]
fn general_reads_a_code_alike_from_a_server_the_sandbox_and_a_worker() {
    for code in (300..600).map(|code: u16| code.to_string()) {
        assert_eq!(classify("general", sandbox(&code, "")), classify("general", smtp(&code, "")), "{code}");
    }
}
