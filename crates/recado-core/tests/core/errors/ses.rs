//! SES: both required lists, and the names that AWS gives its errors.

use recado_core::Fault;
use recado_core::outcome::NetworkKind;

use crate::given::{classify, http, sandbox, set, smtp};

/// An error of the SES v2 API: AWS names it, and sends a status along.
fn named(status: u16, name: &str, text: &str) -> Fault {
    Fault { code: Some(name.into()), ..http(status, text) }
}

/// An answer that AWS did not write: it has a status and no name.
fn nameless(status: u16) -> Fault {
    Fault { code: None, ..http(status, "<html><body>Bad Gateway</body></html>") }
}

// Retried.
rows! { "ses":
    fn g9_421_is_retryable() { smtp("421", "Service not available") => Transient, Provider, "ses/421" }
    fn g9_450_is_retryable() { smtp("450", "Mailbox unavailable") => Transient, Message, "ses/450" }
    fn g9_451_is_retryable() { smtp("451", "Local error in processing") => Transient, Provider, "ses/451" }
    fn g9_452_is_retryable() { smtp("452", "Insufficient system storage") => Transient, Provider, "ses/452" }
    fn g9_throttling_is_retryable() {
        named(400, "Throttling", "Rate exceeded") => RateLimit, Provider, "ses/Throttling"
    }
    fn g9_service_unavailable_is_retryable() {
        named(503, "ServiceUnavailable", "Try later") => Transient, Provider, "ses/ServiceUnavailable"
    }
}

// Permanent.
rows! { "ses":
    fn g9_500_is_permanent() { smtp("500", "Syntax error") => Permanent, Message, "ses/500" }
    fn g9_550_is_permanent() { smtp("550", "Mailbox unavailable") => Permanent, Message, "ses/550" }
    fn g9_554_is_permanent() { smtp("554", "Transaction failed") => Permanent, Message, "ses/554" }
    fn g9_message_rejected_is_permanent() {
        named(400, "MessageRejected", "Email address is not verified.")
            => Permanent, Message, "ses/MessageRejected"
    }
    fn g9_mail_from_domain_not_verified_is_permanent() {
        named(400, "MailFromDomainNotVerified", "The MAIL FROM domain is not verified")
            => Permanent, Credential, "ses/MailFromDomainNotVerified"
    }
}

// The names as version 2 of the API spells them.
rows! { "ses":
    fn ses_too_many_requests_exception_is_a_rate_limit() {
        named(429, "TooManyRequestsException", "Too many requests")
            => RateLimit, Provider, "ses/TooManyRequestsException"
    }
    fn ses_throttling_exception_is_a_rate_limit() {
        named(400, "ThrottlingException", "Rate exceeded") => RateLimit, Provider, "ses/ThrottlingException"
    }
    fn ses_maximum_sending_rate_is_a_rate_limit_of_seconds() {
        named(400, "ThrottlingException", "Maximum sending rate exceeded.")
            => RateLimit, Provider, "ses/sending-rate"
    }
    fn ses_daily_quota_is_a_rate_limit_of_the_account() {
        named(400, "ThrottlingException", "Daily message quota exceeded.")
            => RateLimit, Provider, "ses/daily-quota"
    }
    fn ses_limit_exceeded_exception_is_a_rate_limit_of_the_account() {
        named(400, "LimitExceededException", "Sending quota exceeded")
            => RateLimit, Credential, "ses/LimitExceededException"
    }
    fn ses_internal_service_error_exception_is_transient() {
        named(500, "InternalServiceErrorException", "Internal error")
            => Transient, Provider, "ses/InternalServiceErrorException"
    }
    fn ses_service_unavailable_exception_is_transient() {
        named(503, "ServiceUnavailableException", "")
            => Transient, Provider, "ses/ServiceUnavailableException"
    }
    fn ses_sending_paused_exception_waits_and_blames_the_account() {
        named(400, "SendingPausedException", "Email sending is disabled for this configuration set.")
            => Transient, Credential, "ses/SendingPausedException"
    }
    fn ses_bad_request_exception_is_permanent() {
        named(400, "BadRequestException", "Missing final '@domain'")
            => Permanent, Message, "ses/BadRequestException"
    }
    fn ses_account_suspended_exception_is_permanent_and_blames_the_account() {
        named(400, "AccountSuspendedException", "Sending is permanently restricted")
            => Permanent, Credential, "ses/AccountSuspendedException"
    }
    fn ses_mail_from_domain_not_verified_exception_blames_the_tenants_set_up() {
        named(400, "MailFromDomainNotVerifiedException", "The domain is not verified")
            => Permanent, Credential, "ses/MailFromDomainNotVerifiedException"
    }
    fn ses_not_found_exception_blames_the_tenants_set_up() {
        named(404, "NotFoundException", "Configuration set does not exist.")
            => Permanent, Credential, "ses/NotFoundException"
    }
}

// A key that AWS does not take.
rows! { "ses":
    fn ses_access_denied_exception_blames_the_credential() {
        named(403, "AccessDeniedException", "not authorized to perform: ses:SendEmail")
            => Permanent, Credential, "ses/AccessDeniedException"
    }
    fn ses_expired_token_exception_blames_the_credential() {
        named(403, "ExpiredTokenException", "The security token included in the request is expired")
            => Permanent, Credential, "ses/ExpiredTokenException"
    }
    fn ses_expired_token_blames_the_credential() {
        named(400, "ExpiredToken", "The provided token has expired.")
            => Permanent, Credential, "ses/ExpiredToken"
    }
    fn ses_invalid_client_token_id_blames_the_credential() {
        named(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
            => Permanent, Credential, "ses/InvalidClientTokenId"
    }
    fn ses_signature_does_not_match_blames_the_credential() {
        named(403, "SignatureDoesNotMatch", "The request signature we calculated does not match")
            => Permanent, Credential, "ses/SignatureDoesNotMatch"
    }
    fn ses_unrecognized_client_exception_blames_the_credential() {
        named(403, "UnrecognizedClientException", "The security token is invalid.")
            => Permanent, Credential, "ses/UnrecognizedClientException"
    }
    fn ses_invalid_signature_exception_blames_the_credential() {
        named(403, "InvalidSignatureException", "Signature expired")
            => Permanent, Credential, "ses/InvalidSignatureException"
    }
    fn ses_incomplete_signature_blames_the_credential() {
        named(400, "IncompleteSignature", "") => Permanent, Credential, "ses/IncompleteSignature"
    }
    fn ses_missing_authentication_token_blames_the_credential() {
        named(403, "MissingAuthenticationToken", "Request is missing Authentication Token")
            => Permanent, Credential, "ses/MissingAuthenticationToken"
    }
    fn ses_not_authorized_blames_the_credential() {
        named(400, "NotAuthorized", "") => Permanent, Credential, "ses/NotAuthorized"
    }
    fn ses_opt_in_required_blames_the_credential() {
        named(403, "OptInRequired", "needs a subscription") => Permanent, Credential, "ses/OptInRequired"
    }
    fn ses_request_expired_blames_the_credential() {
        named(400, "RequestExpired", "Request has expired.") => Permanent, Credential, "ses/RequestExpired"
    }
    fn ses_credentials_not_found_blames_the_credential() {
        Fault::answer("CredentialsNotFound", "no credentials in the environment, the profile or the role")
            => Permanent, Credential, "ses/CredentialsNotFound"
    }
    fn ses_region_not_found_blames_the_credential() {
        Fault::answer("RegionNotFound", "no region is configured") => Permanent, Credential, "ses/RegionNotFound"
    }
    fn ses_credentials_unavailable_is_retried_and_blames_the_credential() {
        Fault::answer("CredentialsUnavailable", "the service that hands them out did not answer")
            => Transient, Credential, "ses/CredentialsUnavailable"
    }
}

// Numbers, where no name speaks.
rows! { "ses":
    fn ses_454_over_smtp_is_a_rate_limit() {
        smtp("454", "Throttling failure") => RateLimit, Provider, "ses/454"
    }
    fn ses_551_is_permanent() { smtp("551", "User not local") => Permanent, Message, "ses/55x" }
    fn ses_550_try_again_later_is_transient() {
        smtp("550", "try again later") => Transient, Message, "ses/55x-temporary"
    }
    fn ses_550_with_an_enhanced_code_4_is_transient() {
        smtp("550", "4.2.1 mailbox unavailable") => Transient, Message, "ses/55x-4.x.x"
    }
    fn ses_500_without_a_name_is_transient() { nameless(500) => Transient, Provider, "ses/5xx" }
    fn ses_502_without_a_name_is_transient() { nameless(502) => Transient, Provider, "ses/5xx" }
    fn ses_503_without_a_name_is_transient() { http(503, "") => Transient, Provider, "ses/5xx" }
    fn ses_429_without_a_name_is_a_rate_limit() { nameless(429) => RateLimit, Provider, "ses/429" }
    fn ses_401_without_a_name_blames_the_credential() { nameless(401) => Permanent, Credential, "ses/401" }
    fn ses_403_without_a_name_blames_the_credential() { nameless(403) => Permanent, Credential, "ses/403" }
    // AWS always names a 400. One without a name comes from another server: retried, for safety.
    fn ses_400_without_a_name_is_unknown_and_retried() {
        nameless(400) => Unknown, Provider, "recado/unknown"
    }
    fn ses_an_unknown_error_name_goes_by_its_status() {
        named(500, "InternalFailure", "") => Transient, Provider, "ses/5xx"
    }
    fn ses_a_lost_connection_is_transient() {
        Fault::network(NetworkKind::Dropped, "connection closed before message completed")
            => Transient, Provider, "ses/network"
    }
}

/// AWS answers even a retryable name with 400, so the name must win over the status.
#[test]
fn g9_every_name_is_known_with_and_without_its_suffix_in_any_case_and_in_the_mixed_set_too() {
    let bare: Vec<_> = set("ses")
        .rules
        .iter()
        .filter(|rule| rule.name.ends_with("Exception"))
        .map(|rule| (rule.name["ses/".len()..rule.name.len() - "Exception".len()].to_owned(), rule))
        .collect();
    assert_eq!(bare.len(), 22);
    for (name, rule) in bare {
        for spelling in [name.clone(), format!("{name}Exception"), name.to_lowercase()] {
            for set in ["ses", "general"] {
                let failure = classify(set, named(400, &spelling, "no"));
                assert_eq!((failure.class, failure.blame), (rule.class, rule.blame), "{set} {spelling}");
                assert!(failure.rule.starts_with(&format!("{set}/{name}")), "{set} {spelling}");
            }
        }
    }
}

#[test]
fn g9_a_code_in_the_sandbox_means_what_it_means_on_the_wire() {
    for code in ["421", "450", "451", "452", "454", "500", "550", "554", "Throttling", "MessageRejected"] {
        assert_eq!(classify("ses", sandbox(code, "no")), classify("ses", smtp(code, "no")), "{code}");
    }
}
