//! Each transition, with all that belongs to it, in one step; and nothing at all for a stale token.

use recado_core::job::ATTEMPTS_KEPT_MAX;
use recado_core::{
    AttemptResult, AuditKind, Burial, Cause, Class, DeadLetterState, LeaseToken, Pin, Progress,
    RecipientResult, Status, Transition,
};
use recado_store::{Pick, Settled, Settlement};

use super::snapshot::{ComparableJob, Snapshot};
use crate::Home;
use crate::given::{
    DAY, DEAD_TTL, HOUR, SECOND, T0, TestStore, attempt, bury, company, deliver, every_transition, failure,
    id, job, retry_at, route,
};

async fn one_leased(store: &TestStore) -> recado_core::Lease {
    store.accept(vec![job("a")]).await;
    store.only(T0).await
}

pub async fn a_delivered_job_has_ended_well(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    let now = T0.plus(SECOND);
    store.done(&lease, deliver(&lease, now), now).await;
    let seen = ComparableJob::from(store.view("a", now).await);
    assert_eq!((seen.status, seen.ended_at, seen.held_by), (Status::Sent, Some(now), None));
    assert_eq!(seen.answer.as_deref(), Some(r#"{"messageId":"m-1"}"#));
    assert_eq!(seen.attempts, [attempt(1, AttemptResult::Sent, now)]);
    assert_eq!(seen.progress, Progress { attempts_started: 1, attempts_spent: 1, ..Progress::default() });
    assert_eq!(seen.data, "null", "personal data is not kept longer than it is needed");
    assert_eq!(store.audit_kinds("a").await, [AuditKind::Delivered]);
    assert_eq!(store.ready(10, T0.plus(DAY)).await.len(), 0, "an ended job was claimed");
}

pub async fn a_delivery_without_an_answer_keeps_none(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    let attempt = attempt(1, AttemptResult::Sent, T0);
    store.done(&lease, Transition::Deliver { attempt, answer: None }, T0).await;
    assert_eq!(store.view("a", T0).await.answer, None);
}

pub async fn a_failed_attempt_is_remembered_and_tried_again_at_its_time(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    store.done(&lease, retry_at(&lease, T0.plus(SECOND), T0), T0).await;
    let seen = ComparableJob::from(store.view("a", T0).await);
    assert_eq!((seen.status, seen.due_at, seen.held_by), (Status::Retrying, T0.plus(SECOND), None));
    assert_eq!(seen.progress, Progress { attempts_started: 1, attempts_spent: 1, ..Progress::default() });
    assert_eq!(seen.attempts, [attempt(1, AttemptResult::Failed, T0)]);
    assert_eq!(store.audit_kinds("a").await, [AuditKind::RetryScheduled]);
    assert_eq!(store.ready(10, T0).await.len(), 0, "it was claimed before its time");
    let again = store.only(T0.plus(SECOND)).await;
    assert_eq!((again.attempt, again.job.attempts.len()), (2, 1));
    assert_eq!(again.job.data, job("a").data, "the payload is still there for the second try");
}

pub async fn what_had_been_held_up_says_so_however_its_attempt_ends(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b"), job("c")]).await;
    let leases = store.ready(3, T0).await;
    let ends = [
        deliver(&leases[0], T0),
        retry_at(&leases[1], T0.plus(SECOND), T0),
        bury(&leases[2], None, "no", T0),
    ];
    for (lease, mut transition) in leases.iter().zip(ends) {
        transition.set_provider("smtp-main");
        transition.mark_deferred();
        store.done(lease, transition, T0).await;
    }
    for name in ["a", "b", "c"] {
        let job = store.view(name, T0).await.job;
        assert_eq!(job.progress.deferrals, 1, "{name}");
        let attempt = &job.attempts[0];
        assert_eq!((attempt.provider.as_deref(), attempt.held_up), (Some("smtp-main"), true), "{name}");
    }
}

pub async fn a_postponed_job_has_spent_nothing(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    store.done(&lease, Transition::Postpone { until: T0.plus(SECOND) }, T0).await;
    let seen = ComparableJob::from(store.view("a", T0).await);
    assert_eq!(seen.progress, Progress { deferrals: 1, ..Progress::default() });
    assert_eq!((seen.due_at, seen.attempts.len(), seen.held_by), (T0.plus(SECOND), 0, None));
    assert_eq!(store.ready(10, T0).await.len(), 0, "it was claimed before its time");
    assert_eq!(store.only(T0.plus(SECOND)).await.attempt, 1, "nothing was tried yet");
}

pub async fn a_released_job_is_as_if_it_had_never_been_claimed(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let before = ComparableJob::from(store.view("a", T0).await);
    let lease = store.only(T0).await;
    store.done(&lease, Transition::Release { at: T0, lost: None }, T0).await;
    assert_eq!(ComparableJob::from(store.view("a", T0).await), before);
    assert_eq!(store.only(T0).await.attempt, 1);
}

pub async fn a_release_with_a_lost_attempt_counts_a_crash_and_spends_nothing(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    let lost = attempt(1, AttemptResult::Lost, T0);
    store.done(&lease, Transition::Release { at: T0, lost: Some(lost.clone()) }, T0).await;
    let seen = ComparableJob::from(store.view("a", T0).await);
    assert_eq!(seen.progress, Progress { attempts_started: 1, crashes: 1, ..Progress::default() });
    assert_eq!(seen.attempts, [lost]);
    let lease = store.only(T0).await;
    store.done(&lease, retry_at(&lease, T0, T0), T0).await;
    assert_eq!(
        store.view("a", T0).await.job.progress.crashes,
        0,
        "an attempt that came back ends the row of crashes"
    );
}

pub async fn a_buried_job_leaves_a_dead_letter_with_all_that_a_person_needs(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    store.done(&lease, retry_at(&lease, T0, T0), T0).await;
    let lease = store.only(T0).await;
    let now = T0.plus(SECOND);
    store.done(&lease, bury(&lease, Some("550"), "no such mailbox", now), now).await;

    let entry = store.dead_letter("a").await.unwrap();
    let new = job("a");
    assert_eq!((&entry.job_id, &entry.company, &entry.route), (&id("a"), &company("acme"), &route("email")));
    assert_eq!((&entry.user_id, &entry.correlation_id), (&new.user_id, &new.correlation_id));
    assert_eq!(entry.original_data, new.data);
    assert_eq!((entry.failed_attempts, entry.failure.reason.as_str()), (2, "no such mailbox"));
    assert_eq!(
        (entry.failure.code.as_deref(), entry.failure.stack_trace.as_deref()),
        (Some("550"), Some("at deliver"))
    );
    assert_eq!((entry.failure.at, entry.moved_at, entry.enqueued_at), (now, now, T0));
    assert_eq!((entry.ttl, entry.expires_at()), (DEAD_TTL, now.plus(DEAD_TTL)));
    assert_eq!(
        (entry.failure.class, entry.cause, entry.state),
        (Class::Permanent, Cause::Permanent, DeadLetterState::Dead)
    );
    let tried = [attempt(1, AttemptResult::Failed, T0), attempt(2, AttemptResult::Failed, now)];
    assert_eq!(entry.attempts, tried, "every attempt with its times");
    assert!(!entry.failure.fingerprint.is_empty());

    let view = store.view("a", now).await;
    assert_eq!((view.status, view.job.attempts.len(), view.ended_at), (Status::Failed, 2, None));
    assert_eq!(view.job.data, new.data, "a dead letter's job still shows what it was to deliver");
    assert_eq!(store.audit_kinds("a").await, [AuditKind::RetryScheduled, AuditKind::Buried]);
    assert_eq!(store.ready(10, now).await.len(), 0, "a dead job was claimed");
    assert_eq!(
        store.claim(Pick::Overdue, 10, T0.plus(DAY * 2)).await.leases.len(),
        0,
        "a dead job was overdue"
    );
}

pub async fn a_job_buried_untried_has_a_dead_letter_without_attempts(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let lease = one_leased(&store).await;
    let burial = Burial {
        cause: Cause::Expired,
        failure: failure(None, "expired before it was tried"),
        attempt: None,
        held_up: true,
        at: T0,
        ttl: DEAD_TTL,
    };
    store.done(&lease, Transition::Bury(burial), T0).await;
    assert_eq!(store.view("a", T0).await.job.progress.deferrals, 1, "what it waited for to the end counts");
    let entry = store.dead_letter("a").await.unwrap();
    assert_eq!((entry.failed_attempts, entry.attempts.len(), entry.cause), (0, 0, Cause::Expired));
    assert_eq!(entry.failure.code, None);
}

pub async fn every_class_and_cause_of_a_burial_is_kept(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let classes = [Class::Transient, Class::Permanent, Class::RateLimit, Class::Unknown];
    for (nth, cause) in Cause::ALL.into_iter().enumerate() {
        let (name, class) = (format!("job-{nth}"), classes[nth % classes.len()]);
        store.accept(vec![job(&name)]).await;
        let lease = store.only(T0).await;
        let failure = recado_core::Failure { class, stack_trace: None, ..failure(None, "it failed") };
        let burial = Burial { cause, failure, attempt: None, held_up: false, at: T0, ttl: DEAD_TTL };
        store.done(&lease, Transition::Bury(burial), T0).await;
        let entry = store.dead_letter(&name).await.unwrap();
        assert_eq!((entry.cause, entry.failure.class, entry.failure.stack_trace), (cause, class, None));
    }
}

pub async fn a_stale_settlement_changes_nothing_at_all(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("retrying"), job("sent"), job("dead"), job("taken-over")]).await;
    let leases = store.ready(4, T0).await;
    store.done(&leases[0], retry_at(&leases[0], T0.plus(HOUR), T0), T0).await;
    store.done(&leases[1], deliver(&leases[1], T0), T0).await;
    store.done(&leases[2], bury(&leases[2], Some("550"), "no", T0), T0).await;
    let now = T0.plus(HOUR);
    assert_eq!(store.claim(Pick::Orphaned, 10, now).await.leases.len(), 1, "one lease ran out");
    let mut never = leases[0].clone();
    never.token = LeaseToken(u128::MAX - 1);

    let before = Snapshot::of(&store, now).await;
    for lease in leases.iter().chain([&never]) {
        for transition in every_transition(lease, now) {
            let what = format!("{:?} of {}", transition, lease.job.id);
            assert_eq!(store.settle(lease, transition, now).await, Settled::Stale, "{what}");
            before.assert_same(&Snapshot::of(&store, now).await, what);
        }
    }
}

pub async fn a_batch_of_settlements_is_answered_in_order(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b"), job("c")]).await;
    let leases = store.ready(3, T0).await;
    let settlement = |at: usize, transition| Settlement {
        token: leases[at].token,
        transition,
        audit: None,
        now: T0,
        follow_ups: Vec::new(),
    };
    let answers = store
        .0
        .settle(vec![
            settlement(0, deliver(&leases[0], T0)),
            settlement(0, retry_at(&leases[0], T0, T0)),
            settlement(2, bury(&leases[2], None, "no", T0)),
            settlement(1, Transition::Postpone { until: T0.plus(SECOND) }),
        ])
        .await
        .unwrap();
    assert_eq!(answers, [Settled::Done, Settled::Stale, Settled::Done, Settled::Done]);
    assert_eq!(store.view("a", T0).await.status, Status::Sent, "the first settlement of a token counts");
    assert_eq!(store.view("c", T0).await.status, Status::Failed);
    assert_eq!(store.view("b", T0).await.job.progress.deferrals, 1);
    assert_eq!(store.audit_kinds("a").await, [], "no record was asked for");
}

pub async fn two_settlements_of_one_token_at_once_have_one_winner(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for round in 0..10 {
        let name = format!("a-{round}");
        store.accept(vec![job(&name)]).await;
        let lease = store.only(T0).await;
        let (left, right) = tokio::join!(
            store.settle(&lease, deliver(&lease, T0), T0),
            store.settle(&lease, bury(&lease, None, "no", T0), T0)
        );
        assert_ne!(left, right, "one is done, the other stale");
        let buried = store.dead_letter(&name).await.is_some();
        assert_eq!(buried, right == Settled::Done, "what happened is what was answered");
    }
}

pub async fn a_long_history_keeps_its_newest_attempts(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let rounds = u32::try_from(ATTEMPTS_KEPT_MAX).unwrap() + 3;
    for round in 1..=rounds {
        let lease = store.only(T0).await;
        let mut transition = retry_at(&lease, T0, T0);
        if let (1, Transition::RetryAt { attempt, .. }) = (round, &mut transition) {
            attempt.result = AttemptResult::Uncertain;
            attempt.provider = Some("main".into());
            attempt.recipients = vec![reached("ana@example.com")];
        }
        store.done(&lease, transition, T0).await;
    }
    let job = store.view("a", T0).await.job;
    let numbers = (job.attempts.first().unwrap().number, job.attempts.last().unwrap().number);
    assert_eq!((job.attempts.len(), numbers), (ATTEMPTS_KEPT_MAX, (4, rounds)));
    assert_eq!(job.progress.attempts_spent, rounds);
    assert!(job.has_reached("ana@example.com"), "the recipient that the first attempt reached is forgotten");
    assert_eq!(job.pin(), Some(Pin { provider: Some("main".into()) }), "the first answer was lost");
}

fn reached(recipient: &str) -> RecipientResult {
    RecipientResult {
        recipient: recipient.into(),
        result: AttemptResult::Sent,
        error_code: None,
        error_reason: None,
        error_classification: None,
        rule: None,
    }
}
