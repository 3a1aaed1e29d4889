//! Receivers of alerts: a program by a signed webhook, a chat that speaks as Slack does, and a person by
//! e-mail.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::far_ends::FarEnd;
use super::super::far_ends::mail::{Relay, parse};
use super::super::far_ends::receiver::{self, verified};
use super::after_long;

pub struct Ears {
    program: FarEnd,
    chat: FarEnd,
    mail: Relay,
}

impl Ears {
    pub fn start() -> Self {
        Ears { program: receiver::start(), chat: receiver::start(), mail: Relay::start() }
    }

    /// The lines of a server's configuration by which all of them are notified.
    pub fn config(&self, rules: &str) -> String {
        let Ears { program, chat, mail } = self;
        format!(
            "{}[notify.chat]\nwebhook = \"{}/services/T0/B0/x\"\nformat = \"slack\"\n\
             [notify.mail]\nfrom = \"recado@example.com\"\nto = [\"ops@example.com\"]\n{}\
             [alerts]\nevery = \"1s\"\nnotify = [\"chat\", \"mail\"]\n\
             webhook = \"{}/alerts\"\nsecret = \"{}\"\n{rules}\n",
            mail.provider(),
            chat.url(),
            receiver::ALLOWED,
            program.url(),
            receiver::SECRET,
        )
    }

    /// Waits until each of them has heard of it.
    #[track_caller]
    pub fn hear(&self, event: &str, alert: &str, about: Option<(&str, &str)>) {
        let words = words(event, alert, about);
        for (ear, heard) in self.heard() {
            after_long(|| heard(self).contains(&words));
            let times = heard(self).iter().filter(|one| **one == words).count();
            assert_eq!(times, 1, "{ear} heard it more than once: {words}");
        }
    }

    /// Each of them has heard that these fired and that they are over, and nothing else.
    #[track_caller]
    pub fn heard_only(&self, alerts: &[(&str, Option<(&str, &str)>)]) {
        let both = |(alert, about): &(&str, Option<(&str, &str)>)| {
            ["AlertFired", "AlertResolved"].map(|event| words(event, alert, *about))
        };
        let mut expected: Vec<_> = alerts.iter().flat_map(both).collect();
        expected.sort();
        for (ear, heard) in self.heard() {
            let mut heard = heard(self);
            heard.sort();
            assert_eq!(heard, expected, "{ear}");
        }
    }

    fn heard(&self) -> BTreeMap<&'static str, fn(&Ears) -> Vec<String>> {
        BTreeMap::from([
            ("the program", Ears::program as fn(&Ears) -> Vec<String>),
            ("the chat", Ears::chat),
            ("the mailbox", Ears::mail),
        ])
    }

    fn program(&self) -> Vec<String> {
        let told = |request: &_| {
            let event = verified(request, receiver::SECRET);
            let about = ABOUT
                .iter()
                .find_map(|(word, path)| Some((*word, event.pointer(path).and_then(Value::as_str)?)));
            assert!(event["data"]["runbook"].is_string() && event["data"]["reasonPt"].is_string(), "{event}");
            let text = |path: &str| event.pointer(path).and_then(Value::as_str).expect("a text").to_owned();
            words(&text("/type"), &text("/data/alert"), about)
        };
        self.program.ledger().iter().map(told).collect()
    }

    fn chat(&self) -> Vec<String> {
        let told = |text: &Value| text["text"].as_str().expect("a text").lines().next().map(str::to_owned);
        self.chat.ledger().iter().filter_map(|request| told(&request.json())).collect()
    }

    fn mail(&self) -> Vec<String> {
        let mails = self.mail.taken();
        mails.iter().map(|mail| parse(mail).subject().expect("a subject").to_owned()).collect()
    }
}

/// The fields in which an event names its subject.
const ABOUT: [(&str, &str); 4] = [
    ("route", "/data/route"),
    ("provider", "/data/provider"),
    ("error code", "/data/errorCode"),
    ("company", "/companyId"),
];

/// The first line of what people get.
fn words(event: &str, alert: &str, about: Option<(&str, &str)>) -> String {
    let about = about.map(|(word, name)| format!(", {word} {name}")).unwrap_or_default();
    format!("Recado: {event} (alert {alert}{about})")
}
