//! Opens a connection that takes mail: TCP, TLS, the greeting, EHLO, STARTTLS, AUTH.
//!
//! Nothing here is about a message. A no keeps its code and says in front at which step it came, so that
//! rules can tell it from the same code at RCPT: what looks final at the greeting may pass in an hour, and
//! a login that was refused waits for a person.

use std::net::IpAddr;

use recado_core::{Fault, NetworkKind};
use recado_transport::{patience, shortage};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::Instant;

use crate::auth;
use crate::config::{ConfigError, Security, SmtpConfig};
use crate::deadline::Deadline;
use crate::reply::Reply;
use crate::tls::Tls;
use crate::transaction::Connection;
use crate::wire::{ConnectionError, Step, Wire, run_until};

/// The capabilities that a server offers.
#[derive(Debug, Default)]
pub(crate) struct Capabilities {
    pub start_tls: bool,
    pub pipelining: bool,
    pub size: bool,
    pub logins: Vec<String>,
}

impl Capabilities {
    fn read(hello: &Reply) -> Self {
        let mut offers = Capabilities::default();
        for line in hello.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("STARTTLS") => offers.start_tls = true,
                Some("PIPELINING") => offers.pipelining = true,
                Some("SIZE") => offers.size = true,
                Some("AUTH") => offers.logins.extend(words.map(str::to_owned)),
                _ => {}
            }
        }
        offers
    }
}

/// Opens connections to one relay.
pub(crate) struct Opener {
    pub config: SmtpConfig,
    tls: Option<Tls>,
}

impl Opener {
    pub(crate) fn new(config: SmtpConfig) -> Result<Self, ConfigError> {
        let tls = match config.security {
            Security::None => None,
            _ => Some(Tls::new(&config)?),
        };
        Ok(Opener { config, tls })
    }

    pub(crate) async fn open(&self, deadline: Deadline) -> Result<Connection, Fault> {
        let socket = self.connect(deadline.step(self.config.timeouts.connect)).await?;
        let hello_name = self.hello_name(&socket);
        let end = || deadline.step(self.config.timeouts.opening);
        let mut wire = Wire::new(socket);
        if let (Security::ImplicitTls, Some(tls)) = (self.config.security, &self.tls) {
            wire = secured(wire, tls, end()).await?;
        }
        expect_yes(Step::GREETING, end(), wire.read_reply()).await?;
        let mut offers = hello(&mut wire, &hello_name, end()).await?;
        if let Some(tls) = self.tls_to_start(&offers)? {
            expect_yes(Step::START_TLS, end(), wire.ask("STARTTLS")).await?;
            wire = secured(wire, tls, end()).await?;
            offers = hello(&mut wire, &hello_name, end()).await?;
        }
        if let Some(credentials) = &self.config.credentials {
            let mechanism = auth::choose(credentials, &offers.logins)?;
            expect_yes(Step::AUTH, end(), auth::log_in(&mut wire, mechanism, credentials)).await?;
        }
        Ok(Connection::new(wire, offers, self.config.timeouts))
    }

    /// Tries one address after the other, so that one that swallows everything leaves time for the next.
    async fn connect(&self, end: Instant) -> Result<TcpStream, Fault> {
        let host = (&*self.config.host, self.config.port);
        let unknown = |why: &str| {
            Fault::network(NetworkKind::Dns, &format!("the server's name cannot be resolved: {why}"))
        };
        let addresses: Vec<_> = match patience::until(end, lookup_host(host)).await {
            Ok(Ok(addresses)) => addresses.collect(),
            Ok(Err(error)) => {
                return Err(shortage::of_io(&error).unwrap_or_else(|| unknown(&error.to_string())));
            }
            Err(_) => return Err(shortage::no_answer_to_lookup()),
        };
        let mut failure = unknown("it has no address");
        for (index, address) in addresses.iter().enumerate() {
            let share = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            let end = Instant::now() + end.saturating_duration_since(Instant::now()) / share;
            let connecting = async {
                let socket = TcpStream::connect(address).await?;
                // Commands are short and each waits for its answer.
                socket.set_nodelay(true)?;
                Ok(socket)
            };
            match run_until(end, connecting).await {
                Ok(socket) => return Ok(socket),
                Err(error) => {
                    failure = error.shortage().unwrap_or_else(|| error.into_fault(Step::CONNECTING))
                }
            }
        }
        Err(failure)
    }

    fn hello_name(&self, socket: &TcpStream) -> String {
        if let Some(name) = &self.config.hello_name {
            return name.clone();
        }
        match socket.local_addr().map(|address| address.ip().to_canonical()) {
            Ok(IpAddr::V4(address)) => format!("[{address}]"),
            Ok(IpAddr::V6(address)) => format!("[IPv6:{address}]"),
            Err(_) => "localhost".to_owned(),
        }
    }

    /// The TLS settings to start with, if TLS is to be started.
    fn tls_to_start(&self, offers: &Capabilities) -> Result<Option<&Tls>, Fault> {
        match self.config.security {
            Security::StartTls if !offers.start_tls => Err(Fault::network(
                NetworkKind::Tls,
                "at EHLO: the server does not offer STARTTLS and nothing is sent without TLS; \
                 check the port, use smtps://, or say ?tls=none if plain is meant",
            )),
            Security::StartTls => Ok(self.tls.as_ref()),
            Security::Opportunistic if offers.start_tls => Ok(self.tls.as_ref()),
            Security::Opportunistic | Security::ImplicitTls | Security::None => Ok(None),
        }
    }
}

async fn hello(wire: &mut Wire, name: &str, end: Instant) -> Result<Capabilities, Fault> {
    let hello = format!("EHLO {name}");
    Ok(Capabilities::read(&expect_yes(Step::HELLO, end, wire.ask(&hello)).await?))
}

async fn secured(wire: Wire, tls: &Tls, end: Instant) -> Result<Wire, Fault> {
    run_until(end, wire.start_tls(tls)).await.map_err(|error| error.into_fault(Step::HANDSHAKE))
}

async fn expect_yes(
    step: Step,
    end: Instant,
    answer: impl Future<Output = Result<Reply, ConnectionError>>,
) -> Result<Reply, Fault> {
    let reply = run_until(end, answer).await.map_err(|error| error.into_fault(step))?;
    if reply.is_positive() { Ok(reply) } else { Err(refusal(step, reply)) }
}

/// Describes a refusal before MAIL.
fn refusal(step: Step, reply: Reply) -> Fault {
    if !reply.is_negative() {
        return reply.out_of_place(step);
    }
    let mut fault = reply.fault();
    fault.text = format!("at {step}: {}", fault.text).into();
    if reply.code < 500 {
        // To make a temporary no final, an enhanced code has to be about a message, and there is none yet.
        fault.enhanced.take_if(|enhanced| enhanced.starts_with('5'));
    }
    fault
}
