//! An SMTP server on a real socket that does as it is told, good and bad.
//!
//! Untold, it is a good server: it greets, offers what it was given to offer, takes every message. A [`Postmaster`]
//! may answer otherwise, to a client's line or at a moment that has no words of the client's: `(greeting)`, `(empty)`
//! for an empty line, `(too many)` for RCPT beyond the limit, and `(text)` after the first line of a message's text.
//! [`SmtpServer`] is a postmaster that carries out a test's orders and keeps a record; its orders have one moment more,
//! `(dot)` after a whole message.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::sockopt::set_socket_linger;
use tokio::sync::watch;

use crate::PATIENCE;

/// A misbehaviour in place of the right answer.
#[derive(Clone, Debug)]
pub enum SmtpAct {
    /// Say this. If it is a yes the command counts as done.
    Say(String),
    /// Say this and close the connection.
    Cut(String),
    /// Reset the connection without a word.
    Reset,
    /// Say nothing more, with the connection open.
    Hang,
    /// Say this a byte at a time.
    Dribble(String),
    /// Say this once the client has sent more.
    SayWhenMoreCame(String),
    /// Say bytes without end.
    Flood(&'static str),
    /// Say the right thing, and this after it in the same breath.
    SayMore(String),
}

impl SmtpAct {
    /// Returns true if the act, in answer to a message, takes it.
    fn takes_mail(&self) -> bool {
        match self {
            SmtpAct::Say(text) | SmtpAct::Dribble(text) | SmtpAct::SayWhenMoreCame(text) => {
                matches!(verdict(text), Then::Yes)
            }
            SmtpAct::SayMore(_) => true,
            SmtpAct::Cut(_) | SmtpAct::Reset | SmtpAct::Hang | SmtpAct::Flood(_) => false,
        }
    }
}

pub fn say(text: &str) -> SmtpAct {
    SmtpAct::Say(format!("{text}\r\n"))
}

pub fn cut(text: &str) -> SmtpAct {
    SmtpAct::Cut(if text.is_empty() { String::new() } else { format!("{text}\r\n") })
}

/// A message as it arrived, dots undone.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub sender: String,
    pub recipients: Vec<String>,
    pub text: Vec<u8>,
}

/// Decides where a server forgets its manners, and hears what happens.
pub trait Postmaster: Send + Sync + 'static {
    /// An act in place of the right answer to a line, or at a moment without words.
    fn act_at(&self, moment: &str) -> Option<SmtpAct>;

    /// An act in place of the right answer to a whole message.
    fn act_on_mail(&self, mail: &Mail) -> Option<SmtpAct>;

    /// Returns true if a transaction may have no more recipients.
    fn is_full(&self, _draft: &Mail) -> bool {
        false
    }

    fn on_connect(&self, _connection: usize) {}

    fn on_line(&self, _connection: usize, _line: &str) {}

    /// A message was taken.
    fn on_mail(&self, _mail: Mail) {}

    fn on_end(&self) {}
}

/// A connection's stream, plain or wrapped.
pub trait Socket: Read + Write + Send {
    /// Makes the end of the connection a reset rather than a close.
    fn will_reset(&self);

    /// Says goodbye, where the wrapping has a way to.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for TcpStream {
    fn will_reset(&self) {
        set_socket_linger(self, Some(Duration::ZERO)).expect("linger");
    }
}

/// Wraps a stream in TLS, as the server's side.
pub type Wrap = dyn Fn(Box<dyn Socket>) -> io::Result<Box<dyn Socket>> + Send + Sync;

/// The server's name and extensions.
#[derive(Clone, Debug)]
pub struct Greeting {
    pub name: &'static str,
    pub offers: Vec<&'static str>,
    pub tls: Tls,
}

#[derive(Clone)]
pub enum Tls {
    No,
    /// By STARTTLS.
    Offered(Arc<Wrap>),
    /// From the first byte.
    Implicit(Arc<Wrap>),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tls::No => "No",
            Tls::Offered(_) => "Offered",
            Tls::Implicit(_) => "Implicit",
        })
    }
}

impl Greeting {
    /// A relay with a login for clients that want one.
    pub fn of_relay() -> Self {
        let offers = vec!["PIPELINING", "AUTH PLAIN", "ENHANCEDSTATUSCODES", "8BITMIME"];
        Greeting { name: "relay.example", offers, tls: Tls::No }
    }
}

/// The lines of a server's configuration for it.
pub fn provider(address: SocketAddr) -> String {
    format!("[providers.smtp]\nurl = \"smtp://{address}?tls=none\"\n")
}

pub fn start(greeting: Greeting, postmaster: Arc<impl Postmaster>) -> io::Result<SocketAddr> {
    let connections = Arc::new(AtomicUsize::new(0));
    crate::listen((Ipv4Addr::LOCALHOST, 0), move |stream| {
        let number = connections.fetch_add(1, Ordering::SeqCst) + 1;
        postmaster.on_connect(number);
        // The conversation ends when either side has had enough; an error has no reader.
        let _ = serve(stream, number, &greeting, &*postmaster);
        postmaster.on_end();
    })
}

type Stream = BufReader<Box<dyn Socket>>;

/// The end of a moment.
enum Then {
    /// The server said yes, so what was asked for is done.
    Yes,
    No,
    /// The conversation is over.
    End,
}

fn serve(
    stream: TcpStream,
    number: usize,
    greeting: &Greeting,
    postmaster: &impl Postmaster,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut socket: Box<dyn Socket> = Box::new(stream);
    let mut is_secure = false;
    if let Tls::Implicit(wrap) = &greeting.tls {
        socket = wrap(socket)?;
        is_secure = true;
    }
    let mut stream = BufReader::new(socket);
    let welcome = format!("220 {} ESMTP", greeting.name);
    if let Then::End = answer(&mut stream, postmaster.act_at("(greeting)"), &welcome)? {
        return Ok(());
    }
    let mut draft = Mail::default();
    while let Some(line) = read_line(&mut stream)? {
        postmaster.on_line(number, &line);
        let verb = line.split(' ').next().unwrap_or_default();
        let upgrade = match &greeting.tls {
            Tls::Offered(wrap) if !is_secure => Some(wrap),
            _ => None,
        };
        let right = match verb {
            "EHLO" => hello(greeting, upgrade.is_some()),
            "DATA" if draft.recipients.is_empty() => "554 5.5.1 no valid recipients".to_owned(),
            "DATA" => "354 go ahead".to_owned(),
            "STARTTLS" if upgrade.is_some() => "220 go ahead".to_owned(),
            "AUTH" => "235 2.7.0 welcome".to_owned(),
            "MAIL" if !draft.sender.is_empty() => "503 5.5.1 one at a time".to_owned(),
            "RCPT" if draft.sender.is_empty() => "503 5.5.1 MAIL first".to_owned(),
            "MAIL" | "RCPT" | "RSET" => "250 2.1.0 fine".to_owned(),
            "QUIT" => "221 2.0.0 bye".to_owned(),
            _ => "500 5.5.2 what?".to_owned(),
        };
        let moment = match verb {
            "" => "(empty)",
            "RCPT" if postmaster.is_full(&draft) => "(too many)",
            _ => &line,
        };
        match (answer(&mut stream, postmaster.act_at(moment), &right)?, verb) {
            (Then::End, _) | (_, "QUIT") => return Ok(()),
            (Then::No, _) => {}
            (Then::Yes, "STARTTLS") => {
                let Some(wrap) = upgrade else { return Ok(()) };
                stream = BufReader::new(wrap(stream.into_inner())?);
                is_secure = true;
            }
            (Then::Yes, "MAIL") => draft.sender = between(&line),
            (Then::Yes, "RCPT") if !draft.sender.is_empty() => draft.recipients.push(between(&line)),
            (Then::Yes, "RSET") => draft = Mail::default(),
            (Then::Yes, "DATA") => {
                let Some(text) = read_text(&mut stream, postmaster)? else { return Ok(()) };
                let mail = Mail { text, ..std::mem::take(&mut draft) };
                let act = postmaster.act_on_mail(&mail);
                // Before the answer: the client may ask about the message as soon as it has it.
                if act.as_ref().is_none_or(SmtpAct::takes_mail) {
                    postmaster.on_mail(mail);
                }
                if let Then::End = answer(&mut stream, act, "250 2.0.0 queued as 4711")? {
                    return Ok(());
                }
            }
            (Then::Yes, _) => {}
        }
    }
    Ok(())
}

fn between(line: &str) -> String {
    let (_, rest) = line.split_once('<').unwrap_or_default();
    rest.split_once('>').unwrap_or_default().0.to_owned()
}

fn hello(greeting: &Greeting, offers_tls: bool) -> String {
    let mut lines = vec![greeting.name];
    lines.extend(&greeting.offers);
    lines.extend(offers_tls.then_some("STARTTLS"));
    let last = lines.pop().unwrap_or_default();
    let first: String = lines.iter().map(|line| format!("250-{line}\r\n")).collect();
    format!("{first}250 {last}")
}

/// Carries out the act, or says what is right.
fn answer(stream: &mut Stream, act: Option<SmtpAct>, right: &str) -> io::Result<Then> {
    let right = format!("{right}\r\n");
    let text = match act {
        None => right,
        Some(SmtpAct::Say(text)) => text,
        Some(SmtpAct::SayMore(more)) => right + &more,
        Some(SmtpAct::SayWhenMoreCame(text)) => {
            stream.fill_buf()?;
            text
        }
        Some(SmtpAct::Cut(text)) => {
            write(stream, text.as_bytes())?;
            stream.get_mut().close()?;
            return Ok(Then::End);
        }
        Some(SmtpAct::Reset) => {
            stream.get_ref().will_reset();
            return Ok(Then::End);
        }
        Some(SmtpAct::Hang) => {
            io::copy(stream, &mut io::sink())?;
            return Ok(Then::End);
        }
        Some(SmtpAct::Dribble(text)) => {
            for byte in text.bytes() {
                write(stream, &[byte])?;
                std::thread::yield_now();
            }
            return Ok(verdict(&text));
        }
        Some(SmtpAct::Flood(text)) => loop {
            write(stream, text.as_bytes())?;
        },
    };
    write(stream, text.as_bytes())?;
    Ok(verdict(&text))
}

fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    stream.get_mut().write_all(bytes)?;
    stream.get_mut().flush()
}

fn verdict(text: &str) -> Then {
    let last = text.lines().last().unwrap_or_default();
    let (code, rest) = last.split_at_checked(3).unwrap_or_default();
    if code.starts_with(['2', '3']) && rest.starts_with(' ') { Then::Yes } else { Then::No }
}

/// `None` at the end of the conversation.
fn read_line(stream: &mut Stream) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    Ok(line.strip_suffix(b"\r\n").map(|line| String::from_utf8_lossy(line).into_owned()))
}

/// `None` when the conversation ended in the midst of the text.
fn read_text(stream: &mut Stream, postmaster: &impl Postmaster) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line)?;
        assert!(line.is_empty() || line.ends_with(b"\r\n"), "a bare line end in the text");
        match &line[..] {
            b"" => return Ok(None),
            b".\r\n" => return Ok(Some(text)),
            [b'.', rest @ ..] => text.extend_from_slice(rest),
            line => text.extend_from_slice(line),
        }
        match postmaster.act_at("(text)") {
            None => {}
            Some(SmtpAct::Say(words)) => {
                write(stream, words.as_bytes())?;
                // Reads no further, as servers do that have seen enough.
                loop {
                    std::thread::park();
                }
            }
            Some(_) => return Ok(None),
        }
    }
}

struct SmtpOrder {
    at: String,
    act: SmtpAct,
    /// Times that it still applies.
    left: usize,
}

#[derive(Default)]
struct RecordState {
    orders: Vec<SmtpOrder>,
    /// Recipients that it takes in one transaction.
    recipients_max: Option<usize>,
    fired: usize,
    connections: usize,
    open: usize,
    /// Each line with the number of its connection.
    lines: Vec<(usize, String)>,
    taken: Vec<Mail>,
}

#[derive(Default)]
struct SmtpRecord {
    state: Mutex<RecordState>,
    changes: watch::Sender<()>,
}

/// A server that carries out orders and keeps a record. An order applies to the first lines that begin with given
/// words, or to moments.
pub struct SmtpServer {
    address: SocketAddr,
    record: Arc<SmtpRecord>,
}

impl fmt::Debug for SmtpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl SmtpServer {
    pub fn start(greeting: Greeting) -> SmtpServer {
        let record = Arc::new(SmtpRecord::default());
        let address = start(greeting, record.clone()).expect("a free port");
        SmtpServer { address, record }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, at every line that begins so.
    pub fn always(&self, at: &str, act: SmtpAct) {
        self.push_order(usize::MAX, at, act);
    }

    /// At the next line that begins so.
    pub fn once(&self, at: &str, act: SmtpAct) {
        self.push_order(1, at, act);
    }

    /// Takes so many recipients in one transaction, and tells those who come after this.
    pub fn limits(&self, recipients_max: usize, words: &str) {
        self.record.change(|state| state.recipients_max = Some(recipients_max));
        self.always("(too many)", say(words));
    }

    fn push_order(&self, left: usize, at: &str, act: SmtpAct) {
        self.record.change(|state| state.orders.push(SmtpOrder { at: at.to_owned(), act, left }));
    }

    /// Good manners from now on.
    pub fn recovers(&self) {
        self.record.change(|state| state.orders.clear());
    }

    /// Times that it misbehaved.
    pub fn fired(&self) -> usize {
        self.record.state.lock().fired
    }

    pub fn connections(&self) -> usize {
        self.record.state.lock().connections
    }

    /// Lines that begin so, over all connections.
    pub fn lines(&self, beginning: &str) -> Vec<String> {
        let lines = self.record.state.lock().lines.clone();
        lines.into_iter().map(|(_, line)| line).filter(|line| line.starts_with(beginning)).collect()
    }

    /// The connections on which a line began so, one for each time.
    pub fn connections_with(&self, beginning: &str) -> Vec<usize> {
        let lines = self.record.state.lock().lines.clone();
        lines.into_iter().filter(|(_, line)| line.starts_with(beginning)).map(|(number, _)| number).collect()
    }

    pub fn taken(&self) -> Vec<Mail> {
        self.record.state.lock().taken.clone()
    }

    /// Waits until a line has come that begins so.
    pub async fn hears(&self, beginning: &str) {
        let heard = |state: &RecordState| state.lines.iter().any(|(_, line)| line.starts_with(beginning));
        self.until(heard, &format!("no client said {beginning}")).await;
    }

    /// Waits until every client has gone.
    pub async fn is_alone(&self) {
        self.until(|state| state.open == 0, "a connection stays open").await;
    }

    /// Waits until it did what it was told.
    pub async fn has_fired(&self) {
        self.until(|state| state.fired > 0, "nothing fired").await;
    }

    async fn until(&self, holds: impl Fn(&RecordState) -> bool, otherwise: &str) {
        let mut changes = self.record.changes.subscribe();
        let waiting = changes.wait_for(|()| holds(&self.record.state.lock()));
        tokio::time::timeout(PATIENCE, waiting).await.expect(otherwise).expect("the server lives");
    }
}

impl SmtpRecord {
    fn change<T>(&self, change: impl FnOnce(&mut RecordState) -> T) -> T {
        let result = change(&mut self.state.lock());
        self.changes.send_replace(());
        result
    }
}

impl Postmaster for SmtpRecord {
    fn act_at(&self, moment: &str) -> Option<SmtpAct> {
        self.change(|state| {
            let order =
                state.orders.iter_mut().find(|order| order.left > 0 && moment.starts_with(&order.at))?;
            order.left -= 1;
            state.fired += 1;
            Some(order.act.clone())
        })
    }

    fn act_on_mail(&self, _mail: &Mail) -> Option<SmtpAct> {
        self.act_at("(dot)")
    }

    fn is_full(&self, draft: &Mail) -> bool {
        self.state.lock().recipients_max.is_some_and(|max| draft.recipients.len() >= max)
    }

    fn on_connect(&self, number: usize) {
        self.change(|state| {
            state.open += 1;
            state.connections = state.connections.max(number);
        });
    }

    fn on_line(&self, connection: usize, line: &str) {
        self.change(|state| state.lines.push((connection, line.to_owned())));
    }

    fn on_mail(&self, mail: Mail) {
        self.change(|state| state.taken.push(mail));
    }

    fn on_end(&self) {
        self.change(|state| state.open -= 1);
    }
}
