//! A server's reply: a code and lines of text.
//!
//! Reading is strict about the frame, because a reply that is misread shifts all that follow, and lenient
//! about the words: servers write in UTF-8, in Latin-1 and end lines as they please.

use recado_core::Fault;
use recado_core::outcome::enhanced_code;

use crate::wire::{ConnectionError, Step};

/// Bytes at most in one reply with all its lines. The longest seen are a few hundred.
pub(crate) const REPLY_MAX_BYTES: usize = 16 * 1_024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub code: u16,
    pub lines: Vec<String>,
}

/// The reason why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAReply {
    #[error("the answer is not SMTP")]
    Malformed,
    #[error("the answer has no end")]
    Endless,
}

impl Reply {
    /// Takes one reply off the front of what was read, if all of it is there.
    pub(crate) fn take(unread: &mut Vec<u8>) -> Result<Option<Reply>, NotAReply> {
        let mut lines = Vec::new();
        let mut code = None;
        let mut taken = 0;
        for line in unread.split_inclusive(|&b| b == b'\n') {
            taken += line.len();
            if taken > REPLY_MAX_BYTES {
                return Err(NotAReply::Endless);
            }
            let Some(line) = line.strip_suffix(b"\n") else { return Ok(None) };
            let (this, last, text) = read_line(line.strip_suffix(b"\r").unwrap_or(line))?;
            if *code.get_or_insert(this) != this {
                return Err(NotAReply::Malformed);
            }
            lines.push(text);
            if last {
                unread.drain(..taken);
                return Ok(Some(Reply { code: this, lines }));
            }
        }
        Ok(None)
    }

    pub(crate) fn is_positive(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.code >= 400
    }

    /// The server is about to close the connection.
    pub(crate) fn is_closing(&self) -> bool {
        self.code == 421
    }

    /// All lines in one; an enhanced code that stands on each of them stays on the first.
    pub(crate) fn text(&self) -> String {
        let enhanced = self.lines.first().and_then(|line| enhanced_code(line));
        let tidy = |(index, line): (usize, &String)| {
            let repeated = enhanced.filter(|_| index > 0).and_then(|code| line.strip_prefix(code));
            repeated.unwrap_or(line).trim().to_owned()
        };
        let lines: Vec<_> = self.lines.iter().enumerate().map(tidy).filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    }

    /// Code and text, as people quote it.
    pub(crate) fn quoted(&self) -> String {
        format!("{} {}", self.code, self.text()).trim_end().to_owned()
    }

    /// The fault of a server that said this where it makes no sense.
    pub(crate) fn out_of_place(self, step: Step) -> Fault {
        ConnectionError::OutOfPlace(self).into_fault(step)
    }

    /// Converts a negative reply into a fault.
    pub(crate) fn fault(&self) -> Fault {
        let text = self.text();
        let words = if text.is_empty() { "the server gave no reason" } else { &text };
        Fault {
            enhanced: enhanced_code(&text).map(Into::into),
            ..Fault::answer(&self.code.to_string(), words)
        }
    }
}

/// The code, whether the line is the last, and the text.
fn read_line(line: &[u8]) -> Result<(u16, bool, String), NotAReply> {
    let (code, rest) = line.split_at_checked(3).ok_or(NotAReply::Malformed)?;
    let [first @ b'2'..=b'5', second @ b'0'..=b'9', third @ b'0'..=b'9'] = code else {
        return Err(NotAReply::Malformed);
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    let code = digit(first) * 100 + digit(second) * 10 + digit(third);
    match rest.split_first() {
        None => Ok((code, true, String::new())),
        Some((b' ', text)) => Ok((code, true, in_words(text))),
        Some((b'-', text)) => Ok((code, false, in_words(text))),
        Some(_) => Err(NotAReply::Malformed),
    }
}

/// UTF-8, or else Latin-1, in which any byte is a letter; what is no letter at all becomes a space.
fn in_words(text: &[u8]) -> String {
    let words = match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(_) => text.iter().map(|&byte| char::from(byte)).collect(),
    };
    words.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(text: &[u8]) -> Result<Option<Reply>, NotAReply> {
        Reply::take(&mut text.to_vec())
    }

    #[test]
    fn the_lines_of_a_reply_are_joined_and_its_enhanced_code_is_said_once() {
        let reply =
            take(b"550-5.1.1 The account\r\n550-5.1.1 does not\r\n550 5.1.1 exist.\r\n").unwrap().unwrap();
        assert_eq!(reply.text(), "5.1.1 The account does not exist.");
        let fault = reply.fault();
        assert_eq!((fault.code.as_deref(), fault.enhanced.as_deref()), (Some("550"), Some("5.1.1")));
    }

    #[test]
    fn what_comes_after_a_reply_stays_for_the_next() {
        let mut unread = b"250 ok\r\n354 go\r\n".to_vec();
        assert_eq!(Reply::take(&mut unread).unwrap().unwrap().code, 250);
        assert_eq!(unread, b"354 go\r\n");
    }

    #[test]
    fn words_in_latin_1_are_read() {
        let reply = take(b"450 Caixa indispon\xedvel\n").unwrap().unwrap();
        assert_eq!(reply.text(), "Caixa indisponível");
    }

    #[test]
    fn a_bare_code_still_gives_a_fault_with_words() {
        assert_eq!(&*take(b"554\r\n").unwrap().unwrap().fault().text, "the server gave no reason");
    }

    #[test]
    fn what_is_not_framed_as_a_reply_is_refused() {
        for text in
            ["HTTP/1.1 200 OK\r\n", "25 ok\r\n", "250ok\r\n", "250-a\r\n251 b\r\n", "950 x\r\n", "\r\n"]
        {
            assert_eq!(take(text.as_bytes()), Err(NotAReply::Malformed), "{text}");
        }
        assert_eq!(take(&b"250-x\r\n".repeat(REPLY_MAX_BYTES)), Err(NotAReply::Endless));
        assert_eq!(take(&[b'x'; REPLY_MAX_BYTES + 1]), Err(NotAReply::Endless));
        assert_eq!(take(b"250 ok"), Ok(None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_without_a_panic_and_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut unread = bytes.clone();
            if let Ok(Some(reply)) = Reply::take(&mut unread) {
                prop_assert!(unread.len() < bytes.len() && (200..600).contains(&reply.code));
                prop_assert!(!reply.text().contains(char::is_control));
            }
        }

        #[test]
        fn a_reply_reads_the_same_in_pieces(lines in prop::collection::vec("[ -~]{0,40}", 1..5), cut in 0_usize..200) {
            let last = lines.len() - 1;
            let frame = |(index, line): (usize, &String)| format!("250{}{line}\r\n", if index == last { ' ' } else { '-' });
            let whole: String = lines.iter().enumerate().map(frame).collect();
            let (front, back) = whole.as_bytes().split_at(cut.min(whole.len() - 1));
            let mut unread = front.to_vec();
            prop_assert_eq!(Reply::take(&mut unread), Ok(None));
            unread.extend_from_slice(back);
            prop_assert_eq!(Reply::take(&mut unread), Ok(Some(Reply { code: 250, lines })));
            prop_assert!(unread.is_empty());
        }
    }
}
