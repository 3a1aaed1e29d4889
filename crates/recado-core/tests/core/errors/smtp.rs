//! SMTP: both required lists, and what servers really say.

use recado_core::Blame::{Message, Provider};
use recado_core::Class::{Permanent, Transient};
use recado_core::outcome::{Fault, NetworkKind};

use crate::given::{assert_judged, classify, sandbox, smtp};

// Retried.
rows! { "smtp":
    fn e4_421_service_not_available_is_transient_and_the_providers() {
        smtp("421", "mx1.example.com Service not available, closing transmission channel")
            => Transient, Provider, "smtp/421"
    }
    fn e4_450_mailbox_unavailable_is_transient_and_spares_the_provider() {
        smtp("450", "4.2.0 <ana@example.com>: Recipient address rejected: mailbox busy")
            => Transient, Message, "smtp/450"
    }
    fn e4_451_local_error_is_transient_and_the_providers() {
        smtp("451", "4.3.0 Error: queue file write error") => Transient, Provider, "smtp/451"
    }
    fn e4_452_insufficient_storage_is_transient_and_the_providers() {
        smtp("452", "4.3.1 Insufficient system storage") => Transient, Provider, "smtp/452"
    }
    fn e4_e6_550_that_says_temporary_is_transient() {
        smtp("550", "Mailbox não disponível (temporário)") => Transient, Message, "smtp/55x-temporary"
    }
}

// Not retried.
rows! { "smtp":
    fn e5_500_is_permanent() {
        smtp("500", "5.5.2 Syntax error, command unrecognized") => Permanent, Message, "smtp/500"
    }
    fn e5_501_is_permanent() {
        smtp("501", "5.1.7 Bad sender address syntax") => Permanent, Message, "smtp/501"
    }
    fn e5_502_is_permanent() {
        smtp("502", "5.5.1 Command not implemented") => Permanent, Message, "smtp/502"
    }
    fn e5_503_is_permanent() {
        smtp("503", "5.5.1 Bad sequence of commands") => Permanent, Message, "smtp/503"
    }
    fn e5_e6_550_that_says_permanent_is_permanent() {
        smtp("550", "Mailbox não disponível (permanente)") => Permanent, Message, "smtp/550"
    }
    fn e5_551_is_permanent() {
        smtp("551", "5.1.6 User not local; please try <ana@example.org>") => Permanent, Message, "smtp/551"
    }
    fn e5_552_is_permanent() {
        smtp("552", "5.2.2 Mailbox full") => Permanent, Message, "smtp/552"
    }
    fn e5_553_is_permanent() {
        smtp("553", "5.1.3 Mailbox name not allowed") => Permanent, Message, "smtp/553"
    }
    fn e5_554_is_permanent() {
        smtp("554", "5.6.0 Transaction failed") => Permanent, Message, "smtp/554"
    }
}

// The code that stands in both lists: see docs/decisions/0001.
rows! { "smtp":
    fn e6_a_bare_550_is_permanent() { smtp("550", "") => Permanent, Message, "smtp/550" }
    fn e6_550_user_unknown_is_permanent() {
        smtp("550", "5.1.1 <ana@example.com>: Recipient address rejected: User unknown")
            => Permanent, Message, "smtp/550"
    }
    fn e6_550_try_again_later_is_transient() {
        smtp("550", "mailbox unavailable, try again later") => Transient, Message, "smtp/55x-temporary"
    }
    fn e6_550_tente_mais_tarde_is_transient() {
        smtp("550", "Caixa cheia, tente novamente mais tarde") => Transient, Message, "smtp/55x-temporary"
    }
    fn e6_550_temporariamente_is_transient() {
        smtp("550", "Caixa temporariamente indisponível") => Transient, Message, "smtp/55x-temporary"
    }
    fn e6_550_temporary_in_spite_of_its_enhanced_code_is_transient() {
        smtp("550", "5.2.1 mailbox TEMPORARILY disabled.") => Transient, Message, "smtp/55x-temporary"
    }
    fn e6_550_with_an_enhanced_code_4_is_transient() {
        smtp("550", "4.2.1 mailbox unavailable") => Transient, Message, "smtp/55x-4.x.x"
    }
    fn e6_550_to_a_mailbox_that_is_called_temporary_is_permanent() {
        smtp("550", "5.1.1 <temporario@example.com>: user unknown") => Permanent, Message, "smtp/550"
    }
    fn e6_550_to_a_mailbox_that_begins_with_temporary_is_permanent() {
        smtp("550", "5.1.1 temporary.desk@example.com unknown") => Permanent, Message, "smtp/550"
    }
    fn e6_550_to_a_host_that_is_called_temporary_is_permanent() {
        smtp("550", "5.1.2 ana@mail.temporary.example: no such host") => Permanent, Message, "smtp/550"
    }
}

// Words and enhanced codes that refine a code.
rows! { "smtp":
    fn smtp_554_temporary_failure_is_transient() {
        smtp("554", "temporary failure") => Transient, Message, "smtp/55x-temporary"
    }
    fn smtp_503_try_again_later_is_transient() {
        smtp("503", "try again later") => Transient, Message, "smtp/5xx-temporary"
    }
    fn smtp_500_with_an_enhanced_code_4_is_transient() {
        smtp("500", "4.3.0 try") => Transient, Message, "smtp/5xx-4.x.x"
    }
    fn smtp_451_with_an_enhanced_code_5_is_permanent() {
        smtp("451", "5.1.1 no such user") => Permanent, Message, "smtp/45x-5.x.x"
    }
    fn smtp_451_with_an_enhanced_code_5_that_says_temporary_is_transient() {
        smtp("451", "5.3.0 temporary failure") => Transient, Message, "smtp/45x-5.x.x-temporary"
    }
    // It closes the connection whatever its enhanced code says: worth another one.
    fn smtp_421_with_an_enhanced_code_5_is_still_transient() {
        smtp("421", "5.3.2 shutting down") => Transient, Provider, "smtp/421"
    }
    fn smtp_greylisting_is_transient_and_spares_the_relay() {
        smtp("554", "greylisted, come back in 5 minutes") => Transient, Message, "smtp/greylist"
    }
    fn smtp_graylisting_is_transient_and_spares_the_relay() {
        smtp("451", "4.7.1 Graylisting in action, please wait") => Transient, Message, "smtp/graylist"
    }
    fn smtp_a_mailbox_that_is_called_greylist_is_no_greylisting() {
        smtp("550", "5.1.1 greylist@example.com: user unknown") => Permanent, Message, "smtp/550"
    }
    fn smtp_452_4_5_3_at_rcpt_is_too_many_recipients() {
        smtp("452", "4.5.3 hold on") => Transient, Message, "smtp/x52-x.5.3"
    }
    fn smtp_552_5_5_3_at_rcpt_is_too_many_recipients() {
        smtp("552", "5.5.3 hold on") => Transient, Message, "smtp/x52-x.5.3"
    }
    fn smtp_452_too_many_recipients_is_worth_fewer_of_them() {
        smtp("452", "Too many recipients received this hour")
            => Transient, Message, "smtp/x52-too-many-recipients"
    }
    fn smtp_552_too_many_recipients_is_worth_fewer_of_them() {
        smtp("552", "Too many recipients") => Transient, Message, "smtp/x52-too-many-recipients"
    }
    fn smtp_550_5_5_3_is_no_matter_of_the_number_of_recipients() {
        smtp("550", "5.5.3 hold on") => Permanent, Message, "smtp/550"
    }
}

// Throttling, told from failing.
rows! { "smtp":
    fn smtp_temporarily_deferred_is_a_rate_limit() {
        smtp("421", "4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume")
            => RateLimit, Provider, "smtp/temporarily-deferred"
    }
    fn smtp_4_7_28_is_a_rate_limit() {
        smtp("421", "4.7.28 Our system has detected an unusual amount of mail")
            => RateLimit, Provider, "smtp/4.7.28"
    }
    fn smtp_450_unusual_rate_is_a_rate_limit() {
        smtp("450", "4.2.1 receiving mail at an unusual rate") => RateLimit, Provider, "smtp/4xx-too-fast"
    }
    fn smtp_421_too_many_connections_is_a_rate_limit() {
        smtp("421", "Too many connections from your host") => RateLimit, Provider, "smtp/4xx-too-fast"
    }
    fn smtp_454_throttling_failure_of_ses_is_a_rate_limit() {
        smtp("454", "Throttling failure: slow down") => RateLimit, Provider, "smtp/4xx-too-fast"
    }
    fn smtp_454_maximum_sending_rate_of_ses_is_a_rate_limit() {
        smtp("454", "Throttling failure: Maximum sending rate exceeded")
            => RateLimit, Provider, "smtp/sending-rate"
    }
    fn smtp_454_daily_quota_of_ses_is_a_rate_limit_of_the_account() {
        smtp("454", "Throttling failure: Daily message quota exceeded")
            => RateLimit, Provider, "smtp/daily-quota"
    }
    fn smtp_454_without_such_words_is_merely_transient() {
        smtp("454", "4.7.0 TLS not available due to local problem") => Transient, Provider, "smtp/4xx"
    }
}

// Before there is a message, none can be to blame.
rows! { "smtp":
    fn smtp_530_authentication_required_blames_the_credential() {
        smtp("530", "5.7.0 Authentication required") => Permanent, Credential, "smtp/530"
    }
    fn smtp_534_mechanism_too_weak_blames_the_credential() {
        smtp("534", "5.7.9 Authentication mechanism is too weak") => Permanent, Credential, "smtp/534"
    }
    fn smtp_535_login_refused_blames_the_credential() {
        smtp("535", "5.7.8 Username and Password not accepted") => Permanent, Credential, "smtp/535"
    }
    fn smtp_535_keeps_its_rule_when_the_phase_is_in_front() {
        smtp("535", "at AUTH: 5.7.8 Username and Password not accepted") => Permanent, Credential, "smtp/535"
    }
    fn smtp_538_encryption_required_blames_the_credential() {
        smtp("538", "5.7.11 Encryption required for this mechanism") => Permanent, Credential, "smtp/538"
    }
    fn smtp_535_that_says_temporary_is_retried_and_blames_the_credential() {
        smtp("535", "5.7.0 account temporarily locked") => Transient, Credential, "smtp/53x-temporary"
    }
    fn smtp_535_with_an_enhanced_code_4_is_retried_and_blames_the_credential() {
        smtp("535", "4.7.0 authentication service is down") => Transient, Credential, "smtp/53x-4.x.x"
    }
    fn smtp_any_other_refusal_at_auth_blames_the_credential() {
        smtp("550", "at AUTH: 5.7.1 this account is disabled") => Permanent, Credential, "smtp/5xx-at-auth"
    }
    fn smtp_454_temporary_failure_at_auth_is_transient_and_the_providers() {
        smtp("454", "at AUTH: 4.7.0 Temporary authentication failure") => Transient, Provider, "smtp/4xx"
    }
    fn smtp_554_at_the_greeting_buries_no_message() {
        smtp("554", "at the greeting: no SMTP service here") => Transient, Provider, "smtp/5xx-before-mail"
    }
    fn smtp_550_at_ehlo_buries_no_message() {
        smtp("550", "at EHLO: access denied") => Transient, Provider, "smtp/5xx-before-mail"
    }
    fn smtp_501_at_starttls_buries_no_message() {
        smtp("501", "at STARTTLS: no parameters allowed") => Transient, Provider, "smtp/5xx-before-mail"
    }
    fn smtp_550_that_mentions_a_phase_further_on_is_the_messages_own() {
        smtp("550", "5.7.1 refused; say hello at EHLO: see our page") => Permanent, Message, "smtp/550"
    }
}

// The network, and codes beyond the lists.
rows! { "smtp":
    fn smtp_a_connection_that_is_refused_is_transient() {
        Fault::network(NetworkKind::Connect, "connection refused") => Transient, Provider, "smtp/network"
    }
    fn smtp_a_503_after_our_own_slip_comes_as_a_network_failure_and_is_retried() {
        Fault { code: Some("503".into()), ..Fault::network(NetworkKind::Protocol, "bad sequence") }
            => Transient, Provider, "smtp/network"
    }
    fn smtp_432_goes_by_its_first_digit() {
        smtp("432", "4.7.12 A password transition is needed") => Transient, Provider, "smtp/4xx"
    }
    fn smtp_455_goes_by_its_first_digit() {
        smtp("455", "cannot accommodate parameters") => Transient, Provider, "smtp/4xx"
    }
    fn smtp_504_goes_by_its_first_digit() {
        smtp("504", "5.5.4 parameter not implemented") => Permanent, Message, "smtp/5xx"
    }
    fn smtp_555_goes_by_its_first_digit() {
        smtp("555", "5.5.4 parameters not recognised") => Permanent, Message, "smtp/5xx"
    }
}

#[test]
fn smtp_silence_after_the_final_dot_is_uncertain() {
    let failure = classify("smtp", Fault::network(NetworkKind::Dropped, "connection lost after DATA"));
    assert!(failure.uncertain);
    assert_eq!((failure.class, failure.blame, &*failure.rule), (Transient, Provider, "smtp/network"));
    assert!(!classify("smtp", Fault::network(NetworkKind::Connect, "refused")).uncertain);
}

/// A script for the sandbox shows what the wire would bring, so its codes must mean the same.
#[test]
fn e4_e5_a_code_in_the_sandbox_means_what_it_means_on_the_wire() {
    for code in (400..600).map(|code| code.to_string()) {
        for text in ["", "5.1.1 no such user", "4.2.1 try again later"] {
            let wire = classify("smtp", smtp(&code, text));
            assert_eq!(classify("smtp", sandbox(&code, text)), wire, "{code} {text}");
        }
    }
}

#[test]
fn e6_550_is_judged_alike_in_every_set_that_knows_it() {
    for set in ["smtp", "ses", "general"] {
        let rule = |row: &str| -> &'static str { format!("{set}/{row}").leak() };
        assert_judged(
            set,
            [
                (smtp("550", "5.1.1 user unknown"), Permanent, Message, rule("550")),
                (smtp("550", "temporary lookup failure"), Transient, Message, rule("55x-temporary")),
                (smtp("550", "4.2.1 mailbox unavailable"), Transient, Message, rule("55x-4.x.x")),
            ],
        );
    }
}
