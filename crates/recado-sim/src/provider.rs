//! Providers that write down every request and answer as their seed, or an outage, says.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_core::{Fault, NetworkKind, Outcome, Payload};
use recado_transport::{DataFault, Delivery, Receiver, Transport, TransportKind};
use tokio::time::Instant;

use crate::history::{Answer, Call, Event, History};
use crate::link::Link;
use crate::node::{HOLD_MAX, LONG_WAIT};
use crate::plan::{CallSide, Moment, Outage};
use crate::server::ms;

/// The receiver that asks for quiet all the time.
const LOUD: &str = "loud";

/// All providers of a run.
#[derive(Debug)]
pub struct Providers {
    seed: u64,
    state: Mutex<ProvidersState>,
}

#[derive(Debug, Default)]
struct ProvidersState {
    outages: BTreeMap<&'static str, (Outage, Option<Instant>)>,
    /// Requests so far of each job at each provider.
    asked: BTreeMap<(String, String), u32>,
    last_call: u64,
    /// From now on all is well, but for receivers that are broken for good.
    calm: bool,
}

/// A provider's reaction to one request.
#[derive(Clone, Copy, Debug)]
struct Behaviour {
    takes: bool,
    answer: Answer,
    after: Duration,
    retry_after: Duration,
}

impl Behaviour {
    fn quick(takes: bool, answer: Answer) -> Self {
        Behaviour { takes, answer, after: ms(5), retry_after: Duration::ZERO }
    }

    /// Says the code, with a wait.
    fn too_many(retry_after: Duration) -> Self {
        Behaviour { retry_after, ..Behaviour::quick(false, Answer::TooMany) }
    }

    /// Says nothing, ever.
    fn silent(takes: bool) -> Self {
        Behaviour { after: Duration::from_secs(1_000_000), ..Behaviour::quick(takes, Answer::Timeout) }
    }
}

impl Providers {
    pub fn new(seed: u64) -> Self {
        Providers { seed, state: Mutex::default() }
    }

    pub fn break_down(&self, provider: &'static str, how: Outage, until: Instant) {
        self.state.lock().outages.insert(provider, (how, Some(until)));
    }

    pub fn calm_down(&self) {
        let mut state = self.state.lock();
        state.outages.clear();
        state.calm = true;
    }

    /// Returns the number of a request that no provider of this file gets.
    pub fn next_call(&self) -> u64 {
        let mut state = self.state.lock();
        state.last_call += 1;
        state.last_call
    }

    /// Numbers a request, and decides what becomes of it: by the seed, the job and how often it was asked, so that other
    /// jobs do not change it.
    fn decide(&self, provider: &str, job: &str, receiver: Option<&str>) -> (u64, Behaviour) {
        let mut state = self.state.lock();
        state.last_call += 1;
        let number = state.last_call;
        let asked = state.asked.entry((provider.to_owned(), job.to_owned())).or_default();
        *asked += 1;
        let digest =
            recado_core::payload::digest_of(&[&self.seed.to_string(), provider, job, &asked.to_string()]);
        let draw = (digest % 1_000) as u64;
        let wait = ms(1_000 + (digest >> 32) as u64 % 4_000);
        let outage =
            state.outages.get(provider).filter(|(_, until)| until.is_none_or(|at| Instant::now() < at));
        let behaviour = match outage.map(|(how, _)| *how) {
            _ if receiver == Some(LOUD) => Behaviour::too_many(LONG_WAIT),
            None if state.calm => Behaviour::quick(true, Answer::Ok),
            Some(Outage::Refuses) => Behaviour::quick(false, Answer::Transient),
            Some(Outage::Hangs) => Behaviour::silent(draw < 500),
            Some(Outage::Limits) if draw < 100 => Behaviour::too_many(LONG_WAIT),
            Some(Outage::Limits) => Behaviour::too_many(wait),
            Some(Outage::LosesAnswers) => Behaviour::quick(true, Answer::Lost),
            None => match draw {
                0..700 => Behaviour { after: ms(5 + draw % 200), ..Behaviour::quick(true, Answer::Ok) },
                700..790 => Behaviour::quick(false, Answer::Transient),
                790..830 => Behaviour::quick(false, Answer::Permanent),
                830..860 => Behaviour::too_many(wait),
                860..910 => Behaviour::quick(true, Answer::Lost),
                910..930 => Behaviour::quick(false, Answer::Lost),
                930..945 => Behaviour::silent(true),
                945..960 => Behaviour::quick(false, Answer::Panic),
                _ => Behaviour { after: ms(500 + draw), ..Behaviour::quick(true, Answer::Ok) },
            },
        };
        (number, behaviour)
    }
}

/// A job's data, as the simulator writes it: `receiver body`, the receiver empty where there is none.
pub fn data_of(receiver: Option<&str>, body: &str) -> Payload {
    Payload::trusted(format!("\"{}/{body}\"", receiver.unwrap_or_default()))
}

fn receiver_in(data: &Payload) -> Option<&str> {
    let receiver = data.as_str().trim_matches('"').split('/').next()?;
    Some(receiver).filter(|receiver| !receiver.is_empty())
}

/// One process's way to a provider.
#[derive(Debug)]
pub struct SimTransport {
    pub link: Link,
    pub providers: std::sync::Arc<Providers>,
    pub name: &'static str,
}

/// Writes down that the caller gave up waiting, unless an answer came.
struct Waiting<'a> {
    history: &'a History,
    link: &'a Link,
    call: u64,
    answered: bool,
}

impl Waiting<'_> {
    fn end(mut self, behaviour: Behaviour) {
        let wait = match behaviour.answer {
            Answer::TooMany => behaviour.retry_after.min(HOLD_MAX),
            _ => ms(1_000),
        };
        self.add(behaviour.answer, u64::try_from(wait.as_millis()).unwrap_or_default());
    }

    fn add(&mut self, answer: Answer, wait_ms: u64) {
        self.answered = true;
        self.history.add(Event::Answered { call: self.call, answer, wait_ms });
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered && !self.link.is_killed() {
            self.add(Answer::Timeout, 1_000);
        }
    }
}

#[async_trait]
impl Transport for SimTransport {
    fn kind(&self) -> TransportKind {
        TransportKind::Custom("simulated")
    }

    fn check(&self, data: &Payload) -> Result<(), Vec<DataFault>> {
        match data.as_str().contains("invalid") {
            true => Err(vec![DataFault { pointer: String::new(), message: "is invalid".to_owned() }]),
            false => Ok(()),
        }
    }

    fn receiver(&self, data: &Payload) -> Option<Receiver> {
        receiver_in(data).map(|receiver| Receiver::Endpoint(receiver.into()))
    }

    async fn send(&self, delivery: Delivery<'_>) -> Outcome {
        let link = &self.link;
        link.die_if_planned(Moment::Send, CallSide::Before).await;
        let job = delivery.job;
        let receiver = receiver_in(&job.data);
        let (call, behaviour) = self.providers.decide(self.name, job.id.as_str(), receiver);
        link.history.add(Event::Called(Call {
            call,
            node: link.name.clone(),
            life: link.life,
            provider: self.name.to_owned(),
            receiver: receiver.map(str::to_owned),
            job: job.id.to_string(),
            company: job.company.to_string(),
            route: job.route.to_string(),
            attempt: delivery.attempt,
            key: delivery.idempotency_key().to_owned(),
            data: job.data.as_str().to_owned(),
            takes: behaviour.takes,
        }));
        let waiting = Waiting { history: &link.history, link, call, answered: false };
        tokio::time::sleep(behaviour.after).await;
        link.die_if_planned(Moment::Send, CallSide::After).await;
        waiting.end(behaviour);
        match behaviour.answer {
            Answer::Ok => Outcome::Accepted { answer: None },
            // Not by `panic!`: the message would go to the terminal.
            Answer::Panic => std::panic::resume_unwind(Box::new("simulated panic")),
            answer => Outcome::Failed(fault(answer, behaviour.retry_after)),
        }
    }
}

fn fault(answer: Answer, retry_after: Duration) -> Fault {
    let status =
        |status: u16, text: &str| Fault { status: Some(status), ..Fault::answer(&status.to_string(), text) };
    match answer {
        Answer::Permanent => status(400, "malformed"),
        Answer::TooMany => Fault { retry_after: Some(retry_after), ..status(429, "slow down") },
        Answer::Lost => Fault::network(NetworkKind::Dropped, "the connection ended"),
        _ => status(503, "try later"),
    }
}
