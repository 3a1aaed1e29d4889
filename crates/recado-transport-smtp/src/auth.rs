//! AUTH: PLAIN, LOGIN and XOAUTH2.
//!
//! Absent on purpose: CRAM-MD5 and DIGEST-MD5, which make servers keep passwords in the clear.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recado_core::{Fault, NetworkKind};

use crate::config::{Credentials, Mechanism};
use crate::reply::Reply;
use crate::wire::{ConnectionError, Wire};

const MORE: u16 = 334;

impl Mechanism {
    pub(crate) const ALL: [Mechanism; 3] = [Mechanism::Plain, Mechanism::Login, Mechanism::XOAuth2];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
            Mechanism::XOAuth2 => "XOAUTH2",
        }
    }
}

/// The mechanism to use, of those that the server offers.
pub(crate) fn choose(credentials: &Credentials, offered: &[String]) -> Result<Mechanism, Fault> {
    let wanted = match &credentials.mechanism {
        Some(mechanism) => std::slice::from_ref(mechanism),
        None => &[Mechanism::Plain, Mechanism::Login],
    };
    let is_offered = |mechanism: &&Mechanism| offered.iter().any(|word| word == mechanism.word());
    wanted.iter().find(is_offered).copied().ok_or_else(|| {
        let words: Vec<_> = wanted.iter().map(|mechanism| mechanism.word()).collect();
        let text = format!(
            "at AUTH: the server does not offer {}; check the port, the TLS setting and `auth`",
            words.join(" or ")
        );
        Fault::network(NetworkKind::Protocol, &text)
    })
}

/// Brings back the server's last word on the login.
pub(crate) async fn log_in(
    wire: &mut Wire,
    mechanism: Mechanism,
    credentials: &Credentials,
) -> Result<Reply, ConnectionError> {
    let Credentials { user, secret, .. } = credentials;
    let base64 = |text: &str| BASE64_STANDARD.encode(text);
    let (first, answers) = match mechanism {
        Mechanism::Plain => (base64(&format!("\0{user}\0{secret}")), vec![]),
        Mechanism::Login => (String::new(), vec![base64(user), base64(secret)]),
        // A refusal comes as one more question, which wants an empty answer.
        Mechanism::XOAuth2 => {
            (base64(&format!("user={user}\x01auth=Bearer {secret}\x01\x01")), vec![String::new()])
        }
    };
    let mut reply = wire.ask(format!("AUTH {} {first}", mechanism.word()).trim_end()).await?;
    for answer in &answers {
        if reply.code == MORE {
            reply = wire.ask(answer).await?;
        }
    }
    let sent: Vec<_> = answers.iter().chain([&first, secret]).filter(|word| !word.is_empty()).collect();
    Ok(without_echo(reply, &sent))
}

/// Some servers repeat what they were sent. It must not end up in a job's history.
fn without_echo(mut reply: Reply, sent: &[&String]) -> Reply {
    for line in &mut reply.lines {
        for word in sent {
            *line = line.replace(word.as_str(), "…");
        }
    }
    reply
}
