//! Comparison with the reference when companies are in different partitions of a store.
//!
//! Each partition takes its own turns and has its own order, so the reference is made to follow the store in who
//! comes first, and lists are compared without their order. An id that is reserved for a partition by a step that
//! is then not taken stays reserved, so only steps that are sure to be taken bring jobs along.

use std::collections::{HashMap, HashSet};

use recado_core::{CompanyId, JobId};
use recado_store::reference::Candidate;
use recado_store::{Claim, Pick, TenantView};

use crate::suite::snapshot::Snapshot;

/// Asserts that as many jobs came as there are, up to what was asked for and each company may have, and no other.
pub fn assert_may_come(ids: &[JobId], candidates: &[Candidate], claim: &Claim, what: &str) {
    let may_come: HashSet<&JobId> = candidates.iter().map(|candidate| &candidate.id).collect();
    let came: HashSet<&JobId> = ids.iter().collect();
    assert_eq!(came.len(), ids.len(), "{what}: a job came twice: {ids:?}");
    assert!(came.is_subset(&may_come), "{what}: of {may_come:?} came {ids:?}");
    let mut of_company: HashMap<&CompanyId, usize> = HashMap::new();
    for candidate in candidates {
        *of_company.entry(&candidate.company).or_default() += 1;
    }
    let quota = |company: &CompanyId| match claim.pick {
        Pick::Ready(_) => claim.turns.quota_of(company) as usize,
        Pick::Overdue | Pick::Orphaned => usize::MAX,
    };
    let in_all: usize = of_company.iter().map(|(company, count)| (*count).min(quota(company))).sum();
    assert_eq!(ids.len(), claim.max.min(in_all), "{what}: of {candidates:?}");
}

/// Sorts a snapshot by id.
pub fn sorted(snapshot: Snapshot) -> Snapshot {
    let mut jobs: Vec<_> = snapshot.jobs.into_iter().zip(snapshot.audit).collect();
    jobs.sort_by(|(one, _), (other, _)| one.names.cmp(&other.names));
    let (jobs, audit) = jobs.into_iter().unzip();
    let (mut dead_letters, mut groups) = (snapshot.dead_letters, snapshot.groups);
    dead_letters.sort_by(|(one, _), (other, _)| one.job_id.cmp(&other.job_id));
    groups.sort_by(|one, other| one.key.cmp(&other.key));
    Snapshot { jobs, audit, dead_letters, groups, ..snapshot }
}

/// Route, company and how many of its jobs are due, later and leased, where it has any.
pub fn jobs_of(tenants: &[TenantView]) -> Vec<(&str, &str, [u64; 3])> {
    let of = |view: &'_ TenantView| [view.queued, view.delayed, view.leased];
    let with_jobs = tenants.iter().filter(|view| of(view) != [0; 3]);
    with_jobs.map(|view| (view.route.as_str(), view.company.as_str(), of(view))).collect()
}
