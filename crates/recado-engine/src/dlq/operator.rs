//! Acts of a person on one job: cancel, replay, discard. Each is on the audit trail with its actor.

use recado_core::{
    AuditEvent, AuditKind, Damage, DeadLetter, Event, EventData, EventKind, Job, JobId, NewJob, Payload,
};
use recado_observe::{DeadLetterExit, Ending, Fact};
use recado_store::{Cancelled, Discard, Discarded, Redrive, Redriven};
use recado_transport::DataFault;

use crate::attempt::post_settle::PostSettle;
use crate::dlq::DeadLetters;
use crate::error::Result;

/// The result of a replay request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    Started,
    AlreadyReplaying,
    Unknown,
    /// The corrected data cannot be delivered.
    InvalidData(Vec<DataFault>),
    /// Its route cannot deliver anything: why, in words.
    Undeliverable(String),
    /// The payload is damaged in the store.
    Damaged(Damage),
}

impl DeadLetters {
    /// The trail's record of an act on a job; `None` when there is no such job.
    async fn act(
        &self,
        id: &JobId,
        kind: AuditKind,
        actor: Option<&str>,
        bulk_id: Option<&str>,
    ) -> Result<Option<(Job, AuditEvent)>> {
        let now = self.env.now();
        let view = self.store.job(id, now).await?;
        Ok(view.map(|view| {
            let bulk_id = bulk_id.map(Into::into);
            let audit = AuditEvent { bulk_id, ..AuditEvent::about(&view.job, kind, now).by(actor) };
            (view.job, audit)
        }))
    }

    /// The events of an act.
    fn post_settle(&self, job: &Job, kind: EventKind, audit: &AuditEvent) -> (PostSettle, Vec<NewJob>) {
        let data = EventData {
            actor: audit.actor.clone(),
            reason: audit.decision.retry_reason.clone(),
            ..EventData::default()
        };
        PostSettle::of_act(&self.env, &self.notifier, job, Event::about(job, kind, audit.timestamp, data))
    }

    /// Stops a job that is not being delivered.
    pub async fn cancel(&self, id: &JobId, actor: Option<&str>) -> Result<Cancelled> {
        let Some((job, audit)) = self.act(id, AuditKind::Cancelled, actor, None).await? else {
            return Ok(Cancelled::Unknown);
        };
        let cancelled = self.env.jobs.cancel(id, audit).await?;
        if cancelled == Cancelled::Done {
            tracing::info!(jobId = %id, actor, "Job cancelled");
            self.env.metrics.record(&Fact::JobEnded {
                route: job.route.as_str(),
                company: job.company.as_str(),
                ending: Ending::Cancelled,
                attempts: job.progress.attempts_started,
                retried: job.progress.attempts_spent > 1,
                since_first_try: None,
            });
        }
        Ok(cancelled)
    }

    /// Puts a dead letter back in line with a fresh budget, corrected if `data` is given. What it was corrected to before
    /// goes out again otherwise.
    pub async fn replay(
        &self,
        id: &JobId,
        data: Option<Payload>,
        note: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Replay> {
        match self.store.dead_letter(id).await? {
            Some(entry) => self.replay_entry(&entry, data, note, actor, None).await,
            None => Ok(Replay::Unknown),
        }
    }

    /// Replays a dead letter with its original data, without later corrections.
    pub async fn replay_original(
        &self,
        id: &JobId,
        note: Option<&str>,
        actor: Option<&str>,
    ) -> Result<Replay> {
        match self.store.dead_letter(id).await? {
            Some(entry) => match entry.original_damage() {
                Some(damage) => Ok(Replay::Damaged(damage)),
                None => self.replay_entry(&entry, Some(entry.original_data.clone()), note, actor, None).await,
            },
            None => Ok(Replay::Unknown),
        }
    }

    /// Replays an entry that was already read, for a person or for a bulk act.
    pub(crate) async fn replay_entry(
        &self,
        entry: &DeadLetter,
        data: Option<Payload>,
        note: Option<&str>,
        actor: Option<&str>,
        bulk_id: Option<&str>,
    ) -> Result<Replay> {
        let id = &entry.job_id;
        match (entry.damage(), &data) {
            (None | Some(Damage::OriginalData), _) | (Some(Damage::Data), Some(_)) => {}
            (Some(damage), _) => return Ok(Replay::Damaged(damage)),
        }
        if let Some(why) = self.env.routes.why_undeliverable(entry.route.as_str()) {
            return Ok(Replay::Undeliverable(why));
        }
        let route = self.env.routes.get(entry.route.as_str());
        if let (Some(data), Some(route)) = (&data, route)
            && let Err(faults) = route.check(data)
        {
            return Ok(Replay::InvalidData(faults));
        }
        let Some((job, mut audit)) = self.act(id, AuditKind::Replayed, actor, bulk_id).await? else {
            return Ok(Replay::Unknown);
        };
        let with = match &data {
            Some(data) if *data == entry.original_data => " with its original data",
            Some(_) => " with corrected data",
            None => "",
        };
        audit.data_changed = Some(data.as_ref().is_some_and(|data| data != entry.data()));
        audit = audit.reason(match note {
            Some(note) => format!("Replayed{with}: {note}"),
            None => format!("Replayed{with}"),
        });
        let now = self.env.now();
        let (post_settle, follow_ups) = self.post_settle(&job, EventKind::JobReplayed, &audit);
        let redrive = Redrive {
            id: id.clone(),
            data,
            due_at: now,
            // A person asked for it, so it may wait for a broken provider as long as it could wait for a person.
            expires_at: now.plus(self.notifier.job_ttl.max(entry.ttl)),
            audit,
            follow_ups,
        };
        Ok(match self.env.jobs.redrive(redrive).await? {
            Redriven::Done => {
                tracing::info!(jobId = %id, actor, "Dead letter replayed");
                post_settle.publish(&self.notifier);
                Replay::Started
            }
            Redriven::AlreadyReplaying => Replay::AlreadyReplaying,
            Redriven::Unknown => Replay::Unknown,
        })
    }

    /// Gives a dead letter up for good.
    pub async fn discard(&self, id: &JobId, reason: &str, actor: Option<&str>) -> Result<Discarded> {
        match self.store.dead_letter(id).await? {
            Some(entry) => self.discard_entry(&entry, reason, actor, None).await,
            None => Ok(Discarded::Unknown),
        }
    }

    /// Gives a dead letter up that was read before. One that was replayed since then and died again is another one, and
    /// stays.
    pub async fn discard_entry(
        &self,
        entry: &DeadLetter,
        reason: &str,
        actor: Option<&str>,
        bulk_id: Option<&str>,
    ) -> Result<Discarded> {
        let id = &entry.job_id;
        let Some((job, audit)) = self.act(id, AuditKind::Discarded, actor, bulk_id).await? else {
            return Ok(Discarded::Unknown);
        };
        // Read after the job: a replay that began before this is told by the job's count, one that ended by the time.
        match self.store.dead_letter(id).await? {
            Some(latest) if latest.moved_at == entry.moved_at => {}
            Some(_) => return Ok(Discarded::DiedAgain),
            None => return Ok(Discarded::Unknown),
        }
        let audit = audit.reason(reason.to_owned());
        let (post_settle, follow_ups) = self.post_settle(&job, EventKind::JobDiscarded, &audit);
        let replays = Some(job.progress.replays);
        let discarded = self.env.jobs.discard(Discard { id: id.clone(), replays, audit, follow_ups }).await?;
        if discarded == Discarded::Done {
            tracing::warn!(jobId = %id, actor, reason, "Dead letter discarded");
            self.env.metrics.record_dead_letter_left(DeadLetterExit::Discarded, entry.moved_at);
            post_settle.publish(&self.notifier);
        }
        Ok(discarded)
    }
}
