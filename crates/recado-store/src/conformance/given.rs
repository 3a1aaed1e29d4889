//! The situations that the checks start from, and short words for the verbs.

use std::sync::Arc;
use std::time::Duration;

use recado_core::payload::digest_of;
use recado_core::{
    Attempt, AttemptResult, AuditEvent, AuditKind, Blame, BodyHash, Burial, Cause, Class, CompanyId,
    DeadLetter, Failure, JobId, Lease, LeaseToken, NewJob, Payload, Priority, Reason, RouteName, Status,
    Timestamp, TraceParent, Transition,
};

use super::Home;
use crate::{
    Cancelled, Claim, Claimed, Discard, Discarded, Enqueued, Extended, JobView, KvEntry, KvWrite, KvWritten,
    Namespace, Pick, Redrive, Redriven, Settled, Settlement, Store, TenantFilter, TenantView, Turns,
};

pub const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3_600);
pub const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Time that the dead letters of the checks are kept.
pub const DEAD_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The namespaces of the checks.
pub const ACCOUNTS: Namespace = Namespace::new("accounts");
pub const ENDPOINTS: Namespace = Namespace::new("webhook-endpoints");

pub const BODY: BodyHash = BodyHash(1);
pub const OTHER_BODY: BodyHash = BodyHash(2);

pub fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub fn company(name: &str) -> CompanyId {
    CompanyId::new(name).unwrap()
}

pub fn route(name: &str) -> RouteName {
    RouteName::new(name).unwrap()
}

pub fn priority(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

pub fn payload(json: &str) -> Payload {
    Payload::new(json).unwrap()
}

/// A job of company `acme` for route `email`, due at once.
pub fn job(name: &str) -> NewJob {
    NewJob {
        id: id(name),
        route: route("email"),
        company: company("acme"),
        data: payload(&format!(r#"{{"for":"{name}","olá":"ação"}}"#)),
        user_id: Some("user-7".into()),
        correlation_id: Some(format!("corr-{name}").into()),
        traceparent: TraceParent::new(digest_of(&[name]), 7, true),
        priority: Priority::default(),
        enqueued_at: T0,
        due_at: T0,
        expires_at: T0.plus(DAY),
        body_hash: BODY,
    }
}

pub fn jobs_of(tenant: &str, count: usize) -> Vec<NewJob> {
    (0..count).map(|n| NewJob { company: company(tenant), ..job(&format!("{tenant}-{n:05}")) }).collect()
}

pub fn attempt(number: u32, result: AttemptResult, now: Timestamp) -> Attempt {
    let failed = result != AttemptResult::Sent;
    Attempt {
        number,
        started_at: now,
        ended_at: now.plus(Duration::from_millis(40)),
        result,
        error_code: failed.then(|| "421".into()),
        error_reason: failed.then(|| Reason::new("try later, até já").unwrap()),
        error_classification: failed.then_some(Class::Transient),
        rule: failed.then(|| "smtp/4xx".into()),
        blame: failed.then_some(Blame::Provider),
        next_retry_delay_ms: None,
        provider: None,
        held_up: false,
        recipients: Vec::new(),
        replays: 0,
        earlier: None,
    }
}

pub fn failure(code: Option<&str>, reason: &str) -> Failure {
    Failure {
        class: Class::Permanent,
        code: code.map(Into::into),
        reason: Reason::new(reason).unwrap(),
        rule: "smtp/5xx".into(),
        blame: Blame::Message,
        retry_after: None,
        asked_wait: None,
        uncertain: false,
        invalid_payload: false,
        stack_trace: Some("at deliver".into()),
    }
}

pub fn deliver(lease: &Lease, now: Timestamp) -> Transition {
    let attempt = attempt(lease.attempt, AttemptResult::Sent, now);
    Transition::Deliver { attempt, answer: Some(payload(r#"{"messageId":"m-1"}"#)) }
}

pub fn retry_at(lease: &Lease, at: Timestamp, now: Timestamp) -> Transition {
    Transition::RetryAt { at, attempt: attempt(lease.attempt, AttemptResult::Failed, now) }
}

pub fn bury(lease: &Lease, code: Option<&str>, reason: &str, now: Timestamp) -> Transition {
    Transition::Bury(Burial {
        cause: Cause::Permanent,
        failure: failure(code, reason),
        attempt: Some(attempt(lease.attempt, AttemptResult::Failed, now)),
        held_up: false,
        at: now,
        ttl: DEAD_TTL,
    })
}

/// One transition of each kind, for a lease that may or may not be current.
pub fn every_transition(lease: &Lease, now: Timestamp) -> [Transition; 6] {
    [
        deliver(lease, now),
        retry_at(lease, now.plus(SECOND), now),
        Transition::Postpone { until: now.plus(SECOND) },
        bury(lease, Some("550"), "no such mailbox", now),
        Transition::Release { at: now, lost: None },
        Transition::Release { at: now, lost: Some(attempt(lease.attempt, AttemptResult::Lost, now)) },
    ]
}

/// Writes `value` on the namespace of accounts, whatever is there.
pub fn write(key: &str, value: &str) -> KvWrite {
    KvWrite {
        namespace: ACCOUNTS,
        key: key.into(),
        value: Some(payload(value)),
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    }
}

pub fn kind_of(transition: &Transition) -> AuditKind {
    match transition {
        Transition::Deliver { .. } => AuditKind::Delivered,
        Transition::Bury(_) => AuditKind::Buried,
        Transition::RetryAt { .. } => AuditKind::RetryScheduled,
        Transition::Postpone { .. } | Transition::Release { .. } => AuditKind::LeaseLost,
    }
}

/// A person did something to a job.
pub fn act(name: &str, kind: AuditKind, now: Timestamp) -> AuditEvent {
    let mut event = AuditEvent::claim(name, "email", kind, now).by(Some("ana"));
    event.job_id = Some(name.into());
    event
}

/// A stage that a job can be brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Scheduled,
    Queued,
    Delivering,
    Retrying,
    Postponed,
    Sent,
    Dead,
    Replaying,
    Cancelled,
    Discarded,
}

impl Stage {
    pub const ALL: [Stage; 10] = [
        Stage::Scheduled,
        Stage::Queued,
        Stage::Delivering,
        Stage::Retrying,
        Stage::Postponed,
        Stage::Sent,
        Stage::Dead,
        Stage::Replaying,
        Stage::Cancelled,
        Stage::Discarded,
    ];

    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The status of such a job, where the contract gives it one name only.
    pub fn status(self) -> Option<Status> {
        Some(match self {
            Stage::Scheduled => Status::Scheduled,
            Stage::Queued => Status::Queued,
            Stage::Delivering => Status::Delivering,
            Stage::Retrying => Status::Retrying,
            Stage::Sent => Status::Sent,
            Stage::Dead => Status::Failed,
            Stage::Cancelled => Status::Cancelled,
            Stage::Discarded => Status::Discarded,
            Stage::Postponed | Stage::Replaying => return None,
        })
    }

    pub fn waits(self) -> bool {
        use Stage::{Postponed, Queued, Replaying, Retrying, Scheduled};
        matches!(self, Scheduled | Queued | Retrying | Postponed | Replaying)
    }
}

/// A store, with short words for its verbs. A verb that the store cannot carry out fails the check.
#[derive(Debug, Clone)]
pub struct Desk(pub Arc<dyn Store>);

impl Desk {
    pub async fn at(home: &mut dyn Home) -> Desk {
        Desk(home.open().await)
    }

    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Vec<Enqueued> {
        self.0.enqueue(jobs).await.unwrap()
    }

    /// Takes in jobs that are all new.
    pub async fn accept(&self, jobs: Vec<NewJob>) {
        let answers = self.enqueue(jobs).await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Enqueued::Accepted { .. })),
            "not all accepted: {answers:?}"
        );
    }

    pub async fn claim(&self, pick: Pick, max: usize, now: Timestamp) -> Claimed {
        self.claim_by(Turns::default(), pick, max, now).await
    }

    pub async fn claim_by(&self, turns: Turns, pick: Pick, max: usize, now: Timestamp) -> Claimed {
        let claim = Claim {
            pick,
            max,
            now,
            lease_until: now.plus(HOUR),
            worker: "worker-1".into(),
            provider: None,
            outlives_process: true,
            turns,
        };
        self.0.claim(claim).await.unwrap()
    }

    pub async fn ready(&self, max: usize, now: Timestamp) -> Vec<Lease> {
        self.claim(Pick::Ready(route("email")), max, now).await.leases
    }

    /// The tenants of the jobs that came, in order.
    pub async fn served(&self, max: usize, turns: &Turns) -> Vec<String> {
        let claimed = self.claim_by(turns.clone(), Pick::Ready(route("email")), max, T0).await;
        claimed.leases.into_iter().map(|lease| lease.job.company.to_string()).collect()
    }

    /// The statistics of a tenant of route `email`.
    pub async fn tenant(&self, name: &str, now: Timestamp) -> Option<TenantView> {
        let filter = TenantFilter { company: Some(company(name)), route: Some(route("email")) };
        self.0.tenants(filter, now).await.unwrap().pop()
    }

    /// The only job that can be claimed.
    pub async fn only(&self, now: Timestamp) -> Lease {
        let mut leases = self.ready(2, now).await;
        assert_eq!(leases.len(), 1, "one job is ready, {} were claimed", leases.len());
        leases.remove(0)
    }

    pub async fn settle(&self, lease: &Lease, transition: Transition, now: Timestamp) -> Settled {
        self.settle_with(lease, transition, Vec::new(), now).await
    }

    pub async fn settle_with(
        &self,
        lease: &Lease,
        transition: Transition,
        follow_ups: Vec<NewJob>,
        now: Timestamp,
    ) -> Settled {
        let audit = Some(AuditEvent::about(&lease.job, kind_of(&transition), now).attempt(lease.attempt));
        let settlement = Settlement { token: lease.token, transition, audit, now, follow_ups };
        self.0.settle(vec![settlement]).await.unwrap()[0]
    }

    /// Settles a lease that is current.
    pub async fn done(&self, lease: &Lease, transition: Transition, now: Timestamp) {
        assert_eq!(
            self.settle(lease, transition, now).await,
            Settled::Done,
            "the lease of {} is current",
            lease.job.id
        );
    }

    pub async fn extend(&self, token: LeaseToken, until: Timestamp) -> Extended {
        self.0.extend(vec![token], until).await.unwrap()[0]
    }

    pub async fn cancel(&self, name: &str, now: Timestamp) -> Cancelled {
        self.0.cancel(&id(name), act(name, AuditKind::Cancelled, now)).await.unwrap()
    }

    pub async fn redrive(&self, name: &str, data: Option<&str>, now: Timestamp) -> Redriven {
        let redrive = Redrive {
            id: id(name),
            data: data.map(payload),
            due_at: now,
            expires_at: now.plus(DAY),
            audit: act(name, AuditKind::Replayed, now),
            follow_ups: Vec::new(),
        };
        self.0.redrive(redrive).await.unwrap()
    }

    pub async fn discard(&self, name: &str, now: Timestamp) -> Discarded {
        let audit = act(name, AuditKind::Discarded, now);
        self.0.discard(Discard { id: id(name), replays: None, audit, follow_ups: Vec::new() }).await.unwrap()
    }

    pub async fn find(&self, name: &str, now: Timestamp) -> Option<JobView> {
        self.0.job(&id(name), now).await.unwrap()
    }

    pub async fn view(&self, name: &str, now: Timestamp) -> JobView {
        self.find(name, now).await.unwrap_or_else(|| panic!("{name} is gone"))
    }

    pub async fn dead_letter(&self, name: &str) -> Option<DeadLetter> {
        self.0.dead_letter(&id(name)).await.unwrap()
    }

    pub async fn audit_kinds(&self, name: &str) -> Vec<AuditKind> {
        self.0.audit(&id(name)).await.unwrap().into_iter().map(|event| event.kind).collect()
    }

    pub async fn write(&self, write: KvWrite, now: Timestamp) -> KvWritten {
        self.0.kv_write(vec![write], now).await.unwrap()[0]
    }

    /// Writes what nothing stands against, and says which version it has now.
    pub async fn written(&self, write: KvWrite, now: Timestamp) -> u64 {
        match self.write(write, now).await {
            KvWritten::Done { version } => version,
            conflict => panic!("not written: {conflict:?}"),
        }
    }

    pub async fn note(&self, key: &str, now: Timestamp) -> Option<KvEntry> {
        self.0.kv_get(ACCOUNTS, key, now).await.unwrap()
    }

    /// Enqueues a job, on a route of its own, and leads it to a stage at `T0`.
    ///
    /// A job that waits there (a retry, a schedule, a lease's end) waits for an hour.
    pub async fn bring(&self, name: &str, stage: Stage) -> Option<Lease> {
        let own = route(&format!("to-{name}"));
        let due_at = if stage == Stage::Scheduled { T0.plus(HOUR) } else { T0 };
        self.accept(vec![NewJob { route: own.clone(), due_at, ..job(name) }]).await;
        match stage {
            Stage::Scheduled | Stage::Queued => return None,
            Stage::Cancelled => {
                assert_eq!(self.cancel(name, T0).await, Cancelled::Done);
                return None;
            }
            _ => {}
        }
        let lease = self.claim(Pick::Ready(own), 1, T0).await.leases.pop().unwrap();
        match stage {
            Stage::Delivering => {}
            Stage::Retrying => self.done(&lease, retry_at(&lease, T0.plus(HOUR), T0), T0).await,
            Stage::Postponed => self.done(&lease, Transition::Postpone { until: T0.plus(HOUR) }, T0).await,
            Stage::Sent => self.done(&lease, deliver(&lease, T0), T0).await,
            _ => self.done(&lease, bury(&lease, Some("550"), "no such mailbox", T0), T0).await,
        }
        match stage {
            Stage::Replaying => assert_eq!(self.redrive(name, None, T0).await, Redriven::Done),
            Stage::Discarded => assert_eq!(self.discard(name, T0).await, Discarded::Done),
            _ => {}
        }
        Some(lease)
    }
}
