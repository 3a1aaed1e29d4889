//! What can happen, with few ids, tenants and routes, so that steps meet.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use recado_core::{
    AttemptResult, AuditEvent, AuditKind, BodyHash, Burial, Cause, JobId, Lease, NewJob, Timestamp,
    Transition,
};

use super::Restarts;
use crate::conformance::given::{self, attempt, company, failure, id, job, payload, priority, route};
use crate::{Claim, Pick, Redrive, Retention, Settlement};

const IDS: u8 = 12;
const COMPANIES: u8 = 3;

/// One is busier than the other.
const ROUTES: [u8; 4] = [0, 0, 0, 1];

/// From "at once" to "after everything".
const DELAYS_MS: [u64; 6] = [0, 0, 1, 10, 1_000, 3_600_000];

#[derive(Clone, Debug)]
pub enum Step {
    Enqueue(Vec<New>),
    Claim(ClaimStep),
    Settle(Vec<(TokenChoice, Ending)>),
    Extend {
        choices: Vec<TokenChoice>,
        by_ms: u64,
    },
    Cancel(u8),
    /// This entry of those that are there, if any are.
    Redrive(RedriveStep),
    /// Likewise.
    Discard {
        nth: usize,
    },
    Prune(Retention),
    Record(u8),
    Wait {
        ms: u64,
    },
    Restart {
        close: bool,
    },
}

/// Which of the leases so far.
#[derive(Clone, Copy, Debug)]
pub struct TokenChoice {
    pub nth: usize,
    /// Not only among those that are current.
    pub any: bool,
}

#[derive(Clone, Debug)]
pub struct New {
    id: u8,
    company: u8,
    route: u8,
    other_body: bool,
    priority: u8,
    due_ms: u64,
    ttl_ms: u64,
}

impl New {
    pub fn job(&self, now: Timestamp) -> NewJob {
        NewJob {
            id: name(self.id),
            company: company(&format!("company-{}", self.company)),
            route: route(&format!("route-{}", self.route)),
            body_hash: BodyHash(u128::from(self.other_body)),
            priority: priority(self.priority),
            enqueued_at: now,
            due_at: after(now, self.due_ms),
            expires_at: after(now, self.ttl_ms),
            ..job("any")
        }
    }
}

#[derive(Clone, Debug)]
pub struct ClaimStep {
    pick: Pick,
    max: usize,
    lease_ms: u64,
    outlives_process: bool,
}

impl ClaimStep {
    pub fn at(&self, now: Timestamp) -> Claim {
        Claim {
            pick: self.pick.clone(),
            max: self.max,
            now,
            lease_until: after(now, self.lease_ms),
            worker: format!("worker-{}", self.lease_ms).into(),
            outlives_process: self.outlives_process,
        }
    }
}

#[derive(Clone, Debug)]
pub struct RedriveStep {
    pub nth: usize,
    corrected: bool,
    due_ms: u64,
    ttl_ms: u64,
}

impl RedriveStep {
    pub fn at(&self, id: JobId, now: Timestamp) -> Redrive {
        let audit = given::act(id.as_str(), AuditKind::Replayed, now);
        Redrive {
            id,
            data: self.corrected.then(|| payload(r#"{"corrected":true}"#)),
            due_at: after(now, self.due_ms),
            expires_at: after(now, self.ttl_ms),
            audit,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Ending {
    Deliver { answer: bool },
    Retry { in_ms: u64 },
    Postpone { in_ms: u64 },
    Bury { code: Option<&'static str>, tried: Option<AttemptResult>, ttl_ms: u64 },
    Release { in_ms: u64, lost: bool },
}

impl Ending {
    pub fn settlement(&self, lease: &Lease, now: Timestamp) -> Settlement {
        let tried = |result| attempt(lease.attempt, result, now);
        let transition = match *self {
            Ending::Deliver { answer } => Transition::Deliver {
                attempt: tried(AttemptResult::Sent),
                answer: answer.then(|| payload("[1]")),
            },
            Ending::Retry { in_ms } => {
                Transition::RetryAt { at: after(now, in_ms), attempt: tried(AttemptResult::Failed) }
            }
            Ending::Postpone { in_ms } => Transition::Postpone { until: after(now, in_ms) },
            Ending::Bury { code, tried: result, ttl_ms } => Transition::Bury(Burial {
                cause: if result.is_some() { Cause::Exhausted } else { Cause::Expired },
                failure: failure(code, "it failed"),
                attempt: result.map(tried),
                at: now,
                ttl: Duration::from_millis(ttl_ms),
            }),
            Ending::Release { in_ms, lost } => {
                Transition::Release { at: after(now, in_ms), lost: lost.then(|| tried(AttemptResult::Lost)) }
            }
        };
        let audit = Some(AuditEvent::about(&lease.job, given::kind_of(&transition), now));
        Settlement { token: lease.token, transition, audit, now }
    }
}

pub fn after(now: Timestamp, ms: u64) -> Timestamp {
    now.plus(Duration::from_millis(ms))
}

fn name(number: u8) -> JobId {
    id(&format!("job-{number}"))
}

pub fn act(number: u8, kind: AuditKind, now: Timestamp) -> (JobId, AuditEvent) {
    let id = name(number);
    let event = given::act(id.as_str(), kind, now);
    (id, event)
}

fn delay() -> impl Strategy<Value = u64> {
    select(&DELAYS_MS[..])
}

fn new() -> impl Strategy<Value = New> {
    let body = prop::bool::weighted(0.1);
    (
        0..IDS,
        0..COMPANIES,
        select(&ROUTES[..]),
        body,
        select(vec![1_u8, 5, 9]),
        delay(),
        select(vec![5_u64, 1_000, 86_400_000]),
    )
        .prop_map(|(id, company, route, other_body, priority, due_ms, ttl_ms)| New {
            id,
            company,
            route,
            other_body,
            priority,
            due_ms,
            ttl_ms,
        })
}

fn claim() -> impl Strategy<Value = ClaimStep> {
    let pick = prop_oneof![
        4 => select(&ROUTES[..]).prop_map(|n| Pick::Ready(route(&format!("route-{n}")))),
        1 => Just(Pick::Overdue),
        2 => Just(Pick::Orphaned),
    ];
    let lease_ms = select(vec![1_u64, 10, 1_000, 3_600_000]);
    (pick, 0..9_usize, lease_ms, any::<bool>()).prop_map(|(pick, max, lease_ms, outlives_process)| {
        ClaimStep { pick, max, lease_ms, outlives_process }
    })
}

fn token() -> impl Strategy<Value = TokenChoice> {
    (0..32_usize, prop::bool::weighted(0.3)).prop_map(|(nth, any)| TokenChoice { nth, any })
}

fn ending() -> impl Strategy<Value = Ending> {
    let code = select(vec![None, Some("550"), Some("421")]);
    let result = select(vec![None, Some(AttemptResult::Uncertain), Some(AttemptResult::Lost)]);
    prop_oneof![
        3 => any::<bool>().prop_map(|answer| Ending::Deliver { answer }),
        2 => delay().prop_map(|in_ms| Ending::Retry { in_ms }),
        1 => delay().prop_map(|in_ms| Ending::Postpone { in_ms }),
        4 => (code, result, select(vec![20_u64, 604_800_000]))
            .prop_map(|(code, tried, ttl_ms)| Ending::Bury { code, tried, ttl_ms }),
        2 => (delay(), any::<bool>()).prop_map(|(in_ms, lost)| Ending::Release { in_ms, lost }),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    (select(vec![0_u64, 10, 86_400_000]), 0..5_u64).prop_map(|(age_ms, ended_max_count)| Retention {
        ended_max_age: Duration::from_millis(age_ms),
        ended_max_count,
    })
}

pub fn step(restarts: Restarts) -> impl Strategy<Value = Step> {
    let redrive = (0..8_usize, any::<bool>(), delay(), select(vec![5_u64, 86_400_000]))
        .prop_map(|(nth, corrected, due_ms, ttl_ms)| RedriveStep { nth, corrected, due_ms, ttl_ms });
    let wait = select(vec![1_u64, 10, 1_000, 3_600_000]);
    let usual = prop_oneof![
        6 => prop::collection::vec(new(), 1..10).prop_map(Step::Enqueue),
        8 => claim().prop_map(Step::Claim),
        8 => prop::collection::vec((token(), ending()), 1..5).prop_map(Step::Settle),
        1 => (prop::collection::vec(token(), 1..4), delay()).prop_map(|(choices, by_ms)| Step::Extend { choices, by_ms }),
        2 => (0..IDS).prop_map(Step::Cancel),
        4 => redrive.prop_map(Step::Redrive),
        1 => (0..8_usize).prop_map(|nth| Step::Discard { nth }),
        2 => retention().prop_map(Step::Prune),
        1 => (0..IDS).prop_map(Step::Record),
        3 => wait.prop_map(|ms| Step::Wait { ms }),
    ];
    let restart = any::<bool>().prop_map(|close| Step::Restart { close });
    match restarts {
        Restarts::No => usual.boxed(),
        Restarts::Yes => prop_oneof![17 => usual, 1 => restart].boxed(),
    }
}
