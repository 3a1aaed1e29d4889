//! Records of reads: who was shown payloads or one person's records, and when.
//!
//! A read is answered after its record is durable, and not at all when the record cannot be written. The same actor who
//! is shown the same again within [`SAME_READ`] is covered by the record that is there, so that a page that refreshes
//! itself does not fill the trail. An export is recorded each time.
//!
//! Deliberately absent: lists without payloads that name no person, counts and metrics. A worker's lease is a delivery and no read.

use recado_core::words::counted;
use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use recado_audit::Query;
use recado_core::payload::digest_of;
use recado_core::{AuditEvent, AuditKind, DeadLetter, Job, Timestamp};
use recado_store::{DeadLetterFilter, PageRequest};

use crate::audit::AuditTrail;
use crate::dlq::about_entries;
use crate::error::Result;

/// Repetitions of a read that one record covers.
const SAME_READ: Duration = Duration::from_secs(10 * 60);

/// Reads that are remembered. When there are more, one may be recorded again too early.
const REMEMBERED_MAX: usize = 10_000;

/// Times at which this process last recorded each read, by a digest of who read what.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<HashMap<u128, Timestamp>>);

impl Reads {
    fn is_covered(&self, read: u128, now: Timestamp) -> bool {
        self.0.lock().get(&read).is_some_and(|at| *at <= now && at.plus(SAME_READ) > now)
    }

    fn remember(&self, read: u128, now: Timestamp) {
        let mut recorded = self.0.lock();
        if recorded.len() >= REMEMBERED_MAX {
            recorded.retain(|_, at| *at <= now && at.plus(SAME_READ) > now);
        }
        if recorded.len() >= REMEMBERED_MAX {
            recorded.clear();
        }
        recorded.insert(read, now);
    }
}

impl AuditTrail {
    /// Records that a job's payload is shown.
    pub async fn record_payload_read(&self, job: &Job, actor: &str) -> Result<()> {
        self.record_read(AuditEvent::about(job, AuditKind::PayloadRead, self.env.now()).by(Some(actor))).await
    }

    /// Records that a dead letter is shown with its payload.
    pub async fn record_letter_read(&self, entry: &DeadLetter, actor: &str) -> Result<()> {
        let (id, route) = (entry.job_id.as_str(), entry.route.as_str());
        let audit = AuditEvent {
            job_id: Some(id.into()),
            company_id: Some(entry.company.as_str().into()),
            user_id: entry.user_id.clone(),
            correlation_id: entry.correlation_id.clone(),
            ..AuditEvent::claim(id, route, AuditKind::PayloadRead, self.env.now())
        };
        self.record_read(audit.by(Some(actor))).await
    }

    /// Records that a page of dead letters is shown with their payloads: one record for all of them. `page` says how many
    /// were found, and where the page begins.
    pub async fn record_letters_read(
        &self,
        filter: &DeadLetterFilter,
        page: PageRequest,
        actor: &str,
    ) -> Result<()> {
        let from = page.before.map(|before| format!(" below place {before}")).unwrap_or_default();
        let words =
            counted(page.limit as u64, "dead letter", "dead letters") + " shown" + &from + &chosen_by(filter);
        let audit = about_entries(filter, "", AuditKind::PayloadRead, self.env.now());
        self.record_read(audit.reason(words).by(Some(actor))).await
    }

    /// Records that dead letters are exported with their payloads. How many there are is not known when it begins.
    pub async fn record_letters_export(
        &self,
        filter: &DeadLetterFilter,
        format: &str,
        actor: &str,
    ) -> Result<()> {
        let words = format!("Export as {format}{}", chosen_by(filter));
        let audit = about_entries(filter, "", AuditKind::DeadLettersExported, self.env.now());
        Ok(self.store.record(vec![audit.reason(words).by(Some(actor))]).await?)
    }

    /// Records that the audit records or jobs of one person are shown, if that is what the query asks for: a person is
    /// known by the same numbers as for an erasure.
    pub async fn record_person_read(&self, query: &Query, actor: &str) -> Result<()> {
        let Query { user, correlation, claim, job, company, .. } = query;
        if [user, correlation, claim, job].iter().all(|number| number.is_none()) {
            return Ok(());
        }
        let claim = claim.as_deref().unwrap_or_default();
        let audit = AuditEvent {
            job_id: job.clone(),
            company_id: company.clone(),
            user_id: user.clone(),
            correlation_id: correlation.clone(),
            ..AuditEvent::claim(claim, "", AuditKind::PersonalDataRead, self.env.now())
        };
        self.record_read(audit.by(Some(actor))).await
    }

    async fn record_read(&self, audit: AuditEvent) -> Result<()> {
        let now = audit.timestamp;
        let of = |part: &Option<Box<str>>| part.as_deref().unwrap_or_default().to_owned();
        let AuditEvent { actor, job_id, company_id, user_id, correlation_id, decision, .. } = &audit;
        let parts = [actor, job_id, company_id, user_id, correlation_id, &decision.retry_reason].map(of);
        let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        parts.extend([&*audit.claim_id, &*audit.route, audit.kind.as_str()]);
        let read = digest_of(&parts);
        if self.reads.is_covered(read, now) {
            return Ok(());
        }
        self.store.record(vec![audit]).await?;
        self.reads.remember(read, now);
        Ok(())
    }
}

/// The filter in words. A text that was searched for may name a person, so it is not repeated.
fn chosen_by(filter: &DeadLetterFilter) -> String {
    let mut words = Vec::new();
    let mut say = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    say("company", filter.company.as_ref().map(|company| company.as_str().to_owned()));
    say("route", filter.route.as_ref().map(|route| route.as_str().to_owned()));
    say("code", filter.last_failure_code.as_ref().map(ToString::to_string));
    say("fingerprint", filter.fingerprint.as_ref().map(ToString::to_string));
    say("a text", filter.reason.as_ref().map(|_| "in the reason".to_owned()));
    say("since", filter.since.map(|at| at.to_string()));
    say("until", filter.until.map(|at| at.to_string()));
    if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_covers_ten_minutes_and_memory_has_a_bound() {
        let (reads, now) = (Reads::default(), Timestamp::from_millis(1_000_000));
        reads.remember(1, now);
        assert!(reads.is_covered(1, now) && !reads.is_covered(2, now));
        assert!(!reads.is_covered(1, now.plus(SAME_READ)));
        assert!(!reads.is_covered(1, Timestamp::from_millis(999_999)), "the clock was set back");
        for read in 0..REMEMBERED_MAX as u128 + 10 {
            reads.remember(read, now);
            assert!(reads.is_covered(read, now));
        }
        assert!(reads.0.lock().len() <= REMEMBERED_MAX);
    }
}
