//! Callbacks and notices about a person's jobs: the copies of a person's numbers that Recado makes itself.
//!
//! A follow-up carries the `userId` and `correlationId` of the job it tells of, so it is found like that job. Those that
//! still have a payload are also found by what it says: earlier versions gave follow-ups no number, and a person may be
//! known by a job's id alone. A notice belongs to the operator and not to the person's company, so its payload decides
//! whose it is.
//!
//! Deliberately absent: what endpoints and channels were sent before.

use recado_audit::{Identity, Subject};
use recado_core::{CompanyId, DeadLetter, Event, JobId, Payload, Status, event};
use recado_store::{DeadLetterFilter, JobFilter, JobView, Page, PageRequest, StoreError};
use serde::Deserialize;
use serde_json::Value;

use crate::audit::AuditTrail;
use crate::error::Result;
use crate::notify::notices::NOTICES_COMPANY;

/// Jobs of a person, each with its status.
pub(super) type FoundJobs = Vec<(JobId, Status)>;

/// Jobs that are looked through at a time: they come with their payloads.
const PAGE_JOBS: usize = 100;

/// Statuses of jobs that hold their payload themselves; the payload of a dead job is in its dead letter.
const WITH_PAYLOAD: [Status; 4] = [Status::Scheduled, Status::Queued, Status::Retrying, Status::Delivering];

/// Returns true when the job tells of an event. No caller's job has such an id.
pub(super) fn is_follow_up(id: &JobId) -> bool {
    id.as_str().starts_with(event::ID_PREFIX)
}

/// The subject among the operator's own notices, which carry a person's numbers and no company of theirs.
pub(super) fn in_notices(subject: &Subject) -> Option<Subject> {
    let is_number = matches!(subject.identity, Identity::User(_) | Identity::Correlation(_));
    let elsewhere = subject.company.as_deref().is_some_and(|company| company != NOTICES_COMPANY);
    (is_number && elsewhere)
        .then(|| Subject { identity: subject.identity.clone(), company: Some(NOTICES_COMPANY.into()) })
}

impl AuditTrail {
    /// Every follow-up with a payload that tells of a person's jobs. One that is being replayed is there twice, as waiting
    /// first.
    pub(super) async fn follow_ups_about(&self, subject: &Subject) -> Result<FoundJobs> {
        let company = subject.company.as_deref().and_then(|name| CompanyId::new(name).ok());
        let notices = CompanyId::new(NOTICES_COMPANY).ok();
        let mut filters = vec![JobFilter { company: notices, ..JobFilter::default() }];
        if let Some(route) = self.notifier.callback_route.clone() {
            filters.push(JobFilter { company, route: Some(route), ..JobFilter::default() });
        }
        let mut found = Vec::new();
        for filter in filters {
            for status in WITH_PAYLOAD {
                let filter = JobFilter { status: Some(status), ..filter.clone() };
                let read = |page| self.store.jobs(filter.clone(), page, self.env.now());
                let follow_up = |view: JobView| {
                    let tells = is_follow_up(&view.job.id) && tells_of(&view.job.data, subject);
                    tells.then_some((view.job.id, view.status))
                };
                found.extend(found_on_pages(read, follow_up).await?);
            }
            let JobFilter { company, route, .. } = filter;
            let filter = DeadLetterFilter { company, route, ..DeadLetterFilter::default() };
            let read = |page| self.store.dead_letters(filter.clone(), page);
            let follow_up = |entry: DeadLetter| {
                let tells = is_follow_up(&entry.job_id) && tells_of(&entry.original_data, subject);
                tells.then_some((entry.job_id, Status::Failed))
            };
            found.extend(found_on_pages(read, follow_up).await?);
        }
        Ok(found)
    }
}

/// Reads all pages of a list, and keeps of each item what `pick` finds in it.
pub(super) async fn found_on_pages<T, F: Future<Output = Result<Page<T>, StoreError>>>(
    read: impl Fn(PageRequest) -> F,
    pick: impl Fn(T) -> Option<(JobId, Status)>,
) -> Result<FoundJobs, StoreError> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = read(PageRequest { before, limit: PAGE_JOBS }).await?;
        found.extend(page.items.into_iter().filter_map(&pick));
        before = page.next;
        if before.is_none() {
            return Ok(found);
        }
    }
}

/// The data of a follow-up: an event, or lines of text that were made of one.
#[derive(Deserialize)]
struct FollowUpData {
    payload: Option<Value>,
    text: Option<String>,
}

/// Returns true when a follow-up's data names the person, within their company.
pub(super) fn tells_of(data: &Payload, subject: &Subject) -> bool {
    let Ok(FollowUpData { payload, text }) = data.parse() else { return false };
    if let Some(event) = payload.and_then(|payload| serde_json::from_value::<Event>(payload).ok()) {
        return is_about(&event, subject);
    }
    let Some(text) = text else { return false };
    let says = |name: &str, value: &str| text.lines().any(|line| line == format!("{name}: {value}"));
    let (name, value) = named(&subject.identity);
    says(name, value) && subject.company.as_deref().is_none_or(|company| says("companyId", company))
}

/// Returns true when an event is about the person.
pub(super) fn is_about(event: &Event, subject: &Subject) -> bool {
    let number = match &subject.identity {
        Identity::User(_) => &event.data.job.user_id,
        Identity::Correlation(_) => &event.data.job.correlation_id,
        Identity::Claim(_) => &event.data.job.claim_id,
        Identity::Job(_) => &event.data.job.job_id,
    };
    let company = event.company_id.as_ref().map(CompanyId::as_str);
    number.as_deref() == Some(named(&subject.identity).1)
        && subject.company.as_deref().is_none_or(|wanted| company == Some(wanted))
}

fn named(identity: &Identity) -> (&'static str, &str) {
    match identity {
        Identity::User(id) => ("userId", id),
        Identity::Correlation(id) => ("correlationId", id),
        Identity::Claim(id) => ("claimId", id),
        Identity::Job(id) => ("jobId", id),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use recado_core::{EventData, EventJob, EventKind, RouteName, Timestamp};

    use super::*;
    use crate::notify::notices::{Channel, Notices, Shape};

    const NOW: Timestamp = Timestamp::from_millis(1_760_000_000_000);

    fn event() -> Event {
        let job = EventJob {
            job_id: Some("order-1".into()),
            claim_id: Some("order-1".into()),
            user_id: Some("u-81".into()),
            correlation_id: Some("visit-7".into()),
            ..EventJob::default()
        };
        let data = EventData { job, ..EventData::default() };
        Event::new(EventKind::JobFailed, Some(CompanyId::new("acme").unwrap()), &["order-1"], NOW, data)
    }

    /// The bodies for channels, as [`Notices`] writes them.
    fn notices() -> Vec<Payload> {
        let route = RouteName::new("out").unwrap();
        let endpoint = || "ops".into();
        let webhook = Channel::Webhook { route: route.clone(), endpoint: endpoint(), shape: Shape::Event };
        let email = Channel::Email { route, from: "r@example.com".into(), to: vec!["o@example.com".into()] };
        let channels = BTreeMap::from([("hook".into(), webhook), ("mail".into(), email)]);
        let notices = Notices { channels, default: None, alerts: Vec::new() };
        let notice = |name| notices.notice(Some(name), &event(), NOW, NOW).unwrap().data;
        ["hook", "mail"].map(notice).into()
    }

    #[test]
    fn every_notice_that_names_a_person_is_known_by_what_it_says() {
        let subject =
            |identity, company: Option<&str>| Subject { identity, company: company.map(Into::into) };
        for data in notices() {
            for identity in [
                Identity::User("u-81".into()),
                Identity::Correlation("visit-7".into()),
                Identity::Claim("order-1".into()),
                Identity::Job("order-1".into()),
            ] {
                for (company, theirs) in [(None, true), (Some("acme"), true), (Some("globex"), false)] {
                    let is = tells_of(&data, &subject(identity.clone(), company));
                    assert_eq!(is, theirs, "{identity:?} of {company:?} in {}", data.as_str());
                }
            }
            assert!(!tells_of(&data, &subject(Identity::User("u-8".into()), None)));
            assert!(!tells_of(&data, &subject(Identity::User("order-1".into()), None)));
        }
    }
}
