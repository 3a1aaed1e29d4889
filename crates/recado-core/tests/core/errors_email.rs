//! Seeds 000 and 001, and what the field knows about SMTP and SES.

use recado_core::Blame::{Credential, Message, Provider};
use recado_core::Class::{Permanent, RateLimit, Transient};
use recado_core::outcome::{Fault, NetworkKind};

use crate::given::{assert_judged, classify, http, sandbox, smtp};

#[test]
fn e4_seed_000_retries_421_450_451_452() {
    for answer in [smtp, sandbox] {
        assert_judged(
            "smtp",
            [
                (answer("421", "Serviço indisponível"), Transient, Provider, "smtp/421"),
                (answer("450", "Mailbox indisponível"), Transient, Message, "smtp/450"),
                (answer("451", "Erro local no processamento"), Transient, Provider, "smtp/451"),
                (answer("452", "Espaço insuficiente no servidor"), Transient, Provider, "smtp/452"),
            ],
        );
    }
}

#[test]
fn e5_seed_000_does_not_retry_its_permanent_codes() {
    for answer in [smtp, sandbox] {
        assert_judged(
            "smtp",
            [
                (answer("500", "Erro interno do servidor"), Permanent, Message, "smtp/500"),
                (answer("501", "Sintaxe incorreta"), Permanent, Message, "smtp/501"),
                (answer("502", "Comando não implementado"), Permanent, Message, "smtp/502"),
                (answer("503", "Sequência de comandos incorreta"), Permanent, Message, "smtp/503"),
                (answer("551", "Usuário não local"), Permanent, Message, "smtp/551"),
                (answer("552", "Espaço insuficiente"), Permanent, Message, "smtp/552"),
                (answer("553", "Mailbox não permitido"), Permanent, Message, "smtp/553"),
                (answer("554", "Falha na transação"), Permanent, Message, "smtp/554"),
            ],
        );
    }
}

#[test]
fn e6_a_550_is_permanent() {
    for set in ["smtp", "ses", "general"] {
        for text in ["", "Mailbox não disponível (permanente)", "5.1.1 <ana@example.com> user unknown"] {
            let failure = classify(set, smtp("550", text));
            assert_eq!((failure.class, &*failure.rule), (Permanent, &*format!("{set}/550")), "{text}");
        }
    }
}

#[test]
fn e6_a_550_is_transient_when_its_words_or_its_enhanced_code_say_temporary() {
    for set in ["smtp", "ses", "general"] {
        for (text, row) in [
            ("Mailbox não disponível (temporário)", "55x-temporary"),
            ("Caixa temporariamente indisponível", "55x-temporary"),
            ("mailbox unavailable, try again later", "55x-temporary"),
            ("5.2.1 mailbox TEMPORARILY disabled", "55x-temporary"),
            ("temporary lookup failure", "55x-temporary"),
            ("4.2.1 mailbox unavailable", "55x-4.x.x"),
        ] {
            let failure = classify(set, smtp("550", text));
            let expected = (Transient, Message, &*format!("{set}/{row}"));
            assert_eq!((failure.class, failure.blame, &*failure.rule), expected, "{text}");
        }
    }
}

#[test]
fn smtp_words_and_enhanced_codes_refine_the_code() {
    assert_judged(
        "smtp",
        [
            (smtp("554", "greylisted, come back in 5 minutes"), Transient, Message, "smtp/greylist"),
            (smtp("451", "4.7.1 Graylisting in action"), Transient, Message, "smtp/graylist"),
            (smtp("554", "temporary failure"), Transient, Message, "smtp/55x-temporary"),
            (smtp("503", "try again later"), Transient, Message, "smtp/5xx-temporary"),
            (smtp("500", "4.3.0 try"), Transient, Message, "smtp/5xx-4.x.x"),
            (smtp("451", "5.1.1 no such user"), Permanent, Message, "smtp/45x-5.x.x"),
            (smtp("451", "5.3.0 temporary failure"), Transient, Message, "smtp/45x-5.x.x-temporary"),
            // 421 closes the connection whatever its enhanced code says: worth another one.
            (smtp("421", "5.3.2 shutting down"), Transient, Provider, "smtp/421"),
        ],
    );
}

#[test]
fn smtp_too_many_recipients_is_worth_another_try_with_fewer() {
    assert_judged(
        "smtp",
        [
            (smtp("452", "4.5.3 hold on"), Transient, Message, "smtp/x52-x.5.3"),
            (smtp("452", "5.5.3 hold on"), Transient, Message, "smtp/x52-x.5.3"),
            (smtp("552", "5.5.3 hold on"), Transient, Message, "smtp/x52-x.5.3"),
            (smtp("552", "Too many recipients"), Transient, Message, "smtp/x52-too-many-recipients"),
            (smtp("552", "5.2.2 mailbox full"), Permanent, Message, "smtp/552"),
            (smtp("550", "5.5.3 hold on"), Permanent, Message, "smtp/550"),
        ],
    );
}

#[test]
fn smtp_throttling_is_told_from_failing() {
    let deferred = "4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume";
    let rate = "4.7.28 Our system has detected an unusual amount of mail";
    assert_judged(
        "smtp",
        [
            (smtp("421", deferred), RateLimit, Provider, "smtp/temporarily-deferred"),
            (smtp("421", rate), RateLimit, Provider, "smtp/4.7.28"),
            (smtp("450", "unusual rate of mail"), RateLimit, Provider, "smtp/4xx-too-fast"),
            (smtp("421", "Too many connections"), RateLimit, Provider, "smtp/4xx-too-fast"),
            (smtp("454", "Throttling failure: slow down"), RateLimit, Provider, "smtp/4xx-too-fast"),
            (
                smtp("454", "Throttling failure: Maximum sending rate exceeded"),
                RateLimit,
                Provider,
                "smtp/sending-rate",
            ),
            (
                smtp("454", "Throttling failure: Daily message quota exceeded"),
                RateLimit,
                Credential,
                "smtp/daily-quota",
            ),
            (smtp("454", "4.7.0 TLS not available"), Transient, Provider, "smtp/4xx"),
        ],
    );
}

#[test]
fn smtp_a_refused_login_blames_the_credential() {
    assert_judged(
        "smtp",
        [
            (smtp("530", "5.7.0 Authentication required"), Permanent, Credential, "smtp/530"),
            (smtp("534", "5.7.9 mechanism too weak"), Permanent, Credential, "smtp/534"),
            (smtp("535", "5.7.8 Username and Password not accepted"), Permanent, Credential, "smtp/535"),
        ],
    );
}

#[test]
fn smtp_codes_beyond_the_lists_go_by_their_first_digit() {
    assert_judged(
        "smtp",
        [
            (smtp("432", "password transition"), Transient, Provider, "smtp/4xx"),
            (smtp("455", "cannot accommodate parameters"), Transient, Provider, "smtp/4xx"),
            (smtp("504", "parameter not implemented"), Permanent, Message, "smtp/5xx"),
            (smtp("555", "parameters not recognised"), Permanent, Message, "smtp/5xx"),
        ],
    );
}

#[test]
fn smtp_our_own_protocol_slip_is_a_network_failure_and_not_the_503() {
    let slip = Fault { code: Some("503".into()), ..Fault::network(NetworkKind::Protocol, "bad sequence") };
    assert_judged("smtp", [(slip, Transient, Provider, "smtp/network")]);
}

#[test]
fn smtp_silence_after_the_final_dot_is_uncertain() {
    let failure = classify("smtp", Fault::network(NetworkKind::Dropped, "connection lost after DATA"));
    assert!(failure.uncertain);
    assert_eq!(failure.class, Transient);
    assert!(!classify("smtp", Fault::network(NetworkKind::Connect, "refused")).uncertain);
}

#[test]
fn g9_seed_001_retryable_list() {
    for answer in [smtp, sandbox] {
        assert_judged(
            "ses",
            [
                (answer("421", "Service not available"), Transient, Provider, "ses/421"),
                (answer("450", "Mailbox unavailable"), Transient, Message, "ses/450"),
                (answer("451", "Local error in processing"), Transient, Provider, "ses/451"),
                (answer("452", "Insufficient system storage"), Transient, Provider, "ses/452"),
                (answer("Throttling", "slow down"), RateLimit, Provider, "ses/Throttling"),
                (answer("ServiceUnavailable", ""), Transient, Provider, "ses/ServiceUnavailable"),
            ],
        );
    }
}

#[test]
fn g9_seed_001_permanent_list() {
    let unverified = "ses/MailFromDomainNotVerified";
    for answer in [smtp, sandbox] {
        assert_judged(
            "ses",
            [
                (answer("500", "Syntax error"), Permanent, Message, "ses/500"),
                (answer("550", "Mailbox unavailable"), Permanent, Message, "ses/550"),
                (answer("554", "Transaction failed"), Permanent, Message, "ses/554"),
                (answer("MessageRejected", "bad"), Permanent, Message, "ses/MessageRejected"),
                (answer("MailFromDomainNotVerified", "no"), Permanent, Credential, unverified),
            ],
        );
    }
}

#[test]
fn ses_names_are_known_with_and_without_their_suffix() {
    let names = [
        ("TooManyRequests", RateLimit, Provider),
        ("Throttling", RateLimit, Provider),
        ("LimitExceeded", RateLimit, Credential),
        ("InternalServiceError", Transient, Provider),
        ("ServiceUnavailable", Transient, Provider),
        ("SendingPaused", Transient, Credential),
        ("MessageRejected", Permanent, Message),
        ("BadRequest", Permanent, Message),
        ("AccountSuspended", Permanent, Credential),
        ("MailFromDomainNotVerified", Permanent, Credential),
        ("NotFound", Permanent, Credential),
    ];
    for (name, class, blame) in names {
        for spelling in [name.to_owned(), format!("{name}Exception"), name.to_lowercase()] {
            for set in ["ses", "general"] {
                // AWS answers even a retryable name with 400, so the name must win over the status.
                let failure = classify(set, Fault { code: Some(spelling.clone().into()), ..http(400, "") });
                assert_eq!((failure.class, failure.blame), (class, blame), "{set} {spelling}");
            }
        }
    }
}

#[test]
fn ses_the_same_name_means_seconds_or_a_day() {
    let throttling = |text| smtp("ThrottlingException", text);
    assert_judged(
        "ses",
        [
            (throttling("Maximum sending rate exceeded."), RateLimit, Provider, "ses/sending-rate"),
            (throttling("Daily message quota exceeded."), RateLimit, Credential, "ses/daily-quota"),
            (smtp("454", "Throttling failure"), RateLimit, Provider, "ses/454"),
        ],
    );
}

#[test]
fn ses_statuses_speak_where_no_name_does() {
    let unnamed = |status| Fault { code: None, ..http(status, "<html>") };
    assert_judged(
        "ses",
        [
            (http(503, ""), Transient, Provider, "ses/5xx"),
            (unnamed(500), Transient, Provider, "ses/5xx"),
            (http(429, ""), RateLimit, Provider, "ses/429"),
            (http(403, "SignatureDoesNotMatch"), Permanent, Credential, "ses/403"),
            (http(401, ""), Permanent, Credential, "ses/401"),
            (smtp("551", "user not local"), Permanent, Message, "ses/55x"),
        ],
    );
}
