//! Encodings of bytes beyond ASCII, for messages that are ASCII throughout.
//!
//! Headers use encoded words (RFC 2047) and extended parameters (RFC 2231), bodies use quoted-printable and
//! base64 (RFC 2045). Values come in without control characters; their readers see to that.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Preferred length of lines.
const LINE_BYTES: usize = 76;
/// Bytes of an encoded word around its base64 text.
const WORD_FRAME_BYTES: usize = "=?utf-8?B??=".len();
/// Bytes at most before a name in a header of addresses.
const ADDRESS_HEADER_MAX_BYTES: usize = "Reply-To: ".len();
/// Bytes at most between two places where a line can be broken.
pub(crate) const PIECE_MAX_BYTES: usize = 900;

/// A header of free text, folded, with its line end.
pub(crate) fn unstructured(name: &str, value: &str) -> String {
    let plain = value.bytes().all(|b| (b' '..=b'~').contains(&b))
        && !value.contains("=?")
        && !value.starts_with(' ')
        && !value.ends_with(' ')
        && is_foldable(value);
    if plain { folded(name, value) } else { encoded(name, value) }
}

/// Returns true if lines can be broken often enough: no line of a message may have more than 998 bytes.
pub(crate) fn is_foldable(value: &str) -> bool {
    pieces(value).all(|piece| piece.len() <= PIECE_MAX_BYTES)
}

/// A name as it stands beside an address: an atom, a quoted string or encoded words.
pub(crate) fn phrase(name: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || " -_".contains(c);
    if name.chars().all(word) && name.len() <= LINE_BYTES && !name.contains("  ") {
        name.to_owned()
    } else if name.is_ascii() && name.len() <= LINE_BYTES && !name.contains("=?") {
        quoted(name)
    } else {
        words(name, LINE_BYTES - ADDRESS_HEADER_MAX_BYTES).join(" ")
    }
}

/// A parameter of a header, on a line of its own.
pub(crate) fn parameter(name: &str, value: &str) -> String {
    if value.is_ascii() {
        return format!(";\r\n {name}={}", quoted(value));
    }
    let mut line = format!(";\r\n {name}*=utf-8''");
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            line.push(char::from(byte));
        } else {
            line.push_str(&format!("%{byte:02X}"));
        }
    }
    line
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// A header of encoded words, one on each line, none of the lines over 76 bytes.
fn encoded(name: &str, value: &str) -> String {
    let first_max = LINE_BYTES.saturating_sub(name.len() + ": ".len());
    let first = value.floor_char_boundary(text_in_word(first_max));
    let rest = words(&value[first..], LINE_BYTES - " ".len()).join("\r\n ");
    match (first, rest.is_empty()) {
        // Even one character has no room beside so long a name.
        (0, _) => format!("{name}:\r\n {rest}\r\n"),
        (_, true) => format!("{name}: {}\r\n", word(value)),
        (_, false) => format!("{name}: {}\r\n {rest}\r\n", word(&value[..first])),
    }
}

/// Encoded words of at most `max_bytes` each, none of them cut within a character.
fn words(text: &str, max_bytes: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, next) = rest.split_at(rest.floor_char_boundary(text_in_word(max_bytes)));
        words.push(word(piece));
        rest = next;
    }
    words
}

fn word(text: &str) -> String {
    format!("=?utf-8?B?{}?=", BASE64_STANDARD.encode(text))
}

/// Bytes of text that an encoded word of `max_bytes` holds.
fn text_in_word(max_bytes: usize) -> usize {
    max_bytes.saturating_sub(WORD_FRAME_BYTES) / 4 * 3
}

/// Cuts before the spaces that a word follows: a line of spaces alone would end the header for some readers.
fn pieces(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let word = rest.find(|c| c != ' ').unwrap_or(rest.len());
        let end = rest[word..].find(' ').map_or(rest.len(), |space| word + space);
        let (piece, next) = rest.split_at(end);
        rest = next;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A header whose lines are broken before spaces where they would grow over 76 bytes, with its line end.
fn folded(name: &str, value: &str) -> String {
    let mut header = format!("{name}: ");
    fold(value, header.len(), &mut header);
    header.push_str("\r\n");
    header
}

/// Writes a value that goes on at a column of its line.
pub(crate) fn fold(value: &str, column: usize, header: &mut String) {
    let mut line = column;
    for (index, piece) in pieces(value).enumerate() {
        if index > 0 && line + piece.len() > LINE_BYTES {
            header.push_str("\r\n");
            line = 0;
        }
        header.push_str(piece);
        line += piece.len();
    }
}

/// Text as quoted-printable, its line ends made CRLF whatever they were. It always ends a line.
pub(crate) fn quoted_printable(text: &str, out: &mut Vec<u8>) {
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() && lines.peek().is_none() {
            break;
        }
        quoted_printable_line(line.as_bytes(), out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns true for a byte that stands for itself anywhere but at the end of a line.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t') && byte != b'='
}

fn quoted_printable_line(line: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    // Most lines are sent as they are. All bytes are looked at, without a branch for each: many at once.
    let is_whole = line.len() <= LINE_BYTES && line.last().is_none_or(u8::is_ascii_graphic);
    if is_whole && line.iter().fold(true, |all, byte| all & is_plain(*byte)) {
        return out.extend_from_slice(line);
    }
    let mut length = 0;
    for (index, &byte) in line.iter().enumerate() {
        let last = index + 1 == line.len();
        // White space at the end of a line is lost on the way.
        let plain = is_plain(byte) && !(last && byte.is_ascii_whitespace());
        let needed = if plain { 1 } else { 3 };
        // The `=` of a soft break takes one place more, unless this is the end.
        if length + needed > LINE_BYTES - usize::from(!last) {
            out.extend_from_slice(b"=\r\n");
            length = 0;
        }
        if plain {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'=', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        length += needed;
    }
}

/// Bytes as base64 in lines.
pub(crate) fn base64_lines(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(LINE_BYTES / 4 * 3) {
        out.extend_from_slice(BASE64_STANDARD.encode(chunk).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Bytes at most that text takes up as quoted-printable.
pub(crate) fn quoted_printable_max(text: &str) -> usize {
    // Tabs count as encoded: those at the end of a line are.
    let encoded = text.bytes().map(|byte| usize::from(byte == b'\t' || !is_plain(byte))).sum::<usize>();
    let written = text.len() + 2 * encoded;
    // A soft break of three bytes after at least 73, and at the end of each line.
    written + (written / 73 + 1) * 3 + encoded
}

/// Bytes at most that `bytes` take up as base64 in lines.
pub(crate) fn base64_max(bytes: usize) -> usize {
    let encoded = bytes.div_ceil(3).saturating_mul(4);
    encoded.saturating_add(encoded / 38 + 2)
}
