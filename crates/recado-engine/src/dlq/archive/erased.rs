//! Erased persons, so that no older file brings their data back.
//!
//! The trail's files are asked: each erasure is on record with a salted hash of its subject. A file's entry
//! can be compared with that; a list of erased persons is kept nowhere.
//!
//! Deliberately absent: erasures that other nodes have in files of their own, and those that found nothing on
//! record.

use recado_audit::{Content, Erasure, Identity, Order, Query, Subject};
use recado_core::{AuditKind, Job, Timestamp};

use crate::dlq::DeadLetters;
use crate::error::{Result, TrailError};
use crate::lifecycle::off_thread;

/// Erasures that are read at a time.
const PAGE_RECORDS: usize = 1_000;

/// Every erasure on record, with its sequence.
#[derive(Debug, Default)]
pub(super) struct Forgotten(Vec<(u64, Timestamp, Erasure)>);

impl DeadLetters {
    pub(super) async fn forgotten(&self) -> Result<Forgotten> {
        let Some(dir) = self.trail_dir.clone() else { return Ok(Forgotten::default()) };
        if !dir.is_dir() {
            return Ok(Forgotten::default());
        }
        let read = move || -> Result<Forgotten, recado_audit::Error> {
            let mut query = Query {
                kind: Some(AuditKind::PersonalDataErased),
                order: Order::OldestFirst,
                limit: PAGE_RECORDS,
                ..Query::default()
            };
            let mut all = Forgotten::default();
            loop {
                let page = recado_audit::search(&dir, &query)?;
                for record in page.records {
                    if let Content::Erasure { erasure } = record.content {
                        all.0.push((record.sequence, record.archived_at, erasure));
                    }
                }
                query.beyond = page.next;
                if page.next.is_none() {
                    return Ok(all);
                }
            }
        };
        let read = off_thread(read).await.ok_or(TrailError::CutOff)?;
        Ok(read.map_err(TrailError::from)?)
    }
}

impl Forgotten {
    /// The record of an erasure that this job's data was under. What came in after it is another matter.
    pub(super) fn recorded_as(&self, job: &Job) -> Option<u64> {
        let id = || job.id.as_str().into();
        let user = job.user_id.clone().map(Identity::User);
        let correlation = job.correlation_id.clone().map(Identity::Correlation);
        let identities = [Some(Identity::Job(id())), Some(Identity::Claim(id())), user, correlation];
        let company = Some(job.company.as_str().into());
        let subjects: Vec<Subject> = identities
            .into_iter()
            .flatten()
            .flat_map(|identity| {
                [None, company.clone()].map(|company| Subject { identity: identity.clone(), company })
            })
            .collect();
        let concerns = |erasure: &Erasure| subjects.iter().any(|subject| erasure.concerns(subject));
        let found = self.0.iter().find(|(_, at, erasure)| job.enqueued_at <= *at && concerns(erasure));
        found.map(|(sequence, ..)| *sequence)
    }
}
