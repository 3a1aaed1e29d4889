//! One address, with the name that people see beside it.

use crate::encode;

/// RFC 5321's bounds.
const LOCAL_PART_MAX_BYTES: usize = 64;
const ADDRESS_MAX_BYTES: usize = 254;
const NAME_MAX_BYTES: usize = 256;

/// `"a@b"` or `"Name <a@b>"`, checked. The address is ASCII, its domain in lower case and in punycode.
#[derive(Clone, PartialEq, Eq)]
pub struct Mailbox {
    name: Option<String>,
    address: String,
    at: usize,
}

impl Mailbox {
    /// Reads a mailbox, or says what is wrong with it and what to write instead.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("is empty; write an address, such as \"ana@example.com\"");
        }
        if text.contains(char::is_control) {
            return Err("holds a line break or another control character; write one address on one line");
        }
        let Some(inner) = text.strip_suffix('>') else { return Self::bare(text, None) };
        let Some((name, address)) = inner.rsplit_once('<') else {
            return Err("has a `>` without a `<`; write \"Name <ana@example.com>\"");
        };
        let name = display_name(name.trim())?;
        if name.len() > NAME_MAX_BYTES {
            return Err("has a name that is too long; write at most 256 bytes");
        }
        Self::bare(address.trim(), Some(name).filter(|name| !name.is_empty()))
    }

    fn bare(address: &str, name: Option<String>) -> Result<Self, &'static str> {
        let Some((local, domain)) = address.rsplit_once('@') else {
            return Err("is not an address; write \"ana@example.com\" or \"Name <ana@example.com>\"");
        };
        check_local_part(local)?;
        let domain = ascii_domain(domain)?;
        let address = format!("{local}@{domain}");
        if address.len() > ADDRESS_MAX_BYTES {
            return Err("is too long; an address has at most 254 bytes");
        }
        Ok(Mailbox { name, at: local.len(), address })
    }

    /// `local@domain`, ready for an envelope.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Everything after the `@`.
    pub fn domain(&self) -> &str {
        &self.address[self.at + 1..]
    }

    /// Returns the form of a header: ASCII, the name quoted or encoded as need be. Providers with an API take
    /// this form too.
    pub fn in_header(&self) -> String {
        match &self.name {
            Some(name) => format!("{} <{}>", encode::phrase(name), self.address),
            None => self.address.clone(),
        }
    }
}

/// Shows the domain only: addresses are personal data.
impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mailbox(…@{})", self.domain())
    }
}

/// Reads the name beside an address. One that holds a character that separates addresses has to be quoted, or
/// `<a@b.c>,<d@e.f>` would pass for one mailbox.
fn display_name(name: &str) -> Result<String, &'static str> {
    let Some(quoted) = name.strip_prefix('"') else {
        return match name.contains(['<', '>', '@', ',', ';', '"']) {
            true => {
                Err("has a name with , ; @ < > or a quote in it; write one address, and put such a name \
                         in quotes: \"\\\"Souza, Ana\\\" <ana@example.com>\"")
            }
            false => Ok(name.to_owned()),
        };
    };
    let mut spoken = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    loop {
        match rest.next() {
            Some('"') if rest.as_str().is_empty() => return Ok(spoken.trim().to_owned()),
            Some('\\') => spoken.extend(rest.next()),
            None | Some('"') => {
                return Err(
                    "has a name whose quotes do not match; write \"\\\"Souza, Ana\\\" <ana@example.com>\"",
                );
            }
            Some(other) => spoken.push(other),
        }
    }
}

fn check_local_part(local: &str) -> Result<(), &'static str> {
    if !local.is_ascii() {
        return Err(
            "has letters beyond ASCII before the `@`, which most servers refuse; write an ASCII address",
        );
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let dot_atom = local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(allowed));
    if !dot_atom {
        return Err("is not an address; write one plain address, such as \"ana@example.com\"");
    }
    if local.len() > LOCAL_PART_MAX_BYTES {
        return Err("is too long before the `@`; write at most 64 bytes there");
    }
    Ok(())
}

fn ascii_domain(domain: &str) -> Result<String, &'static str> {
    const WRONG: &str = "has no valid domain after the `@`; write one such as example.com";
    let ascii = idna::domain_to_ascii_strict(domain).map_err(|_| WRONG)?;
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if ascii.split('.').all(label) { Ok(ascii) } else { Err(WRONG) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_alone_or_beside_a_name() {
        for (text, name, address) in [
            ("ana@example.com", None, "ana@example.com"),
            (" <ana@example.com> ", None, "ana@example.com"),
            ("Ana <ana@example.com>", Some("Ana"), "ana@example.com"),
            (r#""Souza, Ana \"Nina\"" <ana@example.com>"#, Some(r#"Souza, Ana "Nina""#), "ana@example.com"),
            (
                r#""<eve@example.com>, Ana" <ana@example.com>"#,
                Some("<eve@example.com>, Ana"),
                "ana@example.com",
            ),
            ("Acme: Sales (Brazil) <ana@example.com>", Some("Acme: Sales (Brazil)"), "ana@example.com"),
            ("José <Ana+tag@EXAMPLE.com>", Some("José"), "Ana+tag@example.com"),
            ("ana@exämple.com", None, "ana@xn--exmple-cua.com"),
            ("root@localhost", None, "root@localhost"),
        ] {
            let mailbox = Mailbox::read(text).unwrap();
            assert_eq!((mailbox.name.as_deref(), mailbox.address()), (name, address), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_address_is_refused_with_advice() {
        let long = format!("{}@example.com", "a".repeat(65));
        for text in [
            "",
            " ",
            "ana",
            "@example.com",
            "ana@",
            "ana@@example.com",
            "a b@example.com",
            "ana@ex ample.com",
            "ana@-x.com",
            "ana@x-.com",
            "ana@x..com",
            ".ana@example.com",
            "ana.@example.com",
            "a..b@example.com",
            "josé@example.com",
            "\"a b\"@example.com",
            "ana@[127.0.0.1]",
            "ana@example.com, bob@example.com",
            "Ana <ana@example.com",
            "ana@example.com>",
            "ana@example.com\r\nBcc: eve@example.com",
            "Ana\n <ana@example.com>",
            "ana@example.com\0",
            "<ana@example.com> Ana",
            "a<b@example.com",
            "<ana@example.com>,<eve@example.com>",
            "ana@example.com, Eve <eve@example.com>",
            "ana@example.com <eve@example.com>",
            "Souza, Ana <ana@example.com>",
            "Friends: ana@example.com; <eve@example.com>",
            r#""Ana" <ana@example.com>, "Eve" <eve@example.com>"#,
            r#""Ana" x <ana@example.com>"#,
            r#""Ana <ana@example.com>"#,
            r#""Ana\" <ana@example.com>"#,
            &long,
        ] {
            let wrong = Mailbox::read(text).expect_err(text);
            assert!(wrong.contains("; "), "no advice in {wrong:?}");
        }
    }
}
