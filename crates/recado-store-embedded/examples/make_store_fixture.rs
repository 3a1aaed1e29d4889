//! Writes a database with a job in every state and a few notes, for the tests to open for as long as its format
//! is supported:
//!
//! ```text
//! cargo run -p recado-store-embedded --example make_store_fixture -- crates/recado-store-embedded/tests/fixtures/format-v5.db
//! ```
//!
//! Run it when the format gets a new version, under that version's name, and leave the old files alone.

use recado_store::prelude::*;
use std::error::Error;
use std::time::Duration;

use recado_core::{
    Attempt, AttemptResult, AuditEvent, AuditKind, Blame, BodyHash, Burial, Cause, Class, CompanyId, Failure,
    JobId, Lease, NewJob, Payload, Priority, Reason, RouteName, Timestamp, Transition,
};
use recado_store::{Claim, KvWrite, Namespace, Pick, Redrive, Settlement, Turns};
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore, FILE_NAME};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const T0: Timestamp = Timestamp::from_millis(1_736_677_800_000);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let to = std::env::args().nth(1).ok_or("say where to write the file")?;
    let dir = tempfile::tempdir()?;
    let maker =
        Maker(EmbeddedStore::open(&EmbeddedOptions { reserve_bytes: 0, ..EmbeddedOptions::at(dir.path()) })?);
    maker.make().await?;
    maker.0.close().await?;
    std::fs::copy(dir.path().join(FILE_NAME), to)?;
    Ok(())
}

struct Maker(EmbeddedStore);

impl Maker {
    async fn make(&self) -> Done {
        self.0
            .enqueue(vec![NewJob { due_at: T0.plus(HOUR), priority: level(1)?, ..job("scheduled")? }])
            .await?;
        self.0
            .enqueue(vec![NewJob {
                user_id: None,
                correlation_id: None,
                traceparent: None,
                ..job("queued")?
            }])
            .await?;
        self.0.enqueue(vec![job("cancelled")?]).await?;
        let mut cancel =
            AuditEvent::claim("cancelled", "to-cancelled", AuditKind::Cancelled, T0).by(Some("ana"));
        cancel.job_id = Some("cancelled".into());
        self.0.cancel(&JobId::new("cancelled")?, cancel).await?;

        self.lease("held-outside", true).await?;
        self.lease("held-inside", false).await?;
        let lease = self.lease("retrying", true).await?;
        let failed = attempt(&lease, AttemptResult::Failed)?;
        self.settle(
            &lease,
            Transition::RetryAt { at: T0.plus(HOUR), attempt: failed },
            AuditKind::RetryScheduled,
        )
        .await?;
        let lease = self.lease("postponed", true).await?;
        self.settle(&lease, Transition::Postpone { until: T0.plus(HOUR) }, AuditKind::LeaseLost).await?;
        let lease = self.lease("sent", true).await?;
        let sent = attempt(&lease, AttemptResult::Sent)?;
        let answer = Some(Payload::new(r#"{"messageId":"m-1"}"#)?);
        self.settle(&lease, Transition::Deliver { attempt: sent, answer }, AuditKind::Delivered).await?;
        self.bury("dead").await?;
        self.bury("replaying").await?;
        let mut audit =
            AuditEvent::claim("replaying", "to-replaying", AuditKind::Replayed, T0).by(Some("ana"));
        audit.job_id = Some("replaying".into());
        let data = Some(Payload::new(r#"{"corrected":true}"#)?);
        let id = JobId::new("replaying")?;
        let expires_at = T0.plus(2 * DAY);
        self.0.redrive(Redrive { id, data, due_at: T0, expires_at, audit, follow_ups: Vec::new() }).await?;
        self.kv_write().await
    }

    /// One for good, one for an hour, and one that is gone: its version must not be given again.
    async fn kv_write(&self) -> Done {
        let namespace = Namespace::new("accounts");
        let note = |key: &str, value: Option<Payload>| KvWrite {
            namespace,
            key: key.into(),
            value,
            expect: None,
            expires_at: None,
            audit: Vec::new(),
        };
        let value = || Payload::new(r#"{"marked":"não entrega"}"#).map(Some);
        let writes = vec![
            note("for-good", value()?),
            KvWrite { expires_at: Some(T0.plus(HOUR)), ..note("for-an-hour", value()?) },
            note("removed", value()?),
            note("removed", None),
        ];
        self.0.kv_write(writes, T0).await?;
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
        let failure = Failure {
            class: Class::Permanent,
            code: Some("550".into()),
            reason: Reason::new("não existe")?,
            rule: "smtp/5xx".into(),
            blame: Blame::Message,
            retry_after: None,
            asked_wait: None,
            uncertain: false,
            invalid_payload: false,
            stack_trace: Some("at deliver".into()),
        };
        let attempt = Some(attempt(&lease, AttemptResult::Failed)?);
        let burial =
            Burial { cause: Cause::Permanent, failure, attempt, held_up: false, at: T0, ttl: 7 * DAY };
        self.settle(&lease, Transition::Bury(burial), AuditKind::Buried).await
    }
}

fn level(level: u8) -> Done<Priority> {
    Ok(Priority::new(level).ok_or("not a priority")?)
}

/// Each on a route of its own, so that one can be claimed without the others.
fn job(name: &str) -> Done<NewJob> {
    Ok(NewJob {
        id: JobId::new(name)?,
        route: RouteName::new(format!("to-{name}"))?,
        company: CompanyId::new("acme")?,
        data: Payload::new(&format!(r#"{{"for":"{name}"}}"#))?,
        user_id: Some("user-7".into()),
        correlation_id: Some("corr-9".into()),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?),
        priority: Priority::default(),
        enqueued_at: T0,
        due_at: T0,
        expires_at: T0.plus(DAY),
        body_hash: BodyHash(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
    })
}

fn attempt(lease: &Lease, result: AttemptResult) -> Done<Attempt> {
    let failed = result == AttemptResult::Failed;
    Ok(Attempt {
        number: lease.attempt,
        started_at: T0,
        ended_at: T0.plus(Duration::from_millis(40)),
        result,
        error_code: failed.then(|| "421".into()),
        error_reason: if failed { Some(Reason::new("try later")?) } else { None },
        error_classification: failed.then_some(Class::Transient),
        rule: failed.then(|| "smtp/4xx".into()),
        blame: failed.then_some(Blame::Provider),
        next_retry_delay_ms: failed.then_some(3_600_000),
        provider: None,
        held_up: false,
        recipients: Vec::new(),
        replays: 0,
        earlier: None,
    })
}
