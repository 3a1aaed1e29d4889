//! The test kit's mail relay, told in replies.

use std::ops::Deref;

use mail_parser::MessageParser;
use recado_testkit::smtp::{self, Greeting, Mail, SmtpAct, SmtpServer, cut, say};

pub fn parse(mail: &Mail) -> mail_parser::Message<'_> {
    MessageParser::default().parse(&mail.text).expect("a message")
}

pub struct Relay(SmtpServer);

impl Deref for Relay {
    type Target = SmtpServer;

    fn deref(&self) -> &SmtpServer {
        &self.0
    }
}

impl Relay {
    pub fn start() -> Relay {
        Relay(SmtpServer::start(Greeting::of_relay()))
    }

    pub fn provider(&self) -> String {
        smtp::provider(self.address())
    }

    /// One reply after another to commands that begin so, and good manners after the last.
    pub fn orders(&self, command: &str, replies: &[&str]) {
        for reply in replies {
            self.0.once(command, act_of(reply));
        }
    }

    pub fn always(&self, command: &str, reply: &str) {
        self.0.always(command, act_of(reply));
    }
}

/// A relay that says 421 hangs up.
fn act_of(reply: &str) -> SmtpAct {
    if reply.starts_with("421") { cut(reply) } else { say(reply) }
}
