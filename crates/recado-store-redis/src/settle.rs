//! Ending leases.
//!
//! What becomes of a job is worked out here, from its head as it was when it was leased, and written by a script if
//! the lease is still current. That is safe because nothing but its holder changes a leased job's head. Heads of
//! jobs that were claimed here are at hand; others are read first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;

use parking_lot::Mutex;
use recado_core::job::remember;
use recado_core::{CompanyId, DeadLetter, LeaseToken, NewJob, RouteName, Timestamp, Transition};
use recado_store::{Settled, Settlement, StoreError};
use siphasher::sip::SipHasher13;

use crate::answer::{Answer, unexpected};
use crate::batcher::{Asked, Line};
use crate::dead_letter;
use crate::enqueue::intake;
use crate::keys::IdKey;
use crate::link::Arg;
use crate::record::{Ending, Phase, Receipt, Record, json};
use crate::store::RedisStore;
use crate::token::{Token, fence_arg};

/// Settlements at most in one call: no other client is served while a script runs.
const CALL_SETTLEMENTS_MAX: usize = 200;

/// Bytes of what follows at most in one call, unless one settlement has more.
const CALL_BYTES_MAX: usize = 1 << 20;

/// What becomes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ends,
    Waits,
    IsBuried,
}

impl Fate {
    /// As `settle.lua` reads it.
    fn code(self) -> &'static str {
        match self {
            Fate::Ends => "e",
            Fate::Waits => "w",
            Fate::IsBuried => "b",
        }
    }
}

/// Heads kept at hand at most. Leases that are settled elsewhere or never leave theirs behind; then all are dropped,
/// and read again where they are needed.
const HEADS_MAX: usize = 100_000;

/// Heads of jobs that this process has leased, as they are written.
#[derive(Debug, Default)]
pub struct Heads(Mutex<HashMap<LeaseToken, Vec<u8>>>);

impl Heads {
    pub fn keep(&self, token: LeaseToken, head: Vec<u8>) {
        let mut heads = self.0.lock();
        if heads.len() >= HEADS_MAX {
            heads.clear();
        }
        heads.insert(token, head);
    }

    fn get(&self, token: LeaseToken) -> Option<Vec<u8>> {
        self.0.lock().get(&token).cloned()
    }

    fn forget(&self, token: LeaseToken) {
        self.0.lock().remove(&token);
    }
}

/// A settlement of a lease that may be current.
struct Step<'a> {
    /// Its place among those that were asked for.
    at: usize,
    token: Token,
    settlement: &'a Settlement,
    /// Whose job it is.
    owner: (RouteName, CompanyId),
    fate: Fate,
    /// The job's head from now on.
    head: Vec<u8>,
    /// What is put on record, empty if nothing is.
    audit: Vec<u8>,
    letter: Option<Vec<u8>>,
}

impl Step<'_> {
    /// What it has in common with those that the script settles together with it.
    fn group(&self) -> (u64, Fate, Timestamp) {
        (self.token.fence, self.fate, self.settlement.now)
    }
}

impl Asked for Settlement {
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

    fn line(store: &RedisStore) -> &Line<Self> {
        &store.settles
    }

    async fn carry_out(store: &RedisStore, settlements: &[Self]) -> Result<Vec<Settled>, StoreError> {
        store.settle_leases(settlements).await
    }
}

impl RedisStore {
    async fn settle_leases(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut answers = vec![Settled::Stale; settlements.len()];
        let tokens = settlements.iter().map(|settlement| self.read_token(settlement.token));
        for (partition, known) in self.by_partition(tokens) {
            for some in known.chunks(CALL_SETTLEMENTS_MAX) {
                let steps = self.steps(partition, some, settlements).await?;
                for (at, settled) in self.settle_some(partition, &steps).await? {
                    answers[at] = settled;
                }
                let stale = some.iter().filter(|(at, _)| answers[*at] == Settled::Stale).copied().collect();
                for at in self.settled_before(partition, stale, settlements).await? {
                    answers[at] = Settled::Done;
                }
            }
        }
        Ok(answers)
    }

    /// Those of these that were carried out before, word for word: their answer was lost.
    async fn settled_before(
        &self,
        partition: u16,
        stale: Vec<(usize, Token)>,
        settlements: &[Settlement],
    ) -> Result<Vec<usize>, StoreError> {
        if stale.is_empty() {
            return Ok(Vec::new());
        }
        let seqs = stale.iter().map(|(_, token)| token.seq).collect::<Vec<_>>();
        let found = self.pick(partition, &seqs).await?;
        let mut before = Vec::new();
        for ((at, token), found) in stale.into_iter().zip(found) {
            let Some(found) = found else { continue };
            let audit = settlements[at].audit.as_ref().map(json).transpose()?.unwrap_or_default();
            if Record::decode(&found.head)?.receipt == Some(receipt(token, &settlements[at], &audit)) {
                before.push(at);
            }
        }
        Ok(before)
    }

    /// The settlements whose lease may be current, each with its job's head.
    async fn steps<'a>(
        &self,
        partition: u16,
        known: &[(usize, Token)],
        settlements: &'a [Settlement],
    ) -> Result<Vec<Step<'a>>, StoreError> {
        let mut heads: Vec<Option<Vec<u8>>> =
            known.iter().map(|(at, _)| self.heads.get(settlements[*at].token)).collect();
        let absent: Vec<usize> = (0..known.len()).filter(|nth| heads[*nth].is_none()).collect();
        if !absent.is_empty() {
            let mut args = Vec::with_capacity(absent.len() * 2);
            for nth in &absent {
                known[*nth].1.push(&mut args);
            }
            let found = self.run(&self.scripts.heads, partition, &args).await?.list()?;
            for (nth, head) in absent.into_iter().zip(found) {
                heads[nth] = head.there().map(Answer::bytes).transpose()?;
            }
        }
        let mut steps = Vec::with_capacity(known.len());
        for ((at, token), head) in known.iter().zip(heads) {
            let Some(head) = head else { continue };
            steps.push(step(*at, *token, &settlements[*at], Record::decode(&head)?)?);
        }
        Ok(steps)
    }

    async fn settle_some(
        &self,
        partition: u16,
        steps: &[Step<'_>],
    ) -> Result<Vec<(usize, Settled)>, StoreError> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        let follow_ups = steps.iter().flat_map(|step| &step.settlement.follow_ups);
        let refused = self.refused(partition, follow_ups.map(|new| &new.id)).await?;
        let mut args = Vec::with_capacity(16 + steps.len() * 3);
        args.push(Arg::Int(self.floor(first.settlement.now, 0)));
        push_groups(steps, &mut args);
        push_owners(steps, &mut args);
        for (nth, step) in (1..).zip(steps) {
            for new in step.settlement.follow_ups.iter().filter(|new| !refused.contains(&new.id)) {
                args.push(Arg::Int(nth));
                intake(new, &mut args)?;
            }
        }
        let answers = self.run(&self.scripts.settle, partition, &args).await?.list()?;
        if answers.len() != steps.len() {
            return Err(unexpected());
        }
        let (mut settled, mut routes) = (Vec::with_capacity(steps.len()), Vec::new());
        for (step, answer) in steps.iter().zip(answers) {
            self.heads.forget(step.settlement.token);
            let done = answer.yes()?;
            if done {
                if !matches!(step.settlement.transition, Transition::Deliver { .. } | Transition::Bury(_)) {
                    routes.push(&step.owner.0);
                }
                routes.extend(step.settlement.follow_ups.iter().map(|new| &new.route));
            }
            settled.push((step.at, if done { Settled::Done } else { Settled::Stale }));
        }
        self.bells.announce(&self.link, routes.into_iter());
        Ok(settled)
    }
}

/// Works out what a settlement makes of a job.
fn step<'a>(
    at: usize,
    token: Token,
    settlement: &'a Settlement,
    mut record: Record,
) -> Result<Step<'a>, StoreError> {
    let audit = settlement.audit.as_ref().map(json).transpose()?.unwrap_or_default();
    let (fate, letter) = execute(&mut record, settlement)?;
    record.receipt = Some(receipt(token, settlement, &audit));
    let head = record.encode()?;
    let owner = (record.job.route, record.job.company);
    Ok(Step { at, token, settlement, owner, fate, head, audit, letter })
}

/// Steps in a row that have the same in common go together: the script does much of its work once for all of them.
fn push_groups<'a>(steps: &'a [Step<'_>], args: &mut Vec<Arg<'a>>) {
    let groups = || steps.chunk_by(|one, next| one.group() == next.group());
    args.push(Arg::Int(groups().count() as i64));
    for group in groups() {
        let (fence, fate, now) = group[0].group();
        args.extend([fence_arg(fence), Arg::from(fate.code())]);
        args.extend([Arg::Int(now.as_millis()), Arg::Int(group.len() as i64)]);
        for Step { token, head, audit, letter, .. } in group {
            args.extend([Arg::Int(token.seq.cast_signed()), Arg::from(&**head), Arg::from(&**audit)]);
            args.extend(letter.as_deref().map(Arg::from));
        }
    }
}

/// How many jobs of each tenant are settled.
fn push_owners<'a>(steps: &'a [Step<'_>], args: &mut Vec<Arg<'a>>) {
    let mut owners: BTreeMap<&(RouteName, CompanyId), i64> = BTreeMap::new();
    for step in steps {
        *owners.entry(&step.owner).or_default() += 1;
    }
    args.push(Arg::Int(owners.len() as i64));
    for ((route, company), count) in owners {
        args.extend([Arg::from(route.as_str()), Arg::from(company.as_str()), Arg::Int(count)]);
    }
}

/// Carries a transition out on the head. Answers what becomes of the job, and its dead letter, if it is one.
fn execute(record: &mut Record, settlement: &Settlement) -> Result<(Fate, Option<Vec<u8>>), StoreError> {
    let transition = &settlement.transition;
    record.job.progress = transition.step(record.job.progress);
    if let Transition::Bury(burial) = transition {
        let entry = DeadLetter::new(record.job.clone(), None, burial.clone());
        let letter = dead_letter::encode(&entry)?;
        record.job.attempts = entry.attempts;
        record.phase = Phase::Dead;
        return Ok((Fate::IsBuried, Some(letter)));
    }
    if let Some(attempt) = transition.attempt() {
        remember(&mut record.job.attempts, attempt.clone());
    }
    let fate = match transition {
        Transition::Deliver { answer, .. } => {
            record.end(Ending::Sent, settlement.now, answer.clone());
            Fate::Ends
        }
        Transition::RetryAt { at: due, .. }
        | Transition::Postpone { until: due }
        | Transition::Release { at: due, .. } => {
            record.reschedule(*due);
            Fate::Waits
        }
        Transition::Bury(_) => Fate::IsBuried,
    };
    Ok((fate, None))
}

/// Tells a settlement from every other one of the same lease. `audit` is its record, as it is written.
fn receipt(token: Token, settlement: &Settlement, audit: &[u8]) -> Receipt {
    let mut hasher = SipHasher13::new();
    hasher.write(format!("{:?}", settlement.transition).as_bytes());
    if let Transition::Deliver { answer: Some(answer), .. } = &settlement.transition {
        hasher.write(answer.as_str().as_bytes());
    }
    hasher.write(audit);
    hasher.write_i64(settlement.now.as_millis());
    for NewJob { id, body_hash, .. } in &settlement.follow_ups {
        hasher.write(id.as_str().as_bytes());
        hasher.write_u128(body_hash.0);
    }
    Receipt { fence: token.fence, digest: hasher.finish() }
}
