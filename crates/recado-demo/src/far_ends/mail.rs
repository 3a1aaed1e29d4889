//! A mail relay: SMTP with a login for those who want one.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A message as it arrived.
#[derive(Clone, Debug)]
pub struct Mail {
    pub recipients: Vec<String>,
    pub text: Vec<u8>,
}

/// Decides where a relay forgets its manners. `None` keeps to them.
pub trait Postmaster: Send + Sync + 'static {
    fn reply_to(&self, command: &str) -> Option<String>;

    /// The reply to a whole message; one that begins with a 2 takes it.
    fn reply_to_mail(&self, mail: Mail) -> Option<String>;
}

/// The lines of a server's configuration for it.
pub fn provider(address: SocketAddr) -> String {
    format!("[providers.smtp]\nurl = \"smtp://{address}?tls=none\"\n")
}

pub fn start(postmaster: Arc<impl Postmaster>) -> io::Result<SocketAddr> {
    super::listen(move |stream| {
        // It ends when either side has had enough; an error has no reader.
        let _ = Conversation::new(stream, &*postmaster).hold();
    })
}

struct Conversation<'a, P> {
    reader: BufReader<&'a TcpStream>,
    postmaster: &'a P,
    recipients: Vec<String>,
}

impl<'a, P: Postmaster> Conversation<'a, P> {
    fn new(stream: &'a TcpStream, postmaster: &'a P) -> Self {
        Conversation { reader: BufReader::new(stream), postmaster, recipients: Vec::new() }
    }

    fn hold(mut self) -> Option<()> {
        self.say("220 relay.example ESMTP")?;
        loop {
            let command = self.line()?;
            let reply = self.postmaster.reply_to(&command).unwrap_or_else(|| manners(&command).to_owned());
            if command.starts_with("MAIL") {
                self.recipients.clear();
            }
            if let (Some(address), true) = (command.strip_prefix("RCPT TO:<"), reply.starts_with('2')) {
                self.recipients.push(address.split('>').next()?.to_owned());
            }
            self.say(&reply)?;
            if reply.starts_with("354") {
                let mail = Mail { recipients: self.recipients.clone(), text: self.text()? };
                let reply = self.postmaster.reply_to_mail(mail);
                self.say(reply.as_deref().unwrap_or("250 2.0.0 queued as 4711"))?;
            }
            if reply.starts_with("421") || command == "QUIT" {
                return None;
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line).ok()?;
        (read > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// A message's text, dots undone.
    fn text(&mut self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let mut line = Vec::new();
            if self.reader.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            if line == b".\r\n" {
                return Some(text);
            }
            text.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
        }
    }

    fn say(&mut self, reply: &str) -> Option<()> {
        let mut stream = *self.reader.get_ref();
        stream.write_all(format!("{reply}\r\n").as_bytes()).ok()
    }
}

fn manners(command: &str) -> &'static str {
    match command.split(' ').next().unwrap_or_default() {
        "EHLO" => {
            "250-relay.example\r\n250-PIPELINING\r\n250-AUTH PLAIN\r\n250-ENHANCEDSTATUSCODES\r\n250 8BITMIME"
        }
        "AUTH" => "235 2.7.0 welcome",
        "MAIL" => "250 2.1.0 ok",
        "RCPT" => "250 2.1.5 ok",
        "DATA" => "354 go ahead",
        "RSET" => "250 2.0.0 ok",
        "QUIT" => "221 2.0.0 bye",
        _ => "502 5.5.2 not understood",
    }
}
