//! Whatever goes wrong: there are words for it, and the password is not among them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_transport_smtp::{Credentials, Security};

use super::given::{ANA, SHORT, config, failed, mail, send, smtp};
use super::server::{Server, SmtpAct, cut, say};

#[tokio::test]
async fn every_failure_has_words_and_none_of_them_is_the_password() {
    let plain = BASE64_STANDARD.encode("\0ana\0hunter2");
    let failures = [
        ("(greeting)", say("554")),
        ("(greeting)", cut("")),
        ("(greeting)", SmtpAct::Hang),
        ("EHLO", say("550 no")),
        ("EHLO", say("250 localhost")),
        ("EHLO", say("garbage")),
        ("STARTTLS", say("454")),
        ("STARTTLS", SmtpAct::SayMore("250 OK\r\n".into())),
        ("AUTH", say("535")),
        ("AUTH", say("535 5.7.8 hunter2 is not the password of ana")),
        ("AUTH", say(&format!("535 5.7.8 cannot make sense of {plain}"))),
        ("AUTH", say(&format!("500 unknown command AUTH PLAIN {plain}"))),
        ("AUTH", say(&format!("501-hunter2\r\n501 {plain}"))),
        ("AUTH", cut("")),
        ("AUTH", SmtpAct::Reset),
        ("AUTH", SmtpAct::Hang),
        ("MAIL", say("530")),
        ("RCPT", say("550")),
        ("DATA", say("451")),
        ("(dot)", say("554")),
        ("(dot)", cut("")),
        ("(dot)", say("no")),
    ];
    for (place, act) in failures {
        let server = Server::with_start_tls(&["AUTH PLAIN"]);
        let told = format!("{act:?} at {place}");
        server.once(place, act);
        let mut config = config(&server, Security::StartTls);
        config.timeouts.opening = SHORT;
        config.credentials =
            Some(Credentials { user: "ana".into(), secret: "hunter2".into(), mechanism: None });
        let smtp = smtp(config);
        let fault = failed(send(&smtp, &mail(&[ANA])).await);
        assert_eq!(server.fired(), 1, "{told}");
        assert!(!fault.text.trim().is_empty(), "{told}");
        let everything = format!("{fault:?} {smtp:?}");
        assert!(!everything.contains("hunter2") && !everything.contains(&plain), "{told}: {everything}");
    }
}
