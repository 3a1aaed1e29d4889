//! Claims jobs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use parking_lot::Mutex;
use recado_core::{Job, Lease, LeaseToken, LostLease, Random, RouteName, Timestamp};
use recado_store::{Claim, Claimed, Pick, StoreError, StoreResult};
use redis::Value;

use crate::codec::record::{decode_or_report, unpack_entry};
use crate::codec::token::{Token, fence_arg};
use crate::link::{Data, ScriptCall, read, unexpected};
use crate::store::RedisStore;
use crate::verbs::read_ahead::{Entries, NumberRange, ReadAhead, read_command};

/// Claims without an answer that are remembered at most.
const UNANSWERED_MAX: usize = 1_000;

/// Jobs at most in one call: no other client is served while a script runs, and each may be large.
const CALL_JOBS_MAX: usize = 256;

/// State that claims share.
#[derive(Debug, Default)]
pub struct Claims {
    /// Requests whose answer was lost: the next claim for the same repeats one, and gets the same leases, if they were
    /// granted.
    unanswered: Mutex<Vec<ClaimRequest>>,
    /// Counts claims, so that each begins with another partition.
    rotation: AtomicUsize,
    /// Tenants with a job that was due, of each partition, when a route was last claimed from.
    tenants: Mutex<HashMap<RouteName, Vec<u64>>>,
    read_ahead: ReadAhead,
}

#[derive(Debug, Clone)]
struct ClaimRequest {
    pick: Pick,
    partition: u16,
    fence: u64,
    /// Counts repetitions: an older try that arrives late must not undo what a newer one was granted.
    tries: i64,
}

/// A request in flight. It is not repeated before it is known to have no answer.
struct RequestInFlight<'a> {
    claims: &'a Claims,
    request: Option<ClaimRequest>,
}

impl Claims {
    /// Repeats a request that had no answer, or makes a new one.
    fn next_request(&self, pick: &Pick, partition: u16, random: &Random) -> RequestInFlight<'_> {
        let mut unanswered = self.unanswered.lock();
        let before = unanswered.iter().position(|other| other.pick == *pick && other.partition == partition);
        let request = match before.map(|at| unanswered.swap_remove(at)) {
            Some(before) => ClaimRequest { tries: before.tries + 1, ..before },
            None => ClaimRequest { pick: pick.clone(), partition, fence: random.next_u64(), tries: 0 },
        };
        RequestInFlight { claims: self, request: Some(request) }
    }
}

/// A caller that stops waiting has had no answer either.
impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        let mut unanswered = self.claims.unanswered.lock();
        if unanswered.len() < UNANSWERED_MAX {
            unanswered.extend(self.request.take());
        }
    }
}

/// The answer of one partition.
struct Granted {
    claimed: Claimed,
    tenants: u64,
}

impl RedisStore {
    pub(crate) async fn claim_jobs(&self, mut claim: Claim) -> StoreResult<Claimed> {
        if self.has_one_partition() {
            let max = claim.max;
            return self.claim_from(&mut claim, 0, max).await.map(|granted| granted.claimed);
        }
        let mut all = Claimed::default();
        let mut next_at = BTreeMap::new();
        let mut asked = self.shares(&claim);
        // First each partition's share; then those that gave all of it are asked for what others left of theirs.
        while !asked.is_empty() && all.leases.len() < claim.max {
            let mut asked_now = within(claim.max - all.leases.len(), &asked);
            if !may_be_asked_at_once(&claim) {
                asked_now.truncate(1);
            }
            let answers = join_all(asked_now.iter().map(|(partition, wanted)| {
                let mut claim = claim.clone();
                async move { self.claim_from(&mut claim, *partition, *wanted).await }
            }))
            .await;
            let (mut had_more, mut failed) = (Vec::new(), None);
            for ((partition, wanted), granted) in asked_now.into_iter().zip(answers) {
                let granted = match granted {
                    Ok(granted) => granted,
                    Err(error) => {
                        failed = Some(error);
                        continue;
                    }
                };
                asked.retain(|(other, _)| *other != partition);
                if granted.claimed.leases.len() == wanted {
                    had_more.push((partition, usize::MAX));
                }
                self.remember_tenants(&claim.pick, partition, granted.tenants);
                spend_quotas(&mut claim, &granted.claimed);
                all.leases.extend(granted.claimed.leases);
                // What a partition said before it was asked again is out of date.
                next_at.insert(partition, granted.claimed.next_at);
                all.next_at = next_at.values().copied().flatten().min();
            }
            // What the others gave is the caller's; the rest is claimed again later.
            match failed {
                Some(error) if all.leases.is_empty() => return Err(error),
                Some(_) => return Ok(all),
                None => asked.extend(had_more),
            }
        }
        Ok(all)
    }

    /// The partitions in rotation, each with its share of the claim: by how many tenants wait there.
    fn shares(&self, claim: &Claim) -> Vec<(u16, usize)> {
        let count = self.partition_count() as usize;
        let first = self.claims.rotation.fetch_add(1, Ordering::Relaxed);
        let tenants = match &claim.pick {
            Pick::Ready(route) => self.claims.tenants.lock().get(route).cloned(),
            Pick::Overdue | Pick::Orphaned => None,
        };
        let tenants = tenants.unwrap_or_else(|| vec![1; count]);
        let total = tenants.iter().map(|tenants| tenants.max(&1)).sum::<u64>();
        let share = |partition: usize| {
            let share = (claim.max as u64).saturating_mul(tenants[partition].max(1)).div_ceil(total);
            (partition as u16, usize::try_from(share).unwrap_or(usize::MAX))
        };
        (0..count).map(|nth| share((first + nth) % count)).collect()
    }

    fn remember_tenants(&self, pick: &Pick, partition: u16, tenants: u64) {
        if let Pick::Ready(route) = pick {
            let mut known = self.claims.tenants.lock();
            let of_route =
                known.entry(route.clone()).or_insert_with(|| vec![1; self.partition_count() as usize]);
            of_route[usize::from(partition)] = tenants;
        }
    }

    async fn claim_from(&self, claim: &mut Claim, partition: u16, max: usize) -> StoreResult<Granted> {
        let mut all = Granted { claimed: Claimed::default(), tenants: 0 };
        loop {
            let wanted = (max - all.claimed.leases.len()).min(CALL_JOBS_MAX);
            let Granted { claimed, tenants } = match self.claim_call(claim, partition, wanted).await {
                // The leases of the calls before are the caller's; the rest is claimed again later.
                Err(_) if !all.claimed.leases.is_empty() => return Ok(all),
                granted => granted?,
            };
            let came = claimed.leases.len();
            spend_quotas(claim, &claimed);
            all.claimed.leases.extend(claimed.leases);
            all.claimed.next_at = claimed.next_at;
            all.tenants = tenants;
            if came < CALL_JOBS_MAX || all.claimed.leases.len() == max {
                return Ok(all);
            }
        }
    }

    async fn claim_call(&self, claim: &Claim, partition: u16, max: usize) -> StoreResult<Granted> {
        if claim.pick != Pick::Orphaned {
            return self.send_repeatable(claim, partition, max).await;
        }
        let lease = claim.lease_until.since(claim.now);
        let granted = if self.orphan_grace.is_over(partition, lease) {
            self.send_repeatable(claim, partition, max).await?
        } else {
            // Claims nothing, so its answer need not be known.
            self.run_claim(self.random.next_u64(), 0, claim, partition, 0).await?
        };
        self.orphan_grace.record_answer(partition, lease);
        Ok(granted)
    }

    /// Sends a request. If its answer is lost, the next claim for the same repeats it.
    async fn send_repeatable(&self, claim: &Claim, partition: u16, max: usize) -> StoreResult<Granted> {
        let mut in_flight = self.claims.next_request(&claim.pick, partition, &self.random);
        let Some(ClaimRequest { fence, tries, .. }) = in_flight.request else { return Err(unexpected()) };
        let granted = self.run_claim(fence, tries, claim, partition, max).await;
        if !matches!(granted, Err(StoreError::Unavailable(_))) {
            in_flight.request = None;
        }
        granted
    }

    async fn run_claim(
        &self,
        fence: u64,
        tries: i64,
        claim: &Claim,
        partition: u16,
        max: usize,
    ) -> StoreResult<Granted> {
        let (pick, route) = match &claim.pick {
            Pick::Ready(route) => ("ready", route.as_str()),
            Pick::Overdue => ("overdue", ""),
            Pick::Orphaned => ("orphaned", ""),
        };
        let holder = Holder::text(&claim.worker, claim.provider.as_deref());
        let ahead = match &claim.pick {
            Pick::Ready(route) => self.claims.read_ahead.guess(route, partition, max),
            Pick::Overdue | Pick::Orphaned => None,
        };
        let mut call = self.call(&self.scripts.claim, partition);
        call.arg(fence_arg(fence)).arg(tries).arg(pick).arg(max);
        call.arg(claim.now.as_millis()).arg(claim.lease_until.as_millis()).arg(holder).arg(route);
        push_terms(claim, ahead, &mut call);
        let (answer, entries) = match ahead {
            Some(range) => {
                let root = &self.roots[usize::from(partition)];
                self.run_and_read(&call, &read_command(root, range, max)).await?
            }
            None => (self.run(&call).await?, None),
        };
        let (next_at, tenants, jobs, taken_over): ClaimAnswer = answer;
        if let Pick::Ready(route) = &claim.pick {
            let numbers: Vec<u64> = jobs.iter().map(|(seq, _)| *seq).collect();
            self.claims.read_ahead.learn(route, partition, max, &numbers);
        }
        let jobs = self.values_of(partition, jobs, entries.map(Entries::of).unwrap_or_default()).await?;
        let mut taken_over = taken_over.into_iter();
        let (mut leases, mut heads) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for (seq, value) in jobs {
            let before = taken_over.next();
            let Some((head, Data(data))) = value else { continue };
            // One that cannot be read stays leased until its time is up, and nothing of it goes out.
            let Some(record) = decode_or_report(&head, partition, seq) else { continue };
            let token = Token { partition, seq, fence }.into();
            heads.push((token, head));
            leases.push(lease_of(token, Job { data, ..record.job }, before, claim));
        }
        self.heads.insert(heads.into_iter());
        let next_at = next_at.map(Timestamp::from_millis);
        Ok(Granted { claimed: Claimed { next_at, leases }, tenants })
    }
}

/// The time that brings more by itself, the tenants with a job that is due, the jobs, and the last leases of those taken over.
type ClaimAnswer = (Option<i64>, u64, Vec<(u64, Value)>, Vec<(i64, String)>);

/// Head and data of a job; nothing if it is gone or damaged.
type JobValue = Option<(Vec<u8>, Data)>;

impl RedisStore {
    /// Head and data of each job of a claim's answer, as `claim.lua` gives them.
    async fn values_of(
        &self,
        partition: u16,
        jobs: Vec<(u64, Value)>,
        mut entries: Entries,
    ) -> StoreResult<Vec<(u64, JobValue)>> {
        let mut values = Vec::with_capacity(jobs.len());
        let mut unread = Vec::new();
        for (seq, value) in jobs {
            let packed = match value {
                Value::Nil => entries.take(seq),
                Value::BulkString(packed) => Some(packed),
                pair => {
                    values.push((seq, read(pair)?));
                    continue;
                }
            };
            if packed.is_none() {
                unread.push(values.len());
            }
            let parts = packed.as_deref().and_then(unpack_entry);
            values.push((seq, parts.map(|(head, data)| (head.to_vec(), Data::of(data)))));
        }
        let seqs: Vec<u64> = unread.iter().map(|at| values[*at].0).collect();
        let found = if seqs.is_empty() { Vec::new() } else { self.pick(partition, &seqs).await? };
        for (at, found) in unread.into_iter().zip(found) {
            values[at].1 = found.map(|found| (found.head, Data(found.data)));
        }
        Ok(values)
    }
}

/// Returns true if no partition needs to know what another one gave. A tenant's jobs may be in several, because follow-ups
/// stay with the job that they follow. So a quota of which something is left is spent in one partition after the other.
fn may_be_asked_at_once(claim: &Claim) -> bool {
    claim.turns.quota.values().all(|left| *left == 0)
}

/// The shares of a claim, cut so that all together are not more than `max`. A partition whose share is cut to nothing is
/// not asked.
fn within(max: usize, shares: &[(u16, usize)]) -> Vec<(u16, usize)> {
    let mut left = max;
    let cut = shares.iter().map(|(partition, share)| {
        let share = (*share).min(left);
        left -= share;
        (*partition, share)
    });
    cut.filter(|(_, share)| *share > 0).collect()
}

/// The holder of a lease, as the scripts keep it: the worker, a zero byte, and the provider that the lease was claimed for.
/// Leases that older versions wrote have the worker alone.
pub(crate) struct Holder {
    pub worker: Box<str>,
    pub provider: Option<Box<str>>,
}

impl Holder {
    fn text(worker: &str, provider: Option<&str>) -> String {
        format!("{worker}\0{}", provider.unwrap_or_default())
    }

    pub(crate) fn of(text: &str) -> Holder {
        let (worker, provider) = text.rsplit_once('\0').unwrap_or((text, ""));
        Holder { worker: worker.into(), provider: (!provider.is_empty()).then(|| provider.into()) }
    }
}

fn lease_of(token: LeaseToken, job: Job, taken_over: Option<(i64, String)>, claim: &Claim) -> Lease {
    // A head does not change while its job is leased, so the attempt of a lease that ran out has this number, too.
    let attempt = job.progress.attempts_started + 1;
    let lost = taken_over.map(|(since, by)| {
        let Holder { worker, provider } = Holder::of(&by);
        LostLease { attempt, claimed_at: Timestamp::from_millis(since), worker, provider }
    });
    Lease { token, attempt, claimed_at: claim.now, expires_at: claim.lease_until, job, lost }
}

/// Subtracts what each tenant got from its quota.
fn spend_quotas(claim: &mut Claim, granted: &Claimed) {
    if claim.turns.quota.is_empty() || granted.leases.is_empty() {
        return;
    }
    let mut quota = (*claim.turns.quota).clone();
    for lease in &granted.leases {
        if let Some(left) = quota.get_mut(&lease.job.company) {
            *left = left.saturating_sub(1);
        }
    }
    claim.turns.quota = Arc::new(quota);
}

/// Pushes how tenants share the claim: the usual turn, the jobs that are read ahead, and the tenants that have terms of
/// their own.
fn push_terms(claim: &Claim, ahead: Option<NumberRange>, call: &mut ScriptCall<'_>) {
    let turns = &claim.turns;
    let usual = if turns.batch == 0 { recado_core::fairness::TURN_JOBS } else { turns.batch };
    let NumberRange { from, to } = ahead.unwrap_or(NumberRange { from: 0, to: 0 });
    call.arg(usual).arg(from).arg(to);
    if !matches!(claim.pick, Pick::Ready(_)) {
        return;
    }
    let only_weighted = turns.weights.keys().filter(|company| !turns.quota.contains_key(*company));
    for company in turns.quota.keys().chain(only_weighted) {
        call.arg(company.as_str()).arg(turns.jobs_of(company)).arg(turns.quota_of(company));
    }
}
