//! One person's data, removed: what waits and what failed in the store, and the personal part of what is on record.
//!
//! First the jobs, so that what is recorded about their end is there to be erased, too. Then all of the trail is
//! archived, the files are rewritten, and last the store forgets the jobs, and what it still has on record of jobs that
//! it had forgotten before. A process that dies in between has done less than was asked for, and asking again does the
//! rest.
//!
//! Callbacks and notices about the jobs are erased with them ([`super::follow_ups`]), and those that wait are cancelled
//! without being asked for: they are copies of the person's numbers, and not what a caller wants sent.
//!
//! Deliberately absent: the archive of dead letters, log files and backups, which are files of their owner's.

use std::time::Duration;

use recado_audit::{Identity, Subject};
use recado_core::{AuditEvent, AuditKind, CompanyId, JobId, Status};
use recado_observe::DeadLetterExit;
use recado_store::{Cancelled, Discard, Discarded, JobFilter, JobView};

use super::archiver::ArchiveRound;
use super::follow_ups::{FoundJobs, found_on_pages, in_notices, is_about, is_follow_up};
use super::lease::ArchiverState;
use super::{AuditTrail, on_files};
use crate::error::{Result, TrailError};

/// An order to erase.
#[derive(Clone, Debug)]
pub struct ErasureOrder {
    pub subject: Subject,
    /// It stays: a reference, not a name.
    pub reason: Box<str>,
    pub actor: Box<str>,
    /// Cancel what waits, too.
    pub with_jobs: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Records whose personal part is gone.
    pub records: u64,
    /// The records that say so: none if nothing was on record.
    pub recorded_as: Vec<u64>,
    pub jobs_cancelled: u64,
    pub dead_letters_discarded: u64,
    pub jobs_forgotten: u64,
    /// Callbacks and notices about the jobs that are gone, wherever they were.
    pub follow_ups: u64,
}

/// The result of an erasure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Erasing {
    Done(Erased),
    /// This many jobs still wait to be sent, and the order does not cancel them: nothing was touched.
    JobsWait(u64),
    /// This many jobs are being delivered right now: nothing was touched.
    JobsUnderWay(u64),
    /// Another node writes the files: nothing was touched.
    Elsewhere {
        node: Box<str>,
    },
}

impl AuditTrail {
    /// Removes a person's data from the store and from the trail, and puts on record who asked for it.
    pub async fn erase(&self, order: ErasureOrder) -> Result<Erasing> {
        let terms = self.archive.terms.as_ref().ok_or(TrailError::None)?;
        let mut writer = self.archive.files.lock().await;
        let first = self.archive_round(&mut writer, terms).await?;
        drop(writer);
        if first == ArchiveRound::NotOurs {
            let state = ArchiverState::read(&*self.store, self.env.now()).await?;
            let node = state.map(|state| state.node).unwrap_or_default();
            return Ok(Erasing::Elsewhere { node });
        }
        let (jobs, follow_ups) = self.all_of(&order.subject).await?;
        let count = |jobs: &FoundJobs, wanted: fn(Status) -> bool| {
            jobs.iter().filter(|(_, status)| wanted(*status)).count() as u64
        };
        let is_under_way = |status| status == Status::Delivering;
        let under_way = count(&jobs, is_under_way) + count(&follow_ups, is_under_way);
        match (under_way, count(&jobs, is_waiting)) {
            (0, 0) => {}
            (0, waiting) if !order.with_jobs => return Ok(Erasing::JobsWait(waiting)),
            (0, _) => {}
            (under_way, _) => return Ok(Erasing::JobsUnderWay(under_way)),
        }
        let mut erased = Erased::default();
        // Follow-ups are counted when they are forgotten, and not by what they were before.
        let withdrawn = jobs.iter().map(|job| (job, 1)).chain(follow_ups.iter().map(|job| (job, 0)));
        for ((id, status), counts) in withdrawn {
            if is_waiting(*status) {
                match self.dlq.cancel(id, Some(&order.actor)).await? {
                    Cancelled::Refused(Status::Delivering) => return Ok(Erasing::JobsUnderWay(1)),
                    Cancelled::Done => erased.jobs_cancelled += counts,
                    _ => {}
                }
            }
            erased.dead_letters_discarded += counts * u64::from(self.discard_quietly(id, &order).await?);
        }
        let mut writer = self.archive.files.lock().await;
        loop {
            match self.archive_round(&mut writer, terms).await? {
                ArchiveRound::Copied { .. } => {}
                ArchiveRound::UpToDate => break,
                ArchiveRound::NotOurs => return Err(TrailError::CutOff.into()),
            }
        }
        let files = writer.take().ok_or(TrailError::CutOff)?;
        let ErasureOrder { subject, reason, actor, .. } = order;
        let subjects = [Some(subject.clone()), in_notices(&subject)];
        self.notifier
            .events
            .forget(|event| subjects.iter().flatten().any(|subject| is_about(event, subject)));
        let (now, who, why) = (self.env.now(), actor.clone(), reason.clone());
        let (files, outcome) = on_files(files, move |trail| {
            let erase = |subject| trail.erase(&subject, &who, &why, now);
            subjects.into_iter().flatten().map(erase).collect::<Result<Vec<_>, _>>()
        })
        .await?;
        let outcome = outcome.map_err(TrailError::from)?;
        *writer = Some(files);
        drop(writer);
        erased.records = outcome.iter().map(|outcome| outcome.records).sum();
        erased.recorded_as = outcome.into_iter().flat_map(|outcome| outcome.recorded_as).collect();
        // Of jobs that it had forgotten before, the store still has the records for a while.
        self.trim(Duration::ZERO).await?;
        let ids = |jobs: FoundJobs| jobs.into_iter().map(|(id, _)| id).collect();
        erased.jobs_forgotten = self.store.forget(ids(jobs)).await?;
        erased.follow_ups = self.store.forget(ids(follow_ups)).await?;
        if erased != Erased::default() {
            let (records, jobs) = (erased.records, erased.jobs_forgotten);
            tracing::warn!(actor = &*actor, reason = &*reason, records, jobs, "Personal data was erased");
        }
        Ok(Erasing::Done(erased))
    }

    /// Every job of a person that the store knows, and every follow-up that tells of one.
    async fn all_of(&self, subject: &Subject) -> Result<(FoundJobs, FoundJobs)> {
        let (numbered, jobs): (FoundJobs, FoundJobs) =
            self.jobs_of(subject).await?.into_iter().partition(|(id, _)| is_follow_up(id));
        let mut follow_ups = self.follow_ups_about(subject).await?;
        follow_ups.extend(numbered);
        if let Some(subject) = in_notices(subject) {
            // Without a payload it does not say whose company it is about, and is of no more use to another one.
            let notices = self.jobs_of(&subject).await?.into_iter();
            follow_ups.extend(notices.filter(|(id, status)| is_follow_up(id) && is_over(*status)));
        }
        follow_ups.sort_by(|(one, _), (other, _)| one.cmp(other));
        follow_ups.dedup_by(|(one, _), (other, _)| one == other);
        Ok((jobs, follow_ups))
    }

    /// Every job with a person's number that the store knows.
    async fn jobs_of(&self, subject: &Subject) -> Result<FoundJobs> {
        let now = self.env.now();
        let company = subject.company.as_deref().and_then(|name| CompanyId::new(name).ok());
        let mut filter = JobFilter { company: company.clone(), ..JobFilter::default() };
        match &subject.identity {
            Identity::User(user) => filter.user_id = Some(user.clone()),
            Identity::Correlation(id) => filter.correlation_id = Some(id.clone()),
            Identity::Job(id) | Identity::Claim(id) => {
                let Ok(id) = JobId::new(&**id) else { return Ok(Vec::new()) };
                let found = self.store.job(&id, now).await?;
                let own = found.filter(|view| filter.is_about(&view.job));
                return Ok(own.map(|view| (id, view.status)).into_iter().collect());
            }
        }
        let read = |page| self.store.jobs(filter.clone(), page, now);
        Ok(found_on_pages(read, |view: JobView| Some((view.job.id, view.status))).await?)
    }

    /// Discards a dead letter without an event: its person is to be forgotten.
    async fn discard_quietly(&self, id: &JobId, order: &ErasureOrder) -> Result<bool> {
        let Some(entry) = self.store.dead_letter(id).await? else { return Ok(false) };
        let Some(view) = self.store.job(id, self.env.now()).await? else { return Ok(false) };
        let audit = AuditEvent::about(&view.job, AuditKind::Discarded, self.env.now())
            .reason(order.reason.to_string())
            .by(Some(&order.actor));
        let discard = Discard { id: id.clone(), replays: None, audit, follow_ups: Vec::new() };
        let done = self.store.discard(discard).await? == Discarded::Done;
        if done {
            self.env.metrics.record_dead_letter_left(DeadLetterExit::Discarded, entry.moved_at);
        }
        Ok(done)
    }
}

fn is_over(status: Status) -> bool {
    matches!(status, Status::Sent | Status::Cancelled | Status::Discarded)
}

fn is_waiting(status: Status) -> bool {
    matches!(status, Status::Scheduled | Status::Queued | Status::Retrying | Status::Parked)
}
