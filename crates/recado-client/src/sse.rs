//! Reads Server-Sent Events: bytes in, messages out.
//!
//! Follows the HTML standard on lines and fields, as far as this API needs it: `retry` and other fields are
//! ignored.

use std::collections::VecDeque;

/// Bytes at most of one message; an event holds no payload and is far smaller.
const MESSAGE_MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub id: Option<String>,
    pub event: String,
    pub data: String,
}

/// The other side sends one message without end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The bytes received so far, read as far as they go.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    line: Vec<u8>,
    /// The last line ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    message: Message,
    whole: VecDeque<Message>,
}

impl Reader {
    pub fn next(&mut self) -> Option<Message> {
        self.whole.pop_front()
    }

    /// Takes what has arrived, cut anywhere.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        for &byte in bytes {
            let ended_before = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if ended_before => {}
                b'\n' | b'\r' => self.end_line(),
                _ => self.line.push(byte),
            }
            if self.line.len() + self.message.data.len() > MESSAGE_MAX_BYTES {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            if !message.data.is_empty() {
                self.whole.push_back(message);
            }
            return;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.message.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.message.event),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // A comment has no name, and is a sign of life.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<Message> {
        let mut reader = Reader::default();
        pieces.iter().for_each(|piece| assert_eq!(reader.take(piece), Ok(())));
        std::iter::from_fn(|| reader.next()).collect()
    }

    fn message(id: Option<&str>, event: &str, data: &str) -> Message {
        Message { id: id.map(str::to_owned), event: event.to_owned(), data: data.to_owned() }
    }

    const TEXT: &[u8] = "id: 1\nevent: JobSent\ndata: {\"é\":1}\n\n: keep-alive\n\nevent:gap\r\ndata: a\r\ndata: b\r\n\r\ndata: \
                         unfinished\n"
        .as_bytes();

    #[test]
    fn messages_are_the_same_wherever_the_bytes_are_cut() {
        let whole = read(&[TEXT]);
        assert_eq!(
            whole,
            [message(Some("1"), "JobSent", "{\"é\":1}"), message(None, "gap", "a\nb")],
            "a comment is none, and what has no end is not yet one"
        );
        for cut in 0..TEXT.len() {
            let (first, rest) = TEXT.split_at(cut);
            assert_eq!(read(&[first, rest]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = TEXT.chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    #[test]
    fn a_message_without_end_is_given_up() {
        let line = vec![b'x'; MESSAGE_MAX_BYTES + 1];
        assert_eq!(Reader::default().take(&line), Err(TooLong));
        let lines = "data: xxxxxxxxx\n".repeat(MESSAGE_MAX_BYTES / 8);
        assert_eq!(Reader::default().take(lines.as_bytes()), Err(TooLong));
    }
}
