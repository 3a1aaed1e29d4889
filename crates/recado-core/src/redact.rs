//! Masks a provider's words for readers who may not see the payload: logs, breakers, notices.
//!
//! Providers repeat the payload in their errors. The job and its dead letter keep every word for readers who
//! may see the job; elsewhere `***` replaces words of the payload, and e-mail addresses and telephone numbers
//! are shown in part.
//!
//! Absent on purpose: knowing which words are personal. A short word that happens to be in the payload as
//! well stays, or no reason could be read; words long enough to be no accident are masked.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::values::payload::Payload;

/// Replaces masked words.
const HIDDEN: &str = "***";

/// Bytes in a row that payload and words do not share by accident.
const RUN_BYTES: usize = 12;

/// Letters at least of a payload's whole value that is one word, such as a name.
const VALUE_LEN_MIN: usize = 4;

/// Letters and digits at least of a word with a digit in it, such as a number of an account.
const CODE_LEN_MIN: usize = 6;

/// The member of a sandbox job's data that the sandbox repeats.
const SCRIPT: &str = "script";

/// The author of the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    Provider,
    /// The sandbox, which says what the payload's own script tells it to.
    Script,
}

/// An e-mail address, or a telephone number as people and providers write it: with a `+`, or ten digits and more, which
/// codes of procedures and errors do not have.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, and a test uses it")]
static PERSONAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?<user>[^\s<>"'(),:;@\[\]\\]+)@(?<host>[\w.-]+)|\+\d[\d ()-]{6,}\d|\d{10,}"#).unwrap()
});

/// Masks the parts of the words that come from the payload or are personal.
pub fn redact(words: &str, data: &Payload, speaker: Speaker) -> String {
    let known = PayloadWords::of(data, speaker);
    let mut shown = String::with_capacity(words.len());
    let mut rest = 0;
    for found in PERSONAL.captures_iter(words) {
        let Some(whole) = found.get(0) else { continue };
        known.hide(&words[rest..whole.start()], &mut shown);
        match (found.name("user"), found.name("host")) {
            (Some(user), Some(host)) => {
                shown.extend(user.as_str().chars().next());
                shown.push_str(HIDDEN);
                shown.push('@');
                shown.push_str(host.as_str());
            }
            _ => {
                shown.push_str(HIDDEN);
                // Enough to tell two numbers apart.
                shown.push_str(&whole.as_str()[whole.len() - 2..]);
            }
        }
        rest = whole.end();
    }
    known.hide(&words[rest..], &mut shown);
    shown
}

/// The words of a payload that are masked.
#[derive(Default)]
struct PayloadWords {
    texts: Vec<String>,
    words: HashSet<String>,
}

impl PayloadWords {
    fn of(data: &Payload, speaker: Speaker) -> Self {
        let mut known = PayloadWords::default();
        match data.parse::<Value>() {
            Ok(Value::Object(members)) => {
                for (name, value) in &members {
                    match speaker {
                        Speaker::Script if name == SCRIPT => known.learn_codes(value),
                        Speaker::Script | Speaker::Provider => known.learn(value),
                    }
                }
            }
            Ok(value) => known.learn(&value),
            Err(_) => {}
        }
        known
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(members) => members.values().for_each(|member| self.learn(member)),
            Value::String(text) => {
                let is_word = text.chars().all(char::is_alphanumeric) && text.len() >= VALUE_LEN_MIN;
                self.words.extend(is_word.then(|| text.clone()));
                self.texts.push(text.clone());
                self.learn_codes(value);
            }
            Value::Number(_) | Value::Null | Value::Bool(_) => self.learn_codes(value),
        }
    }

    /// Learns only the codes. The sandbox is meant to repeat the rest of its script.
    fn learn_codes(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn_codes(item)),
            Value::Object(members) => members.values().for_each(|member| self.learn_codes(member)),
            Value::String(text) => {
                self.words.extend(words(text).filter(|word| is_code(word)).map(str::to_owned));
            }
            Value::Number(number) => self.words.extend(Some(number.to_string()).filter(|word| is_code(word))),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn hide(&self, words: &str, shown: &mut String) {
        let hidden = self.hidden_bytes(words);
        let mut before = false;
        for (at, letter) in words.char_indices() {
            let now = hidden[at..at + letter.len_utf8()].contains(&true);
            match (before, now) {
                (false, true) => shown.push_str(HIDDEN),
                (true, true) => {}
                (_, false) => shown.push(letter),
            }
            before = now;
        }
    }

    fn hidden_bytes(&self, text: &str) -> Vec<bool> {
        let mut hidden = vec![false; text.len()];
        let said: HashSet<&[u8]> = text.as_bytes().windows(RUN_BYTES).collect();
        let all = self.texts.iter().flat_map(|text| text.as_bytes().windows(RUN_BYTES));
        let shared: HashSet<&[u8]> = all.filter(|run| said.contains(run)).collect();
        for (at, run) in text.as_bytes().windows(RUN_BYTES).enumerate() {
            if shared.contains(run) {
                hidden[at..at + RUN_BYTES].fill(true);
            }
        }
        for word in words(text).filter(|word| self.words.contains(*word)) {
            let at = word.as_ptr().addr() - text.as_ptr().addr();
            hidden[at..at + word.len()].fill(true);
        }
        hidden
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn is_code(word: &str) -> bool {
    word.len() >= CODE_LEN_MIN && word.contains(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str, data: &str) -> String {
        redact(words, &Payload::new(data).unwrap(), Speaker::Provider)
    }

    #[test]
    fn addresses_and_numbers_outside_the_payload_are_shown_in_part() {
        for (words, shown) in [
            ("550 5.1.1 <ana.souza@example.com>: no such user", "550 5.1.1 <a***@example.com>: no such user"),
            ("{\"exists\":false,\"number\":\"5511987654321\"}", "{\"exists\":false,\"number\":\"***21\"}"),
            ("call +55 (11) 98765-4321 back", "call ***21 back"),
            (
                "421 4.7.0 try again in 300 s, 2026-01-31T08:30:00Z",
                "421 4.7.0 try again in 300 s, 2026-01-31T08:30:00Z",
            ),
            ("INVALID_PROCEDURE_CODE 40304361", "INVALID_PROCEDURE_CODE 40304361"),
            ("ação@exemplo.com.br e b@c", "a***@exemplo.com.br e b***@c"),
        ] {
            assert_eq!(said(words, "{}"), shown);
        }
    }

    #[test]
    fn what_is_the_payloads_own_is_hidden_and_the_rest_can_be_read() {
        let data = r#"{"number":55119876,"name":"Maria","text":"Olá Maria, seu exame de sangue está pronto","ref":["F77x2b"]}"#;
        for (words, shown) in [
            ("rejected: Olá Maria, seu exame de sangue está pronto", "rejected: ***"),
            ("the words `exame de sangue` are not allowed", "the words `***` are not allowed"),
            ("unknown name Maria in F77x2b", "unknown name *** in ***"),
            ("Mariana is somebody else", "Mariana is somebody else"),
            ("the mailbox is full", "the mailbox is full"),
        ] {
            assert_eq!(said(words, data), shown);
        }
    }

    #[test]
    fn a_script_is_said_but_for_the_codes_in_it() {
        let data = Payload::new(
            r#"{"script":["503 Service temporarily unavailable for acct9921","panic"],"name":"Maria"}"#,
        )
        .unwrap();
        let words = "Service temporarily unavailable for acct9921, Maria: panic";
        assert_eq!(
            redact(words, &data, Speaker::Script),
            "Service temporarily unavailable for ***, ***: panic"
        );
        assert_eq!(redact(words, &data, Speaker::Provider), "***, ***: ***");
    }

    #[test]
    fn any_payload_and_any_words_will_do() {
        assert_eq!(said("", "null"), "");
        assert_eq!(said("no answer within 5s", "\"no answer within 5s\""), "***");
        assert_eq!(said("ééééééééé", "\"ééééééééé\""), "***");
        assert_eq!(said("@ @x x@ 1234567890", "3"), "@ @x x@ ***90");
    }
}
