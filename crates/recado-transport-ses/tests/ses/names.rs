//! Every error name of SES, on the wire as AWS writes it, through the transport to its judgement.

use recado_core::Blame::{Credential, Message, Provider};
use recado_core::Class::{Permanent, RateLimit, Transient};
use recado_core::{Blame, Class, FaultKind};
use recado_testkit::far_end::FarEnd;

use super::far_end::{no, no_in_body};
use super::given::{fault, judged, plain, ses};

async fn refused(status: u16, name: &str, message: &str, class: Class, blame: Blame) {
    let script = [no(status, name, message), no_in_body(status, name, message)];
    let far_end = FarEnd::scripted(script);
    let ses = ses(far_end.url_of(""));
    for shape in ["name in a header", "name in the body"] {
        let fault = fault(&ses, &plain()).await;
        assert_eq!((fault.kind, fault.uncertain), (FaultKind::Answer, false), "{shape}");
        assert_eq!((fault.code.as_deref(), fault.status), (Some(name), Some(status)), "{shape}");
        assert_eq!(&*fault.text, message, "{shape}");
        assert_eq!(judged(&fault), (class, blame), "{shape}");
    }
    assert_eq!(far_end.ledger().len(), 2, "the SDK tried again by itself");
}

macro_rules! names {
    ($($test:ident: $status:literal $name:literal, $message:literal => $class:ident, $blame:ident;)*) => {$(
        #[tokio::test]
        async fn $test() {
            refused($status, $name, $message, $class, $blame).await;
        }
    )*};
}

names! {
    g9_throttling_is_retried:
        400 "Throttling", "Rate exceeded" => RateLimit, Provider;
    g9_throttling_exception_is_retried:
        400 "ThrottlingException", "Rate exceeded" => RateLimit, Provider;
    g9_service_unavailable_is_retried:
        503 "ServiceUnavailable", "Service is unavailable" => Transient, Provider;
    g9_service_unavailable_exception_is_retried:
        503 "ServiceUnavailableException", "Service is unavailable" => Transient, Provider;
    g9_message_rejected_is_permanent:
        400 "MessageRejected", "Email address is not verified." => Permanent, Message;
    g9_mail_from_domain_not_verified_is_permanent:
        400 "MailFromDomainNotVerified", "Domain not verified" => Permanent, Credential;
    g9_mail_from_domain_not_verified_exception_is_permanent:
        400 "MailFromDomainNotVerifiedException", "Domain not verified" => Permanent, Credential;

    too_many_requests_is_a_rate_limit:
        429 "TooManyRequestsException", "Too many requests" => RateLimit, Provider;
    the_sending_rate_is_the_providers_limit_whatever_its_name:
        429 "TooManyRequestsException", "Maximum sending rate exceeded." => RateLimit, Provider;
    the_sending_rate_under_throttling_is_the_providers_limit:
        400 "ThrottlingException", "Maximum sending rate exceeded." => RateLimit, Provider;
    the_sending_rate_under_limit_exceeded_is_the_providers_limit:
        400 "LimitExceededException", "Maximum sending rate exceeded." => RateLimit, Provider;
    the_daily_quota_quiets_the_provider:
        429 "TooManyRequestsException", "Daily message quota exceeded." => RateLimit, Provider;
    the_daily_quota_under_throttling_quiets_the_provider:
        400 "ThrottlingException", "Daily message quota exceeded." => RateLimit, Provider;
    the_daily_quota_under_limit_exceeded_quiets_the_provider:
        400 "LimitExceededException", "Daily message quota exceeded." => RateLimit, Provider;
    limit_exceeded_is_the_accounts_limit:
        400 "LimitExceededException", "Too many instances of the resource" => RateLimit, Credential;
    an_internal_error_is_transient:
        500 "InternalServiceErrorException", "Try again later" => Transient, Provider;
    an_internal_failure_is_transient_by_its_status:
        500 "InternalFailure", "Try again later" => Transient, Provider;
    paused_sending_waits_for_the_account:
        400 "SendingPausedException", "Sending is paused" => Transient, Credential;
    a_suspended_account_is_permanent:
        400 "AccountSuspendedException", "Your account is suspended" => Permanent, Credential;
    a_bad_request_is_permanent:
        400 "BadRequestException", "Missing final '@domain'" => Permanent, Message;
    an_unknown_configuration_set_is_permanent_and_the_accounts:
        404 "NotFoundException", "Configuration set does not exist" => Permanent, Credential;

    an_expired_token_is_the_credentials:
        403 "ExpiredTokenException", "The security token has expired" => Permanent, Credential;
    an_expired_token_is_the_credentials_under_400_too:
        400 "ExpiredTokenException", "The security token has expired" => Permanent, Credential;
    an_unknown_key_is_the_credentials:
        403 "InvalidClientTokenId", "The security token is invalid" => Permanent, Credential;
    an_unrecognized_client_is_the_credentials:
        403 "UnrecognizedClientException", "The security token is invalid" => Permanent, Credential;
    a_wrong_signature_is_the_credentials:
        403 "SignatureDoesNotMatch", "Check your key and signing method." => Permanent, Credential;
    an_invalid_signature_is_the_credentials:
        403 "InvalidSignatureException", "Check your key and signing method." => Permanent, Credential;
    a_denied_access_is_the_credentials:
        403 "AccessDeniedException", "Not authorized to perform ses:SendEmail" => Permanent, Credential;
}
