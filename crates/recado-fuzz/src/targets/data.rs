//! Data of jobs, and what servers say about them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::LazyLock;
use std::time::Duration;

use recado_core::reason::REASON_LEN_MAX_BYTES;
use recado_core::{FaultKind, Job, JobId, Outcome, Payload, rules};
use recado_email::{Email, message_id};
use recado_testkit::jobs::{NOW, new_job};
use recado_transport::{DataFault, Delivery, Sandbox, Transport, Wanted};
use recado_transport_smtp::{Security, Smtp, SmtpConfig, Timeouts};

use super::RUNTIME;

pub const EMAIL_WORDS: &[&str] = &[
    "\"from\":",
    "\"to\":[\"ana@example.com\"]",
    "\"attachments\":[{\"filename\":\"a.txt\",\"contentType\":\"text/plain\",\"contentBase64\":\"YQ==\"}]",
    "\"headers\":{\"X-A\":\"b\"}",
    "Bcc: x@example.com",
    "=?utf-8?q?a?=",
    "ana@exámple.com",
    "<",
    ">",
    ",",
    "\u{202e}",
    "\r\nBcc: a@b.c",
];

pub const SMTP_WORDS: &[&str] = &[
    "220 mail ready\r\n",
    "250 ok\r\n",
    "250-SIZE 10\r\n",
    "250 PIPELINING\r\n",
    "354 go ahead\r\n",
    "421 4.7.0 later\r\n",
    "550 5.1.1 no such user\r\n",
    "250-",
    "999 ",
    "2\r\n",
    "\n",
    "\0",
];

pub const SCRIPT_WORDS: &[&str] = &[
    "\"ok\"",
    "\"503 busy\"",
    "\"429 retry-after=2\"",
    "\"timeout\"",
    "\"drop\"",
    "retry-after=",
    "script",
    "5.1.1",
    "550 ",
];

fn job(data: &Payload) -> Job {
    Job::from(new_job("job-1", "mail", data.as_str(), NOW))
}

fn send(transport: &dyn Transport, data: &Payload) -> Outcome {
    let job = job(data);
    let timeout = Duration::from_secs(5);
    let delivery = Delivery { job: &job, attempt: 1, now: NOW, timeout, answer: Wanted::Receipt };
    RUNTIME.block_on(transport.send(delivery))
}

fn check_faults(faults: &[DataFault]) {
    assert!(!faults.is_empty(), "a refusal says why");
    for DataFault { pointer, message } in faults {
        assert!(pointer.is_empty() || pointer.starts_with('/'), "{pointer:?} is no place");
        assert!(!message.trim().is_empty());
    }
}

/// A failure as it goes on record, whatever was said.
fn check_failure(outcome: Outcome) {
    let Outcome::Failed(fault) = outcome else { return };
    let failure = rules::named("general").unwrap().classify(fault);
    assert!(
        !failure.reason.as_str().trim().is_empty() && failure.reason.as_str().len() <= REASON_LEN_MAX_BYTES
    );
    assert!(!failure.rule.is_empty());
}

pub fn email(input: &[u8]) {
    let Some(data) = std::str::from_utf8(input).ok().and_then(|text| Payload::new(text).ok()) else { return };
    let email = match Email::read(&data) {
        Ok(email) => email,
        Err(faults) => return check_faults(&faults),
    };
    let id = message_id(&JobId::new("job-1").unwrap(), email.from.domain());
    let message = email.message(&id, NOW);
    assert_eq!(email.message(&id, NOW), message, "a repetition cannot be told from the first try");
    let text = String::from_utf8(message).expect("ASCII");
    assert!(text.is_ascii());
    assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "lines end as they should");
    assert!(text.split("\r\n").all(|line| line.len() <= 998), "no line is too long");
    let (head, _) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert!(!head.to_ascii_lowercase().contains("\r\nbcc:"), "hidden recipients stay hidden");
    for line in head.split("\r\n").filter(|line| !line.starts_with([' ', '\t'])) {
        let (name, _) = line.split_once(':').expect("a header");
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{line:?}");
    }
    assert!(!email.recipients().is_empty());
}

/// A server that says these bytes, whatever it is told, and hangs up.
static RELAY: LazyLock<(TcpListener, Smtp)> = LazyLock::new(|| {
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let wait = Duration::from_secs(1);
    let config = SmtpConfig {
        port: relay.local_addr().unwrap().port(),
        timeouts: Timeouts { connect: wait, opening: wait, envelope: wait, data: wait },
        messages_per_connection_max: 1,
        ..SmtpConfig::new("127.0.0.1", Security::None)
    };
    let smtp = RUNTIME.block_on(async { Smtp::new(config).unwrap() });
    (relay, smtp)
});

pub fn smtp_reply(input: &[u8]) {
    let (relay, smtp) = &*RELAY;
    let data =
        Payload::new(r#"{"from":"a@example.com","to":["b@example.com"],"subject":"s","text":"t"}"#).unwrap();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = relay.accept().unwrap();
            // The client may hang up in the middle.
            let _ = stream.write_all(input).and_then(|()| stream.shutdown(Shutdown::Write));
            let _ = stream.read_to_end(&mut Vec::new());
        });
        send(smtp, &data)
    });
    if let Outcome::Accepted { .. } = outcome {
        let says = |code: &str| input.windows(3).any(|part| part == code.as_bytes());
        assert!(says("354") && says("25"), "a yes that was never said");
    }
    check_failure(outcome);
}

pub fn sandbox_script(input: &[u8]) {
    let Some(data) = std::str::from_utf8(input).ok().and_then(|text| Payload::new(text).ok()) else { return };
    // A script may ask for a panic, and for a wait: both are what it is for.
    if data.as_str().to_ascii_lowercase().contains("panic")
        || data.as_str().contains("latency")
        || data.as_str().contains("\\u")
    {
        return;
    }
    let checked = Sandbox.check(&data);
    let outcome = send(&Sandbox, &data);
    match (checked, &outcome) {
        (Err(faults), _) => check_faults(&faults),
        (Ok(()), Outcome::Failed(fault)) => {
            assert_ne!(fault.kind, FaultKind::InvalidPayload, "it was checked")
        }
        (Ok(()), _) => {}
    }
    check_failure(outcome);
}
