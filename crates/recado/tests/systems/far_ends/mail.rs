//! A mail relay: SMTP with a login for those who want one, and without TLS, which is tested beside the
//! transport.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use mail_parser::MessageParser;
use parking_lot::Mutex;

/// A message that was taken.
#[derive(Clone, Debug)]
pub struct Mail {
    pub recipients: Vec<String>,
    pub text: Vec<u8>,
}

impl Mail {
    pub fn parsed(&self) -> mail_parser::Message<'_> {
        MessageParser::default().parse(&self.text).expect("a message")
    }
}

/// What to answer to commands that begin with these words; `.` is the end of a text.
struct Order {
    command: String,
    replies: Vec<String>,
    for_ever: bool,
}

#[derive(Default)]
struct State {
    orders: Vec<Order>,
    fired: usize,
    taken: Vec<Mail>,
}

pub struct Relay {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Relay {
    pub fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State::default()));
        let serving = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = serving.clone();
                std::thread::spawn(move || Conversation::new(&stream, &state).hold());
            }
        });
        Relay { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn provider(&self) -> String {
        format!("[providers.smtp]\nurl = \"smtp://{}?tls=none\"\n", self.address)
    }

    /// One reply after another, and good manners after the last.
    pub fn orders(&self, command: &str, replies: &[&str]) {
        self.order(command, replies, false);
    }

    pub fn always(&self, command: &str, reply: &str) {
        self.order(command, &[reply], true);
    }

    fn order(&self, command: &str, replies: &[&str], for_ever: bool) {
        let replies = replies.iter().map(|reply| (*reply).to_owned()).collect();
        self.state.lock().orders.push(Order { command: command.to_owned(), replies, for_ever });
    }

    /// Good manners from now on.
    pub fn recovers(&self) {
        self.state.lock().orders.clear();
    }

    pub fn taken(&self) -> Vec<Mail> {
        self.state.lock().taken.clone()
    }

    /// Times that an order was carried out.
    pub fn fired(&self) -> usize {
        self.state.lock().fired
    }
}

struct Conversation<'a> {
    reader: BufReader<&'a TcpStream>,
    state: &'a Mutex<State>,
    recipients: Vec<String>,
}

impl<'a> Conversation<'a> {
    fn new(stream: &'a TcpStream, state: &'a Mutex<State>) -> Self {
        Conversation { reader: BufReader::new(stream), state, recipients: Vec::new() }
    }

    /// Ends when either side has had enough.
    fn hold(mut self) -> Option<()> {
        self.say("220 relay.example ESMTP")?;
        loop {
            let command = self.line()?;
            let reply = self.ordered(&command).unwrap_or_else(|| manners(&command).to_owned());
            if command.starts_with("MAIL") {
                self.recipients.clear();
            }
            if let (Some(address), true) = (command.strip_prefix("RCPT TO:<"), reply.starts_with('2')) {
                self.recipients.push(address.split('>').next()?.to_owned());
            }
            self.say(&reply)?;
            if reply.starts_with("354") {
                let text = self.text()?;
                let reply = self.ordered(".").unwrap_or_else(|| "250 2.0.0 queued as 4711".to_owned());
                if reply.starts_with('2') {
                    let recipients = self.recipients.clone();
                    self.state.lock().taken.push(Mail { recipients, text });
                }
                self.say(&reply)?;
            }
            if reply.starts_with("421") || command == "QUIT" {
                return None;
            }
        }
    }

    fn ordered(&self, command: &str) -> Option<String> {
        let mut state = self.state.lock();
        let fits = |order: &&mut Order| !order.replies.is_empty() && command.starts_with(&order.command);
        let order = state.orders.iter_mut().find(fits)?;
        let reply = if order.for_ever { order.replies[0].clone() } else { order.replies.remove(0) };
        state.fired += 1;
        Some(reply)
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
