//! A forger: the format written down a second time, with everything but the key.

use aws_lc_rs::digest::{SHA256, digest};

pub fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line's parts: body, personal part with its key (or nothing), seal.
pub fn parts(line: &str) -> (&str, &str, &str) {
    let (front, seal) = line.split_at(line.rfind(r#","hash":""#).unwrap() + 1);
    let front = front.strip_suffix(',').unwrap();
    let (body, personal) = front.split_at(front.find(r#","personal":"#).unwrap_or(front.len()));
    (body, personal, seal)
}

/// Returns the previous-hash that the next line must carry.
pub fn link(line: &str) -> String {
    sha256(parts(line).2)
}

/// The value of a text field at the line's top.
pub fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let from = line.find(&format!(r#""{name}":""#)).unwrap() + name.len() + 4;
    &line[from..from + line[from..].find('"').unwrap()]
}

/// Makes each line continue the one before, with hashes that fit; signatures stay what they were.
pub fn rechain(lines: &mut [String], from: usize) {
    for at in from..lines.len() {
        let mut line = lines[at].clone();
        if at > 0 {
            let (old, new) = (field(&line, "previous").to_owned(), link(&lines[at - 1]));
            line = line.replacen(&old, &new, 1);
        }
        lines[at] = rehash(&line);
    }
}

/// The line with the hash and the commitment that its content should have.
pub fn rehash(line: &str) -> String {
    let (body, personal, seal) = parts(line);
    let mut body = body.to_owned();
    if let Some(object) = personal.strip_prefix(r#","personal":"#).filter(|part| !part.contains("erasedBy")) {
        let old = field(line, "commitment").to_owned();
        body = body.replace(&old, &sha256(object));
    }
    let seal = seal.replace(field(seal, "hash"), &sha256(&body));
    format!("{body}{personal},{seal}")
}
