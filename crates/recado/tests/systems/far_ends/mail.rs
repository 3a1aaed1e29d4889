//! A mail relay that keeps what it takes and does as it is told.

use std::net::SocketAddr;
use std::sync::Arc;

use mail_parser::MessageParser;
use parking_lot::Mutex;
use recado_demo::far_ends::mail::{self, Postmaster};

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

/// The answer to commands that begin with these words; `.` is the end of a text.
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
    state: Arc<Orders>,
}

#[derive(Default)]
struct Orders(Mutex<State>);

impl Relay {
    pub fn start() -> Relay {
        let state = Arc::new(Orders::default());
        let address = mail::start(state.clone()).expect("a free port");
        Relay { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn provider(&self) -> String {
        mail::provider(self.address)
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
        self.state.0.lock().orders.push(Order { command: command.to_owned(), replies, for_ever });
    }

    /// Good manners from now on.
    pub fn recovers(&self) {
        self.state.0.lock().orders.clear();
    }

    pub fn taken(&self) -> Vec<Mail> {
        self.state.0.lock().taken.clone()
    }

    /// Times that an order was carried out.
    pub fn fired(&self) -> usize {
        self.state.0.lock().fired
    }
}

impl Postmaster for Orders {
    fn reply_to(&self, command: &str) -> Option<String> {
        let mut state = self.0.lock();
        let fits = |order: &&mut Order| !order.replies.is_empty() && command.starts_with(&order.command);
        let order = state.orders.iter_mut().find(fits)?;
        let reply = if order.for_ever { order.replies[0].clone() } else { order.replies.remove(0) };
        state.fired += 1;
        Some(reply)
    }

    fn reply_to_mail(&self, mail: mail::Mail) -> Option<String> {
        let reply = self.reply_to(".");
        if reply.as_ref().is_none_or(|reply| reply.starts_with('2')) {
            let mail::Mail { recipients, text } = mail;
            self.0.lock().taken.push(Mail { recipients, text });
        }
        reply
    }
}
