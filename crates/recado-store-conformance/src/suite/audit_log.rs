//! The trail of what was decided and done.

use recado_core::{AuditEvent, AuditKind, NewJob, Timestamp};
use recado_store::{AuditRecord, AuditSpan, AuditTrim, Retention};

use super::transfer::{elsewhere, given_by};
use crate::Home;
use crate::given::{DAY, HOUR, SECOND, Stage, T0, TestStore, act, bury, deliver, id, job, retry_at};

/// All records given to the archiver, part by part; numbers rise within each.
pub async fn on_record(store: &TestStore) -> Vec<AuditRecord> {
    let mut all = Vec::new();
    for part in 0..store.0.audit_parts() {
        let span = AuditSpan { part, after: 0, newest_first: false };
        let records = store.0.audit_records(span, 1_000).await.unwrap();
        assert!(records.windows(2).all(|two| two[0].number < two[1].number), "{records:?}");
        assert!(records.iter().all(|record| record.number > 0), "0 is before the first");
        all.extend(records);
    }
    all
}

/// The kinds on record, whichever part they are in.
async fn kinds_on_record(store: &TestStore) -> Vec<&'static str> {
    let mut kinds: Vec<_> = on_record(store).await.iter().map(|record| record.event.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds
}

async fn number_of(store: &TestStore, claim: &str, kind: AuditKind) -> u64 {
    let all = on_record(store).await;
    let found = all.iter().find(|record| *record.event.claim_id == *claim && record.event.kind == kind);
    found.unwrap_or_else(|| panic!("{kind:?} of {claim:?} is not among {all:?}")).number
}

/// Trims until nothing goes any more.
pub async fn trim(store: &TestStore, up_to: u64, before: Timestamp, forgotten_before: Timestamp) -> u64 {
    let mut gone = 0;
    for part in 0..store.0.audit_parts() {
        gone += trim_part(store, AuditTrim { part, up_to, before, forgotten_before }).await;
    }
    gone
}

async fn trim_part(store: &TestStore, trim: AuditTrim) -> u64 {
    let mut gone = 0;
    for _ in 0..1_000 {
        let batch = store.0.trim_audit(trim).await.unwrap();
        gone += batch;
        if batch == 0 {
            break;
        }
    }
    gone
}

/// Something newer, so that what is looked at is not the newest.
async fn go_on(store: &TestStore) {
    store
        .0
        .record(vec![AuditEvent::about_route("email", AuditKind::RoutePaused, T0.plus(DAY))])
        .await
        .unwrap();
}

pub async fn a_trail_tells_a_whole_life_in_order(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), NewJob { due_at: T0.plus(SECOND), ..job("other") }]).await;
    let lease = store.only(T0).await;
    store.done(&lease, retry_at(&lease, T0, T0), T0).await;
    let lease = store.only(T0).await;
    store.done(&lease, bury(&lease, Some("550"), "no", T0), T0).await;
    store.redrive("a", None, T0).await;
    let lease = store.only(T0).await;
    store.done(&lease, deliver(&lease, T0), T0).await;
    use AuditKind::{Buried, Delivered, Replayed, RetryScheduled};
    assert_eq!(store.audit_kinds("a").await, [RetryScheduled, Buried, Replayed, Delivered]);
    assert_eq!(store.audit_kinds("other").await, []);
}

pub async fn what_is_recorded_about_a_job_is_found_on_its_trail(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b")]).await;
    let about = |name: &str, reason: &str| act(name, AuditKind::ClaimRetry, T0).reason(reason.to_owned());
    let events = vec![about("a", "one"), about("b", "two"), about("a", "três")];
    store.0.record(events.clone()).await.unwrap();
    assert_eq!(
        store.0.audit(&id("a")).await.unwrap(),
        [events[0].clone(), events[2].clone()],
        "every field, in order"
    );
    assert_eq!(store.0.audit(&id("b")).await.unwrap(), [events[1].clone()]);
}

pub async fn a_record_about_no_job_is_taken_in_and_belongs_to_none(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("CLM-1")]).await;
    store
        .0
        .record(vec![AuditEvent::claim("CLM-1", "tiss-claims", AuditKind::ClaimRefused, T0)])
        .await
        .unwrap();
    store.0.record(vec![act("unknown", AuditKind::ClaimRetry, T0)]).await.unwrap();
    assert_eq!(store.audit_kinds("CLM-1").await, [], "a claim is not the job that happens to share its name");
    assert_eq!(store.audit_kinds("unknown").await, []);
}

pub async fn a_settlement_keeps_its_record_word_for_word(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let event = AuditEvent::about(&lease.job, AuditKind::RetryScheduled, T0)
        .attempt(1)
        .retry_count(1)
        .backoff(SECOND * 90, T0.plus(SECOND * 90))
        .reason("Retry 1 of 4: \"até já\"".to_owned());
    let transition = retry_at(&lease, T0.plus(SECOND * 90), T0);
    let settlement = recado_store::Settlement {
        token: lease.token,
        transition,
        audit: Some(event.clone()),
        now: T0,
        follow_ups: Vec::new(),
    };
    store.0.settle(vec![settlement]).await.unwrap();
    assert_eq!(store.0.audit(&id("a")).await.unwrap(), [event]);
}

pub async fn t14_the_archiver_reads_the_whole_trail_in_order(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    assert_eq!(on_record(&store).await, []);
    let refusal = |nth: usize| {
        AuditEvent::claim(&format!("CLM-{nth}"), "tiss-claims", AuditKind::ClaimRefused, T0)
            .reason("não".to_owned())
    };
    store.0.record((0..3).map(refusal).collect()).await.unwrap();
    store.0.record((3..5).map(refusal).collect()).await.unwrap();
    let all = on_record(&store).await;
    let events: Vec<_> = all.iter().map(|record| record.event.clone()).collect();
    assert_eq!(events, (0..5).map(refusal).collect::<Vec<_>>(), "every field, in order");
    let two = async |after, newest_first| {
        store.0.audit_records(AuditSpan { part: 0, after, newest_first }, 2).await.unwrap()
    };
    assert_eq!(two(all[1].number, false).await, all[2..4]);
    assert_eq!(two(all[1].number, true).await, [all[4].clone(), all[3].clone()]);
    assert_eq!(two(all[4].number, false).await, []);
    assert_eq!(two(u64::MAX, false).await, [], "a place out of this world is answered and not feared");

    store.bring("sent", Stage::Sent).await;
    store.0.record(vec![AuditEvent::about_provider("ses", AuditKind::ProviderPaused, T0)]).await.unwrap();
    store.bring("discarded", Stage::Discarded).await;
    let acts = ["BURIED", "CLAIM_REFUSED", "DELIVERED", "DISCARDED", "PROVIDER_PAUSED"];
    let mut kinds = kinds_on_record(&store).await;
    kinds.dedup();
    assert_eq!(kinds, acts, "about jobs, about claims and about neither");
    assert_eq!(on_record(&store).await.len(), 9);
    let (buried, discarded) = (AuditKind::Buried, AuditKind::Discarded);
    assert!(number_of(&store, "discarded", buried).await < number_of(&store, "discarded", discarded).await);
}

pub async fn only_what_is_archived_and_old_is_trimmed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    use AuditKind::{Cancelled, ClaimRetry, Replayed};
    for (hours, (name, kind)) in (0..).zip([("a", ClaimRetry), ("b", Replayed), ("c", Cancelled)]) {
        store.accept(vec![job(name)]).await;
        store.0.record(vec![act(name, kind, T0.plus(HOUR * hours))]).await.unwrap();
    }
    go_on(&store).await;
    let (of_b, of_c) = (number_of(&store, "b", Replayed).await, number_of(&store, "c", Cancelled).await);
    let last = of_b.max(of_c);
    let never = Timestamp::from_millis(0);
    assert_eq!(trim(&store, 0, Timestamp::MAX, Timestamp::MAX).await, 0, "nothing is archived");
    assert_eq!(trim(&store, last, T0.plus(HOUR), never).await, 1);
    assert_eq!(kinds_on_record(&store).await, ["CANCELLED", "REPLAYED", "ROUTE_PAUSED"]);
    assert_eq!(store.audit_kinds("a").await, []);
    let mut gone = 0;
    for part in 0..store.0.audit_parts() {
        let all = AuditSpan { part, after: 0, newest_first: false };
        let records = store.0.audit_records(all, 1_000).await.unwrap();
        // Numbers of two parts say nothing of each other.
        let has_c = records.iter().any(|record| record.event.kind == Cancelled);
        let up_to = if has_c { of_c - 1 } else { last };
        let trim = AuditTrim { part, up_to, before: T0.plus(HOUR * 3), forgotten_before: never };
        gone += trim_part(&store, trim).await;
    }
    assert_eq!(gone, 1, "what is beyond is not archived");
    assert_eq!(kinds_on_record(&store).await, ["CANCELLED", "ROUTE_PAUSED"]);
    assert_eq!(store.audit_kinds("c").await, [Cancelled]);
}

pub async fn records_of_forgotten_jobs_may_go_before_those_of_others(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.bring("forgotten", Stage::Cancelled).await;
    let nothing = Retention { ended_max_age: SECOND, ended_max_count: 0 };
    store.0.prune(nothing, T0).await.unwrap();
    store.bring("known", Stage::Sent).await;
    store.0.record(vec![AuditEvent::about_provider("ses", AuditKind::ProviderPaused, T0)]).await.unwrap();
    let up_to = number_of(&store, "", AuditKind::ProviderPaused).await;
    go_on(&store).await;
    let never = Timestamp::from_millis(0);
    assert_eq!(trim(&store, up_to, never, T0).await, 0, "it did not happen before then");
    assert_eq!(
        trim(&store, up_to, never, T0.plus(SECOND)).await,
        2,
        "the forgotten job's and the one without a job"
    );
    assert_eq!(kinds_on_record(&store).await, ["DELIVERED", "ROUTE_PAUSED"]);
    assert_eq!(store.audit_kinds("known").await, [AuditKind::Delivered]);
}

pub async fn a_number_is_not_given_again_whatever_was_trimmed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let one = || vec![AuditEvent::about_route("email", AuditKind::RoutePaused, T0)];
    let mut last = 0;
    for _ in 0..4 {
        store.0.record(one()).await.unwrap();
        let newest = on_record(&store).await.last().unwrap().number;
        assert!(newest > last, "{newest} was given after {last}");
        last = newest;
        trim(&store, last, Timestamp::MAX, Timestamp::MAX).await;
    }
}

pub async fn what_a_job_brought_along_as_archived_is_not_archived_again(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let origin = elsewhere();
    origin.bring("a", Stage::Replaying).await;
    let mut given = given_by(&origin).await;
    assert_eq!((given[0].audit.len(), given[0].archived), (2, 0));
    given[0].archived = 1;
    store.0.adopt(given.clone()).await.unwrap();
    assert_eq!(store.audit_kinds("a").await, [AuditKind::Buried, AuditKind::Replayed], "its trail is whole");
    assert_eq!(kinds_on_record(&store).await, ["REPLAYED"]);
    let again = given_by(&store).await;
    assert_eq!((&again[0].audit, again[0].archived), (&given[0].audit, 0), "and is given as it is");
    let mut newest = Vec::new();
    for part in 0..store.0.audit_parts() {
        let span = AuditSpan { part, after: 0, newest_first: true };
        newest.extend(store.0.audit_records(span, 1).await.unwrap());
    }
    assert_eq!(newest, on_record(&store).await);
}

/// Ends jobs all at once, each with its record.
async fn end_together(store: &TestStore, names: &[&str]) {
    store.accept(names.iter().map(|name| job(name)).collect()).await;
    let leases = store.ready(names.len(), T0).await;
    let settlements = leases.iter().map(|lease| recado_store::Settlement {
        token: lease.token,
        transition: deliver(lease, T0),
        audit: Some(AuditEvent::about(&lease.job, AuditKind::Delivered, T0)),
        now: T0,
        follow_ups: Vec::new(),
    });
    let settled = store.0.settle(settlements.collect()).await.unwrap();
    assert_eq!(settled, vec![recado_store::Settled::Done; names.len()]);
}

pub async fn what_was_recorded_together_is_forgotten_one_by_one(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    end_together(&store, &["a", "b", "c"]).await;
    go_on(&store).await;
    let of = |records: &[AuditRecord], gone: &[&str]| {
        let is_gone =
            |record: &&AuditRecord| !gone.contains(&record.event.job_id.as_deref().unwrap_or_default());
        records.iter().filter(is_gone).cloned().collect::<Vec<_>>()
    };
    let all = on_record(&store).await;
    assert_eq!(all.len(), 4);
    for gone in [&["b"][..], &["b", "a"]] {
        store.0.forget(vec![id(gone[gone.len() - 1])]).await.unwrap();
        assert_eq!(on_record(&store).await, of(&all, gone), "the others keep their numbers");
        assert_eq!(store.audit_kinds("c").await, [AuditKind::Delivered]);
        assert_eq!(store.audit_kinds(gone[0]).await, []);
    }
    let of_c = number_of(&store, "c", AuditKind::Delivered).await;
    for part in 0..store.0.audit_parts() {
        let last = AuditSpan { part, after: of_c - 1, newest_first: true };
        let found = store.0.audit_records(last, 9).await.unwrap();
        let numbers: Vec<_> = found.iter().map(|record| record.number).collect();
        assert!(numbers.is_sorted_by(|newer, older| newer > older), "{numbers:?}");
    }
    let never = Timestamp::from_millis(0);
    assert_eq!(trim(&store, of_c, T0.plus(SECOND), never).await, 1, "what lies apart goes like all else");
    assert_eq!(kinds_on_record(&store).await, ["ROUTE_PAUSED"]);
}

pub async fn what_was_recorded_together_goes_when_none_of_it_is_needed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    end_together(&store, &["a", "b"]).await;
    go_on(&store).await;
    let of = async |name| number_of(&store, name, AuditKind::Delivered).await;
    let (least, most) = (of("a").await.min(of("b").await), of("a").await.max(of("b").await));
    let never = Timestamp::from_millis(0);
    trim(&store, least, T0.plus(SECOND), never).await;
    assert!(on_record(&store).await.iter().any(|record| record.number == most), "it is not archived");
    trim(&store, most, T0.plus(SECOND), never).await;
    assert_eq!(kinds_on_record(&store).await, ["ROUTE_PAUSED"]);
}

pub async fn t14_many_records_of_one_call_are_read_bite_by_bite(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let one = |nth| AuditEvent::about_route("email", AuditKind::RoutePaused, T0).reason(format!("{nth}"));
    store.0.record((0..700).map(one).collect()).await.unwrap();
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let span = AuditSpan { part: 0, after, newest_first: false };
        let batch = store.0.audit_records(span, 9).await.unwrap();
        let Some(last) = batch.last() else { break };
        after = last.number;
        read.extend(batch);
    }
    assert_eq!(read, on_record(&store).await);
    let events = read.iter().map(|record| record.event.clone());
    assert_eq!(events.collect::<Vec<_>>(), (0..700).map(one).collect::<Vec<_>>(), "all, in order");
    let newest = AuditSpan { part: 0, after: read[689].number, newest_first: true };
    let newest = store.0.audit_records(newest, 9).await.unwrap();
    assert_eq!(newest, read[691..].iter().rev().cloned().collect::<Vec<_>>());
}
