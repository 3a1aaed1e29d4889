//! Fixtures of the tests.

use recado_core::{Payload, Timestamp};
use recado_email::Email;
use recado_transport::DataFault;
use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z.
pub const DATE: Timestamp = Timestamp::from_millis(1_767_225_600_000);
pub const ID: &str = "<job-7f3a@acme.example>";

pub fn payload(data: &Value) -> Payload {
    Payload::new(&data.to_string()).expect("JSON")
}

/// The smallest e-mail, with these fields put in; a null takes one away.
pub fn data(changes: Value) -> Value {
    let mut data =
        json!({ "from": "acme@acme.example", "to": ["ana@example.com"], "subject": "Oi", "text": "Olá" });
    for (name, value) in changes.as_object().expect("an object") {
        data[name] = value.clone();
    }
    data
}

pub fn email(changes: Value) -> Email {
    Email::read(&payload(&data(changes))).unwrap_or_else(|faults| panic!("{faults:?}"))
}

pub fn faults(data: &Value) -> Vec<DataFault> {
    let faults = Email::read(&payload(data)).err().unwrap_or_default();
    assert!(faults.iter().all(|fault| fault.message.contains("; ")), "no advice in {faults:?}");
    faults
}

/// The pointers of all faults, sorted.
pub fn pointers(changes: Value) -> Vec<String> {
    let mut pointers: Vec<_> = faults(&data(changes)).into_iter().map(|fault| fault.pointer).collect();
    pointers.sort_unstable();
    pointers
}

pub fn wire(email: &Email) -> String {
    String::from_utf8(email.message(ID, DATE)).expect("ASCII")
}

/// The header lines of a message, unfolded, in order, as (name, value).
pub fn header_lines(wire: &str) -> Vec<(String, String)> {
    let (head, _) = wire.split_once("\r\n\r\n").expect("a header and a body");
    let unfolded = head.replace("\r\n ", " ");
    let lines = unfolded.split("\r\n").map(|line| line.split_once(": ").expect("a header line"));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
