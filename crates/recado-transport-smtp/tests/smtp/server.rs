//! An SMTP server on a real socket that does as it is told, good and bad, and remembers what it saw.
//!
//! Untold, it is a good server: it greets, offers what it was given to offer, takes every message. What it
//! is told applies to the first lines that begin with given words, or to moments that have no words of the
//! client's: `(greeting)`, `(empty)` for an empty line, `(too many)` for RCPT beyond the limit, `(text)` after the first
//! line of a message's text, and `(dot)`.

use std::sync::{Arc, Mutex};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

use super::given::PATIENCE;

/// A misbehaviour in place of the right answer.
#[derive(Clone, Debug)]
pub enum Act {
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

pub fn say(text: &str) -> Act {
    Act::Say(format!("{text}\r\n"))
}

pub fn cut(text: &str) -> Act {
    Act::Cut(if text.is_empty() { String::new() } else { format!("{text}\r\n") })
}

struct Order {
    at: String,
    act: Act,
    /// Times that it still applies.
    left: usize,
}

/// A message as it arrived, dots undone.
#[derive(Clone, Debug)]
pub struct Taken {
    pub sender: String,
    pub recipients: Vec<String>,
    pub text: Vec<u8>,
}

#[derive(Default)]
struct State {
    orders: Vec<Order>,
    /// Recipients that it takes in one transaction.
    recipients_max: Option<usize>,
    fired: usize,
    connections: usize,
    open: usize,
    /// Each line with the number of its connection.
    lines: Vec<(usize, String)>,
    taken: Vec<Taken>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tls {
    No,
    Offered,
    Implicit,
}

pub struct Server {
    pub port: u16,
    pub certificate_pem: String,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
    tls: Tls,
    acceptor: TlsAcceptor,
    offers: Vec<&'static str>,
}

impl Server {
    /// A plain server that offers what real ones do.
    pub async fn start() -> Server {
        Server::offering(&["PIPELINING", "SIZE 50000000", "8BITMIME", "ENHANCEDSTATUSCODES"]).await
    }

    pub async fn offering(offers: &[&'static str]) -> Server {
        Server::listen(Tls::No, offers, "localhost").await
    }

    pub async fn with_start_tls(offers: &[&'static str]) -> Server {
        Server::listen(Tls::Offered, offers, "localhost").await
    }

    pub async fn with_tls(offers: &[&'static str]) -> Server {
        Server::listen(Tls::Implicit, offers, "localhost").await
    }

    /// Its certificate is about another name.
    pub async fn with_tls_for(name: &str) -> Server {
        Server::listen(Tls::Implicit, &[], name).await
    }

    async fn listen(tls: Tls, offers: &[&'static str], name: &str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (certificate_pem, acceptor) = certificate(name);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changes: watch::Sender::new(()),
            tls,
            acceptor,
            offers: offers.to_vec(),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&accepting);
                let number = shared.change(|state| {
                    state.open += 1;
                    state.connections += 1;
                    state.connections
                });
                tokio::spawn(async move {
                    serve(stream, number, &shared).await;
                    shared.change(|state| state.open -= 1);
                });
            }
        });
        Server { port, certificate_pem, shared }
    }

    /// From now on, at every line that begins so.
    pub fn always(&self, at: &str, act: Act) {
        self.times(usize::MAX, at, act);
    }

    /// At the next line that begins so.
    pub fn once(&self, at: &str, act: Act) {
        self.times(1, at, act);
    }

    /// Takes so many recipients in one transaction, and tells those who come after this.
    pub fn limits(&self, recipients_max: usize, words: &str) {
        self.shared.change(|state| state.recipients_max = Some(recipients_max));
        self.always("(too many)", say(words));
    }

    fn times(&self, left: usize, at: &str, act: Act) {
        self.shared.change(|state| state.orders.push(Order { at: at.to_owned(), act, left }));
    }

    /// Times that it misbehaved.
    pub fn fired(&self) -> usize {
        self.shared.change(|state| state.fired)
    }

    pub fn connections(&self) -> usize {
        self.shared.change(|state| state.connections)
    }

    /// Lines that begin so, over all connections.
    pub fn lines(&self, beginning: &str) -> Vec<String> {
        let lines = self.shared.change(|state| state.lines.clone());
        lines.into_iter().map(|(_, line)| line).filter(|line| line.starts_with(beginning)).collect()
    }

    /// The connections on which a line began so, one for each time.
    pub fn connections_with(&self, beginning: &str) -> Vec<usize> {
        let lines = self.shared.change(|state| state.lines.clone());
        lines.into_iter().filter(|(_, line)| line.starts_with(beginning)).map(|(number, _)| number).collect()
    }

    pub fn taken(&self) -> Vec<Taken> {
        self.shared.change(|state| state.taken.clone())
    }

    /// Waits until a line has come that begins so.
    pub async fn hears(&self, beginning: &str) {
        let heard = |state: &State| state.lines.iter().any(|(_, line)| line.starts_with(beginning));
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

    async fn until(&self, holds: impl Fn(&State) -> bool, otherwise: &str) {
        let mut changes = self.shared.changes.subscribe();
        let waiting = changes.wait_for(|()| holds(&self.shared.state.lock().expect("state")));
        tokio::time::timeout(PATIENCE, waiting).await.expect(otherwise).expect("the server lives");
    }
}

fn certificate(name: &str) -> (String, TlsAcceptor) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a TLS server");
    (cert.pem(), TlsAcceptor::from(Arc::new(config)))
}

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().expect("state"));
        self.changes.send_replace(());
        result
    }

    fn is_full(&self, draft: &Taken) -> bool {
        self.change(|state| state.recipients_max.is_some_and(|max| draft.recipients.len() >= max))
    }

    fn order(&self, line: &str) -> Option<Act> {
        self.change(|state| {
            let order =
                state.orders.iter_mut().find(|order| order.left > 0 && line.starts_with(&order.at))?;
            order.left -= 1;
            state.fired += 1;
            Some(order.act.clone())
        })
    }
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {
    /// Makes the end of the connection a reset rather than a close.
    fn will_reset(&self);
}

impl Socket for TcpStream {
    fn will_reset(&self) {
        self.set_zero_linger().expect("linger");
    }
}

impl<S: Socket> Socket for TlsStream<S> {
    fn will_reset(&self) {
        self.get_ref().0.will_reset();
    }
}

impl Socket for Box<dyn Socket> {
    fn will_reset(&self) {
        (**self).will_reset();
    }
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

async fn serve(stream: TcpStream, number: usize, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let mut stream: Stream = match shared.tls {
        Tls::Implicit => match shared.acceptor.accept(stream).await {
            Ok(stream) => BufReader::new(Box::new(stream)),
            Err(_) => return,
        },
        _ => BufReader::new(Box::new(stream)),
    };
    let mut secured = shared.tls == Tls::Implicit;
    if matches!(answer(&mut stream, shared, "(greeting)", "220 localhost ESMTP").await, Then::End) {
        return;
    }
    let mut draft = Taken { sender: String::new(), recipients: Vec::new(), text: Vec::new() };
    while let Some(line) = read_line(&mut stream).await {
        shared.change(|state| state.lines.push((number, line.clone())));
        let verb = line.split(' ').next().unwrap_or_default();
        let right = match verb {
            "EHLO" => hello(shared, secured),
            "DATA" => "354 go ahead".to_owned(),
            "STARTTLS" if shared.tls == Tls::Offered && !secured => "220 go ahead".to_owned(),
            "AUTH" => "235 2.7.0 welcome".to_owned(),
            "MAIL" if !draft.sender.is_empty() => "503 5.5.1 one at a time".to_owned(),
            "MAIL" | "RCPT" | "RSET" => "250 2.1.0 fine".to_owned(),
            "QUIT" => "221 2.0.0 bye".to_owned(),
            _ => "500 5.5.2 what?".to_owned(),
        };
        let moment = match verb {
            "" => "(empty)",
            "RCPT" if shared.is_full(&draft) => "(too many)",
            _ => &line,
        };
        match (answer(&mut stream, shared, moment, &right).await, verb) {
            (Then::End, _) | (_, "QUIT") => return,
            (Then::No, _) => {}
            (Then::Yes, "STARTTLS") => {
                let Ok(upgraded) = shared.acceptor.accept(stream.into_inner()).await else { return };
                stream = BufReader::new(Box::new(upgraded));
                secured = true;
            }
            (Then::Yes, "MAIL") => draft.sender = between(&line),
            (Then::Yes, "RCPT") => draft.recipients.push(between(&line)),
            (Then::Yes, "RSET") => draft = empty(),
            (Then::Yes, "DATA") => {
                let Some(text) = read_text(&mut stream, shared).await else { return };
                let taken = Taken { text, ..std::mem::replace(&mut draft, empty()) };
                match answer(&mut stream, shared, "(dot)", "250 2.0.0 queued as 4711").await {
                    Then::Yes => shared.change(|state| state.taken.push(taken)),
                    Then::No => {}
                    Then::End => return,
                }
            }
            (Then::Yes, _) => {}
        }
    }
}

fn empty() -> Taken {
    Taken { sender: String::new(), recipients: Vec::new(), text: Vec::new() }
}

fn between(line: &str) -> String {
    let (_, rest) = line.split_once('<').unwrap_or_default();
    rest.split_once('>').unwrap_or_default().0.to_owned()
}

fn hello(shared: &Shared, secured: bool) -> String {
    let mut lines = vec!["localhost at your service"];
    lines.extend(shared.offers.iter().copied());
    if shared.tls == Tls::Offered && !secured {
        lines.push("STARTTLS");
    }
    let last = lines.pop().unwrap_or_default();
    let first: String = lines.iter().map(|line| format!("250-{line}\r\n")).collect();
    format!("{first}250 {last}")
}

/// Says what it was told to say at this moment, or what is right.
async fn answer(stream: &mut Stream, shared: &Shared, line: &str, right: &str) -> Then {
    let right = format!("{right}\r\n");
    let text = match shared.order(line) {
        None => right,
        Some(Act::Say(text)) => text,
        Some(Act::SayMore(more)) => right + &more,
        Some(Act::SayWhenMoreCame(text)) => {
            if stream.fill_buf().await.is_err() {
                return Then::End;
            }
            text
        }
        Some(Act::Cut(text)) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
            return Then::End;
        }
        Some(Act::Reset) => {
            stream.get_ref().will_reset();
            return Then::End;
        }
        Some(Act::Hang) => {
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return Then::End;
        }
        Some(Act::Dribble(text)) => {
            for byte in text.bytes() {
                let _ = stream.write_all(&[byte]).await;
                let _ = stream.flush().await;
                tokio::task::yield_now().await;
            }
            return verdict(&text);
        }
        Some(Act::Flood(text)) => {
            while stream.write_all(text.as_bytes()).await.is_ok() {}
            return Then::End;
        }
    };
    if stream.write_all(text.as_bytes()).await.is_err() || stream.flush().await.is_err() {
        return Then::End;
    }
    verdict(&text)
}

fn verdict(text: &str) -> Then {
    let last = text.lines().last().unwrap_or_default();
    let (code, rest) = last.split_at_checked(3).unwrap_or_default();
    if code.starts_with(['2', '3']) && rest.starts_with(' ') { Then::Yes } else { Then::No }
}

async fn read_line(stream: &mut Stream) -> Option<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).await.ok()?;
    let line = line.strip_suffix(b"\r\n")?;
    Some(String::from_utf8_lossy(line).into_owned())
}

async fn read_text(stream: &mut Stream, shared: &Shared) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).await.ok()?;
        assert!(line.is_empty() || line.ends_with(b"\r\n"), "a bare line end in the text");
        match &line[..] {
            b"" => return None,
            b".\r\n" => return Some(text),
            [b'.', rest @ ..] => text.extend_from_slice(rest),
            line => text.extend_from_slice(line),
        }
        match shared.order("(text)") {
            None => {}
            Some(Act::Say(words)) => {
                let _ = stream.write_all(words.as_bytes()).await;
                let _ = stream.flush().await;
                // Reads no further, as servers do that have seen enough.
                std::future::pending::<()>().await;
            }
            Some(_) => return None,
        }
    }
}
