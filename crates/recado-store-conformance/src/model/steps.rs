//! Steps of a random story, with few ids, tenants and routes, so that steps meet.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use recado_core::{
    AttemptResult, AuditEvent, AuditKind, BodyHash, Burial, Cause, CompanyId, JobId, Lease, NewJob,
    Timestamp, Transition,
};
use recado_store::{Claim, KvWrite, Namespace, Pick, Redrive, Retention, Settlement, Turns};

use super::Restarts;
use crate::given::{self, ACCOUNTS, ENDPOINTS, attempt, company, failure, id, job, payload, priority, route};

const IDS: u8 = 16;

/// One is busier than the others, so that it gets to its tenth job.
const COMPANIES: [u8; 6] = [0, 0, 0, 0, 1, 2];

/// One is busier than the other.
const ROUTES: [u8; 4] = [0, 0, 0, 1];

/// From "at once" to "after everything".
const DELAYS_MS: [u64; 6] = [0, 0, 1, 10, 1_000, 3_600_000];

#[derive(Clone, Debug)]
pub enum Step {
    Enqueue(Vec<NewJobStep>),
    Claim(ClaimStep),
    Settle(Vec<SettleStep>),
    Extend {
        choices: Vec<TokenChoice>,
        by_ms: u64,
    },
    Cancel(u8),
    /// This entry of those that are there, if any are.
    Redrive(RedriveStep),
    /// This entry of those that are there, if any are.
    Discard {
        nth: usize,
        follow_ups: Vec<NewJobStep>,
    },
    KvWrite(Vec<KvStep>),
    Prune(Retention),
    Record(u8),
    Wait {
        ms: u64,
    },
    Restart(Shutdown),
}

/// The end of a store's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    Close,
    Drop,
}

/// Index of a lease among those so far.
#[derive(Clone, Copy, Debug)]
pub struct TokenChoice {
    pub nth: usize,
    /// True to choose among all leases, not only the current ones.
    pub any: bool,
}

#[derive(Clone, Debug)]
pub struct NewJobStep {
    id: u8,
    company: u8,
    route: u8,
    other_body: bool,
    priority: u8,
    due_ms: u64,
    ttl_ms: u64,
}

impl NewJobStep {
    pub fn job(&self, now: Timestamp) -> NewJob {
        NewJob {
            id: name(self.id),
            company: tenant(self.company),
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
    turns: Turns,
}

impl ClaimStep {
    pub fn at(&self, now: Timestamp) -> Claim {
        Claim {
            pick: self.pick.clone(),
            max: self.max,
            now,
            lease_until: after(now, self.lease_ms),
            worker: format!("worker-{}", self.lease_ms).into(),
            provider: self.max.is_multiple_of(2).then(|| format!("provider-{}", self.lease_ms).into()),
            outlives_process: self.outlives_process,
            turns: self.turns.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct RedriveStep {
    pub nth: usize,
    corrected: bool,
    due_ms: u64,
    ttl_ms: u64,
    follow_ups: Vec<NewJobStep>,
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
            follow_ups: jobs(&self.follow_ups, now),
        }
    }
}

#[derive(Clone, Debug)]
pub struct SettleStep {
    pub choice: TokenChoice,
    ending: Ending,
    follow_ups: Vec<NewJobStep>,
}

impl SettleStep {
    /// Follow-ups are taken in at `step_at`: whether one is due at once must not depend on its place in a
    /// batch.
    pub fn settlement(&self, lease: &Lease, now: Timestamp, step_at: Timestamp, nth: usize) -> Settlement {
        let transition = self.ending.transition(lease, now);
        let audit = AuditEvent::about(&lease.job, given::kind_of(&transition), now);
        let audit = Some(audit.reason(format!("settlement {nth}")));
        let follow_ups = jobs(&self.follow_ups, step_at);
        Settlement { token: lease.token, transition, audit, now, follow_ups }
    }
}

#[derive(Clone, Debug)]
enum Ending {
    Deliver { answer: bool },
    Retry { in_ms: u64 },
    Postpone { in_ms: u64 },
    Bury { code: Option<&'static str>, tried: Option<AttemptResult>, ttl_ms: u64 },
    Release { in_ms: u64, lost: bool },
}

impl Ending {
    fn transition(&self, lease: &Lease, now: Timestamp) -> Transition {
        let tried = |result| attempt(lease.attempt, result, now);
        match *self {
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
                held_up: false,
                at: now,
                ttl: Duration::from_millis(ttl_ms),
            }),
            Ending::Release { in_ms, lost } => {
                Transition::Release { at: after(now, in_ms), lost: lost.then(|| tried(AttemptResult::Lost)) }
            }
        }
    }
}

/// Few namespaces and keys, so that writes meet.
#[derive(Clone, Debug)]
pub struct KvStep {
    pub namespace: Namespace,
    pub key: &'static str,
    pub expect: Expect,
    value: Option<u8>,
    ttl_ms: Option<u64>,
}

/// Version that a write expects.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    Whatever,
    Absent,
    /// The one that is there before the step.
    Current,
    /// One of those that were ever given.
    Old(usize),
}

impl KvStep {
    pub fn write(&self, expect: Option<u64>, now: Timestamp) -> KvWrite {
        KvWrite {
            namespace: self.namespace,
            key: self.key.into(),
            value: self.value.map(|value| payload(&value.to_string())),
            expect,
            expires_at: self.ttl_ms.map(|ms| after(now, ms)),
            audit: Vec::new(),
        }
    }
}

pub fn jobs(new: &[NewJobStep], now: Timestamp) -> Vec<NewJob> {
    new.iter().map(|new| new.job(now)).collect()
}

pub fn after(now: Timestamp, ms: u64) -> Timestamp {
    now.plus(Duration::from_millis(ms))
}

fn tenant(number: u8) -> CompanyId {
    company(&format!("company-{number}"))
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

fn new() -> impl Strategy<Value = NewJobStep> {
    let body = prop::bool::weighted(0.1);
    (
        0..IDS,
        select(&COMPANIES[..]),
        select(&ROUTES[..]),
        body,
        select(vec![1_u8, 5, 9]),
        delay(),
        select(vec![5_u64, 1_000, 86_400_000]),
    )
        .prop_map(|(id, company, route, other_body, priority, due_ms, ttl_ms)| NewJobStep {
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
    (pick, 0..9_usize, lease_ms, any::<bool>(), turns()).prop_map(
        |(pick, max, lease_ms, outlives_process, turns)| ClaimStep {
            pick,
            max,
            lease_ms,
            outlives_process,
            turns,
        },
    )
}

/// Mostly the usual ones; a weight or a quota of 0 is a mistake or a pause.
fn turns() -> impl Strategy<Value = Turns> {
    let each = |values| {
        prop::collection::hash_map(select(&COMPANIES[..]).prop_map(tenant), values, 0..3).prop_map(Arc::new)
    };
    let special = (0..3_u32, each(0..4_u32), each(0..3_u32));
    prop_oneof![
        1 => Just(Turns::default()),
        1 => special.prop_map(|(batch, weights, quota)| Turns { batch, weights, quota }),
    ]
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
        4 => (delay(), any::<bool>()).prop_map(|(in_ms, lost)| Ending::Release { in_ms, lost }),
    ]
}

/// Mostly none, as with most settlements.
fn follow_ups() -> impl Strategy<Value = Vec<NewJobStep>> {
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(new(), 1..4)]
}

fn settle() -> impl Strategy<Value = SettleStep> {
    (token(), ending(), follow_ups()).prop_map(|(choice, ending, follow_ups)| SettleStep {
        choice,
        ending,
        follow_ups,
    })
}

fn kv_step() -> impl Strategy<Value = KvStep> {
    let expect = prop_oneof![
        2 => Just(Expect::Whatever),
        2 => Just(Expect::Absent),
        3 => Just(Expect::Current),
        1 => (0..32_usize).prop_map(Expect::Old),
    ];
    let value = prop::option::weighted(0.7, 0..9_u8);
    let ttl_ms = prop::option::of(select(vec![0_u64, 10, 1_000]));
    (select(vec![ACCOUNTS, ENDPOINTS]), select(vec!["a", "b", "c"]), expect, value, ttl_ms)
        .prop_map(|(namespace, key, expect, value, ttl_ms)| KvStep { namespace, key, expect, value, ttl_ms })
}

fn retention() -> impl Strategy<Value = Retention> {
    (select(vec![0_u64, 10, 86_400_000]), 0..5_u64).prop_map(|(age_ms, ended_max_count)| Retention {
        ended_max_age: Duration::from_millis(age_ms),
        ended_max_count,
    })
}

pub fn step(restarts: Restarts) -> impl Strategy<Value = Step> {
    let redrive = (0..8_usize, any::<bool>(), delay(), select(vec![5_u64, 86_400_000]), follow_ups())
        .prop_map(|(nth, corrected, due_ms, ttl_ms, follow_ups)| RedriveStep {
            nth,
            corrected,
            due_ms,
            ttl_ms,
            follow_ups,
        });
    let wait = select(vec![1_u64, 10, 1_000, 3_600_000]);
    let usual = prop_oneof![
        6 => prop::collection::vec(new(), 1..10).prop_map(Step::Enqueue),
        8 => claim().prop_map(Step::Claim),
        8 => prop::collection::vec(settle(), 1..5).prop_map(Step::Settle),
        1 => (prop::collection::vec(token(), 1..4), delay()).prop_map(|(choices, by_ms)| Step::Extend { choices, by_ms }),
        2 => (0..IDS).prop_map(Step::Cancel),
        4 => redrive.prop_map(Step::Redrive),
        1 => (0..8_usize, follow_ups()).prop_map(|(nth, follow_ups)| Step::Discard { nth, follow_ups }),
        4 => prop::collection::vec(kv_step(), 1..5).prop_map(Step::KvWrite),
        2 => retention().prop_map(Step::Prune),
        1 => (0..IDS).prop_map(Step::Record),
        3 => wait.prop_map(|ms| Step::Wait { ms }),
    ];
    let restart = select(vec![Shutdown::Drop, Shutdown::Close]).prop_map(Step::Restart);
    match restarts {
        Restarts::No => usual.boxed(),
        Restarts::Yes | Restarts::Shared => prop_oneof![17 => usual, 1 => restart].boxed(),
    }
}
