//! Settles leases.
//!
//! The new head of a job is computed here, from its head as it was when it was leased, and written by a script if the
//! lease is still current. That is safe because nothing but its holder changes a leased job's head. Heads of jobs that
//! were claimed here are cached; others are read first.
//!
//! The script settles all leases of a call, or none if one of them is stale, and then it is called again without those:
//! stale leases are rare, and a script that need not choose hands its arguments on as they came. A lease that is stale
//! stays so, so every call leaves fewer.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;
use recado_core::job::remember;
use recado_core::{CompanyId, DeadLetter, JobId, LeaseToken, RouteName, Timestamp, Transition};
use recado_store::{Settled, Settlement, StoreResult};

use crate::codec::dead_letter;
use crate::codec::keys::IdKey;
use crate::codec::receipt::receipt_of;
use crate::codec::record::{Phase, Record, decode_or_report, json};
use crate::codec::token::{Token, fence_arg};
use crate::link::{ScriptCall, unexpected};
use crate::store::RedisStore;
use crate::verbs::batcher::{BatchItem, Batcher};
use crate::verbs::enqueue::push_new_job;

/// Settlements at most in one call: no other client is served while a script runs.
const CALL_SETTLEMENTS_MAX: usize = 200;

/// Bytes of what follows at most in one call, unless one settlement has more.
const CALL_BYTES_MAX: usize = 1 << 20;

/// The place of a job after its settlement, by the letter that `settle.lua` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Destination {
    Ended = b'e',
    Waiting = b'w',
    DeadLetters = b'b',
}

/// Most heads in the cache. Leases that are settled elsewhere or never leave theirs behind; a full cache is emptied, and
/// heads are read again where they are needed.
const HEADS_MAX: usize = 100_000;

/// Cache of the heads of jobs that this process has leased, as they are stored.
#[derive(Debug, Default)]
pub struct HeadCache(Mutex<HashMap<LeaseToken, Vec<u8>>>);

impl HeadCache {
    pub fn insert(&self, leased: impl Iterator<Item = (LeaseToken, Vec<u8>)>) {
        let mut heads = self.0.lock();
        if heads.len() >= HEADS_MAX {
            heads.clear();
        }
        heads.extend(leased);
    }

    /// The head of each of these leases, where it is known.
    fn get_all(&self, tokens: impl Iterator<Item = LeaseToken>) -> Vec<Option<Vec<u8>>> {
        let heads = self.0.lock();
        tokens.map(|token| heads.get(&token).cloned()).collect()
    }

    fn remove(&self, tokens: impl IntoIterator<Item = LeaseToken>) {
        let mut heads = self.0.lock();
        for token in tokens {
            heads.remove(&token);
        }
    }
}

/// A settlement of a lease that may be current.
#[derive(Clone, Copy)]
struct PossibleSettlement<'a> {
    /// Its place among those that were asked for.
    at: usize,
    token: Token,
    settlement: &'a Settlement,
}

/// A settlement with its effects.
struct PlannedSettlement<'a> {
    of: PossibleSettlement<'a>,
    /// Route and company of the job.
    owner: (RouteName, CompanyId),
    destination: Destination,
    /// The job's head from now on.
    head: Vec<u8>,
    /// The audit record in stored form.
    audit: Vec<u8>,
    letter: Option<Vec<u8>>,
}

impl<'a> PossibleSettlement<'a> {
    /// The audit record as it is stored, empty if there is none.
    fn stored_audit(&self) -> StoreResult<Vec<u8>> {
        Ok(self.settlement.audit.as_ref().map(json).transpose()?.unwrap_or_default())
    }

    /// Computes the effects on the job.
    fn plan(self, mut record: Record) -> StoreResult<PlannedSettlement<'a>> {
        let audit = self.stored_audit()?;
        let (destination, letter) = apply_transition(&mut record, self.settlement)?;
        record.receipt = Some(receipt_of(self.token, self.settlement, &audit)?);
        let head = record.encode()?;
        let owner = (record.job.route, record.job.company);
        Ok(PlannedSettlement { of: self, owner, destination, head, audit, letter })
    }
}

impl PlannedSettlement<'_> {
    /// The values that it shares with those that the script settles in one group.
    fn group(&self) -> (u64, Destination, Timestamp) {
        (self.of.token.fence, self.destination, self.of.settlement.now)
    }
}

impl BatchItem for Settlement {
    type Answer = Settled;
    const COUNT_MAX: usize = CALL_SETTLEMENTS_MAX;
    const BYTES_MAX: usize = CALL_BYTES_MAX;

    fn bytes(&self) -> usize {
        self.follow_ups.iter().map(|new| new.data.as_str().len()).sum()
    }

    fn partition(&self, store: &RedisStore) -> u16 {
        // A token of no lease needs none.
        store.read_token(self.token).map_or(0, |token| token.partition)
    }

    fn homes<'a>(&'a self, store: &'a RedisStore) -> impl Iterator<Item = u16> + 'a {
        self.follow_ups.iter().map(|new| store.home_of(&IdKey::of(&new.id)))
    }

    fn batcher(store: &RedisStore) -> &Batcher<Self> {
        &store.settles
    }

    async fn run_batch(
        store: &RedisStore,
        partition: u16,
        settlements: &[Self],
    ) -> StoreResult<Vec<Settled>> {
        let mut answers = vec![Settled::Stale; settlements.len()];
        let possible = settlements.iter().enumerate().filter_map(|(at, settlement)| {
            let token = store.read_token(settlement.token)?;
            Some(PossibleSettlement { at, token, settlement })
        });
        for some in possible.collect::<Vec<_>>().chunks(CALL_SETTLEMENTS_MAX) {
            let planned = store.plan_settlements(partition, some).await?;
            for at in store.run_settlements(partition, planned).await? {
                answers[at] = Settled::Done;
            }
            let stale = some.iter().filter(|step| answers[step.at] == Settled::Stale).copied().collect();
            for at in store.settled_before(partition, stale).await? {
                answers[at] = Settled::Done;
            }
        }
        Ok(answers)
    }
}

impl RedisStore {
    /// Finds the settlements that were carried out before, word for word: their answer was lost.
    async fn settled_before(
        &self,
        partition: u16,
        stale: Vec<PossibleSettlement<'_>>,
    ) -> StoreResult<Vec<usize>> {
        if stale.is_empty() {
            return Ok(Vec::new());
        }
        let seqs: Vec<u64> = stale.iter().map(|step| step.token.seq).collect();
        let found = self.pick(partition, &seqs).await?;
        let mut before = Vec::new();
        for (step, found) in stale.into_iter().zip(found) {
            let Some(found) = found else { continue };
            let receipt = receipt_of(step.token, step.settlement, &step.stored_audit()?)?;
            let record = decode_or_report(&found.head, partition, step.token.seq);
            if record.is_some_and(|record| record.receipt == Some(receipt)) {
                before.push(step.at);
            }
        }
        Ok(before)
    }

    /// Plans the settlements whose lease may be current.
    async fn plan_settlements<'a>(
        &self,
        partition: u16,
        possible: &[PossibleSettlement<'a>],
    ) -> StoreResult<Vec<PlannedSettlement<'a>>> {
        let mut heads = self.heads.get_all(possible.iter().map(|step| step.settlement.token));
        let absent: Vec<usize> = (0..possible.len()).filter(|nth| heads[*nth].is_none()).collect();
        if !absent.is_empty() {
            let mut call = self.call(&self.scripts.heads, partition);
            for nth in &absent {
                call.arg(possible[*nth].token);
            }
            let found: Vec<Option<Vec<u8>>> = self.run(&call).await?;
            for (nth, head) in absent.into_iter().zip(found) {
                heads[nth] = head;
            }
        }
        let mut planned = Vec::with_capacity(possible.len());
        for (step, head) in possible.iter().zip(heads) {
            // One that cannot be read stays leased until its time is up, and holds up none of the others.
            let record = head.and_then(|head| decode_or_report(&head, partition, step.token.seq));
            let Some(record) = record else { continue };
            planned.push(step.plan(record)?);
        }
        Ok(planned)
    }

    /// Runs planned settlements. Returns the places of those that are done.
    async fn run_settlements(
        &self,
        partition: u16,
        mut planned: Vec<PlannedSettlement<'_>>,
    ) -> StoreResult<Vec<usize>> {
        // Of two settlements of one lease the second finds it ended.
        let mut tokens = HashSet::with_capacity(planned.len());
        planned.retain(|step| tokens.insert(step.of.settlement.token));
        let follow_ups = planned.iter().flat_map(|step| &step.of.settlement.follow_ups);
        let refused = self.reserve(partition, follow_ups.map(|new| &new.id)).await?;
        while !planned.is_empty() {
            let call = self.settle_call(partition, &planned, &refused)?;
            let are_current: Vec<bool> = self.run(&call).await?;
            if are_current.len() != planned.len() {
                return Err(unexpected());
            }
            if are_current.iter().all(|is_current| *is_current) {
                break;
            }
            let mut are_current = are_current.into_iter();
            planned.retain(|step| {
                let is_current = are_current.next().unwrap_or_default();
                if !is_current {
                    self.heads.remove([step.of.settlement.token]);
                }
                is_current
            });
        }
        self.heads.remove(planned.iter().map(|step| step.of.settlement.token));
        let waiting = planned.iter().filter(|step| step.destination == Destination::Waiting);
        let follow_ups = planned.iter().flat_map(|step| &step.of.settlement.follow_ups);
        let routes = waiting.map(|step| &step.owner.0).chain(follow_ups.map(|new| &new.route));
        self.wakeups.announce(&self.link, routes);
        Ok(planned.iter().map(|step| step.of.at).collect())
    }

    /// The call that settles all of these, with the jobs that follow but for those whose id is refused.
    fn settle_call(
        &self,
        partition: u16,
        planned: &[PlannedSettlement<'_>],
        refused: &HashSet<JobId>,
    ) -> StoreResult<ScriptCall<'_>> {
        let mut call = self.call(&self.scripts.settle, partition);
        let floor_at = planned.first().map_or(Timestamp::from_millis(0), |first| first.of.settlement.now);
        call.arg(self.floor(floor_at, 0)).arg(planned.len());
        for step in planned {
            call.arg(step.of.token.seq);
        }
        push_groups(planned, &mut call);
        let key = &mut self.roots[usize::from(partition)].key("job:");
        let prefix_bytes = key.len();
        for step in planned {
            key.truncate(prefix_bytes);
            key.extend_from_slice(step.of.token.seq.to_string().as_bytes());
            call.arg(&*key).arg(&step.head);
        }
        push_records(planned, &mut call);
        for letter in planned.iter().filter_map(|step| step.letter.as_ref()) {
            call.arg(letter);
        }
        push_owners(planned, &mut call);
        let follow_ups = planned.iter().flat_map(|step| &step.of.settlement.follow_ups);
        for new in follow_ups.filter(|new| !refused.contains(&new.id)) {
            push_new_job(new, &mut call)?;
        }
        Ok(call)
    }
}

/// Pushes what settlements in a row have in common. The script does much of its work once for such a group.
fn push_groups(planned: &[PlannedSettlement<'_>], call: &mut ScriptCall<'_>) {
    let groups = || planned.chunk_by(|one, next| one.group() == next.group());
    call.arg(groups().count());
    for group in groups() {
        let (fence, destination, now) = group[0].group();
        call.arg(fence_arg(fence)).arg(&[destination as u8]).arg(now.as_millis()).arg(group.len());
    }
}

/// Pushes the audit records, each after the number of its job.
fn push_records(planned: &[PlannedSettlement<'_>], call: &mut ScriptCall<'_>) {
    let recorded = || planned.iter().filter(|step| !step.audit.is_empty());
    call.arg(recorded().count());
    for step in recorded() {
        call.arg(step.of.token.seq).arg(&step.audit);
    }
}

/// Pushes the number of settled jobs of each tenant.
fn push_owners(planned: &[PlannedSettlement<'_>], call: &mut ScriptCall<'_>) {
    let mut owners: BTreeMap<&(RouteName, CompanyId), i64> = BTreeMap::new();
    for step in planned {
        *owners.entry(&step.owner).or_default() += 1;
    }
    call.arg(owners.len());
    for ((route, company), count) in owners {
        call.arg(route.as_str()).arg(company.as_str()).arg(count);
    }
}

/// Applies a transition to the head. Returns the job's destination, and its dead letter, if it becomes one.
fn apply_transition(
    record: &mut Record,
    settlement: &Settlement,
) -> StoreResult<(Destination, Option<Vec<u8>>)> {
    let transition = &settlement.transition;
    record.job.progress = transition.step(record.job.progress);
    if let Transition::Bury(burial) = transition {
        let entry = DeadLetter::new(record.job.clone(), None, burial.clone());
        let letter = dead_letter::encode(&entry)?;
        record.job.attempts = entry.attempts;
        record.phase = Phase::Dead;
        return Ok((Destination::DeadLetters, Some(letter)));
    }
    if let Some(attempt) = transition.attempt() {
        remember(&mut record.job.attempts, attempt.clone());
    }
    let destination = match transition {
        Transition::Deliver { answer, .. } => {
            record.end(Phase::Sent, settlement.now, answer.clone());
            Destination::Ended
        }
        Transition::RetryAt { at: due, .. }
        | Transition::Postpone { until: due }
        | Transition::Release { at: due, .. } => {
            record.job.due_at = *due;
            Destination::Waiting
        }
        Transition::Bury(_) => Destination::DeadLetters,
    };
    Ok((destination, None))
}
