//! Writes a database with a job in every state and a few key-value entries, for the tests to open for as long as its format
//! is supported:
//!
//! ```text
//! cargo run -p recado-store-embedded --example make_store_fixture -- crates/recado-store-embedded/tests/fixtures/format-v5.db
//! ```
//!
//! Run it when the format gets a new version, under that version's name, and leave the old files alone.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{
    Attempt, AttemptResult, AuditEvent, AuditKind, Blame, BodyHash, Burial, Cause, Class, Failure, JobId,
    Lease, NewJob, Payload, Priority, Random, Reason, RouteName, Timestamp, Transition,
};
use recado_store::prelude::*;
use recado_store::{Claim, KvWrite, Namespace, Pick, Redrive, Settlement, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore, FILE_NAME};
use recado_testkit::jobs::{T0, new_job, permanent_failure};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const ATTEMPT_END: Timestamp = Timestamp::from_millis(T0.as_millis() + 40);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let to = std::env::args().nth(1).ok_or("say where to write the file")?;
    let dir = tempfile::tempdir()?;
    let options = EmbeddedOptions { reserve_bytes: 0, ..EmbeddedOptions::at(dir.path()) };
    let maker = Maker(EmbeddedStore::open(&options, Arc::new(Random::from_seed(1)))?);
    maker.make().await?;
    maker.0.close().await?;
    std::fs::copy(dir.path().join(FILE_NAME), to)?;
    Ok(())
}

struct Maker(EmbeddedStore);

impl Maker {
    async fn make(&self) -> Done {
        let urgent = Priority::new(1).ok_or("not a priority")?;
        let bare = NewJob { user_id: None, correlation_id: None, traceparent: None, ..job("queued")? };
        let scheduled = NewJob { due_at: T0.plus(HOUR), priority: urgent, ..job("scheduled")? };
        self.0.enqueue(vec![scheduled, bare, job("cancelled")?]).await?;
        self.0.cancel(&JobId::new("cancelled")?, act("cancelled", AuditKind::Cancelled)).await?;
        self.lease("held-outside", true).await?;
        self.lease("held-inside", false).await?;
        let lease = self.lease("retrying", true).await?;
        let retry = Transition::RetryAt { at: T0.plus(HOUR), attempt: failed_attempt(&lease)? };
        self.settle(&lease, retry, AuditKind::RetryScheduled).await?;
        let lease = self.lease("postponed", true).await?;
        self.settle(&lease, Transition::Postpone { until: T0.plus(HOUR) }, AuditKind::LeaseLost).await?;
        let lease = self.lease("sent", true).await?;
        let attempt = Attempt::ended(lease.attempt, T0, ATTEMPT_END, AttemptResult::Sent);
        let answer = Some(Payload::new(r#"{"messageId":"m-1"}"#)?);
        self.settle(&lease, Transition::Deliver { attempt, answer }, AuditKind::Delivered).await?;
        self.bury("dead").await?;
        self.bury("replaying").await?;
        let redrive = Redrive {
            id: JobId::new("replaying")?,
            data: Some(Payload::new(r#"{"corrected":true}"#)?),
            due_at: T0,
            expires_at: T0.plus(2 * DAY),
            audit: act("replaying", AuditKind::Replayed),
            follow_ups: Vec::new(),
        };
        self.0.redrive(redrive).await?;
        self.kv_write().await
    }

    /// One for good, one for an hour, and one that is gone: its version must not be given again.
    async fn kv_write(&self) -> Done {
        let value = Payload::new(r#"{"marked":"não entrega"}"#)?;
        let write = |key: &str| KvWrite {
            namespace: Namespace::new("accounts"),
            key: key.into(),
            value: Some(value.clone()),
            expect: None,
            expires_at: None,
            audit: Vec::new(),
        };
        let for_an_hour = KvWrite { expires_at: Some(T0.plus(HOUR)), ..write("for-an-hour") };
        let gone = KvWrite { value: None, ..write("removed") };
        self.0.kv_write(vec![write("for-good"), for_an_hour, write("removed"), gone], T0).await?;
        Ok(())
    }

    async fn lease(&self, name: &str, outlives_process: bool) -> Done<Lease> {
        self.0.enqueue(vec![job(name)?]).await?;
        let claim = Claim {
            pick: Pick::Ready(RouteName::new(format!("to-{name}"))?),
            max: 1,
            now: T0,
            lease_until: T0.plus(HOUR),
            worker: "worker-1".into(),
            provider: Some("provider-1".into()),
            outlives_process,
            turns: Turns::default(),
        };
        Ok(self.0.claim(claim).await?.leases.pop().ok_or("nothing to claim")?)
    }

    async fn settle(&self, lease: &Lease, transition: Transition, kind: AuditKind) -> Done {
        let audit = Some(AuditEvent::about(&lease.job, kind, T0).attempt(lease.attempt));
        let settlement =
            Settlement { token: lease.token, transition, audit, now: T0, follow_ups: Vec::new() };
        self.0.settle(vec![settlement]).await?;
        Ok(())
    }

    async fn bury(&self, name: &str) -> Done {
        let lease = self.lease(name, true).await?;
        let burial = Burial {
            cause: Cause::Permanent,
            failure: Failure {
                stack_trace: Some("at deliver".into()),
                ..permanent_failure(Some("550"), "não existe")
            },
            attempt: Some(failed_attempt(&lease)?),
            held_up: false,
            at: T0,
            ttl: 7 * DAY,
        };
        self.settle(&lease, Transition::Bury(burial), AuditKind::Buried).await
    }
}

/// The record of what an operator did to a job.
fn act(name: &str, kind: AuditKind) -> AuditEvent {
    let act = AuditEvent::claim(name, &format!("to-{name}"), kind, T0).by(Some("ana"));
    AuditEvent { job_id: Some(name.into()), ..act }
}

/// Each on a route of its own, so that one can be claimed without the others.
fn job(name: &str) -> Done<NewJob> {
    Ok(NewJob {
        user_id: Some("user-7".into()),
        correlation_id: Some("corr-9".into()),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?),
        body_hash: BodyHash(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        ..new_job(name, &format!("to-{name}"), &format!(r#"{{"for":"{name}"}}"#), T0)
    })
}

fn failed_attempt(lease: &Lease) -> Done<Attempt> {
    Ok(Attempt {
        error_code: Some("421".into()),
        error_reason: Some(Reason::new("try later")?),
        error_classification: Some(Class::Transient),
        rule: Some("smtp/4xx".into()),
        blame: Some(Blame::Provider),
        next_retry_delay_ms: Some(3_600_000),
        ..Attempt::ended(lease.attempt, T0, ATTEMPT_END, AttemptResult::Failed)
    })
}
