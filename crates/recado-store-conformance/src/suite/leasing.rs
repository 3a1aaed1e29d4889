//! The right to deliver: one holder, for a while, and what happens when the while is over.

use std::time::Duration;

use recado_core::{AttemptResult, Lease, LeaseToken, LostLease, NewJob, Status, Timestamp, Transition};
use recado_store::{Claim, Extended, Pick, Settled, Turns};

use super::snapshot::Snapshot;
use crate::Home;
use crate::given::{HOUR, SECOND, Stage, T0, TestStore, attempt, deliver, id, job, retry_at, route};

/// The end of the leases that [`TestStore::ready`] gives at `T0`.
const END: Timestamp = Timestamp::from_millis(T0.as_millis() + 3_600_000);

async fn orphans(store: &TestStore, now: Timestamp) -> Vec<Lease> {
    store.claim(Pick::Orphaned, 100, now).await.leases
}

pub async fn a_lease_carries_the_whole_job_and_shows_who_holds_it(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let new = job("a");
    store.accept(vec![new.clone()]).await;
    let lease = store.only(T0).await;
    assert_eq!((lease.attempt, lease.claimed_at, lease.expires_at, &lease.lost), (1, T0, END, &None));
    assert_eq!((&lease.job.id, &lease.job.data, &lease.job.company), (&new.id, &new.data, &new.company));
    assert_eq!((&lease.job.user_id, &lease.job.correlation_id), (&new.user_id, &new.correlation_id));
    assert_eq!(lease.job.traceparent, new.traceparent);
    let view = store.view("a", T0).await;
    assert_eq!((view.status, view.held_by), (Status::Delivering, Some(("worker-1".into(), END))));
}

pub async fn a_token_leads_to_its_lease_while_it_is_current(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let found = store.0.lease(lease.token).await.unwrap().unwrap();
    assert_eq!((found.token, found.attempt, found.claimed_at), (lease.token, 1, T0));
    assert_eq!((found.expires_at, found.job.id, found.job.data), (END, id("a"), lease.job.data.clone()));
    store.done(&lease, deliver(&lease, T0), T0).await;
    assert!(store.0.lease(lease.token).await.unwrap().is_none(), "a settled lease was found");
    assert!(store.0.lease(LeaseToken(7)).await.unwrap().is_none(), "a lease that never was, was found");
}

pub async fn an_extended_lease_ends_later(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let until = END.plus(HOUR);
    assert_eq!(store.extend(lease.token, until).await, Extended::Until(until));
    assert_eq!(store.view("a", T0).await.held_by, Some(("worker-1".into(), until)));
    assert_eq!(store.0.lease(lease.token).await.unwrap().unwrap().expires_at, until);
    let early = store.claim(Pick::Orphaned, 10, END).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(until)));
    assert_eq!(orphans(&store, until).await.len(), 1);
}

pub async fn a_lease_inside_the_process_is_extended_for_all_to_see(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let claim = Claim {
        pick: Pick::Ready(route("email")),
        max: 1,
        now: T0,
        lease_until: T0.plus(SECOND),
        worker: "node".into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    let lease = store.0.claim(claim).await.unwrap().leases.remove(0);
    store.extend(lease.token, T0.plus(HOUR)).await;
    assert_eq!(store.view("a", T0).await.held_by, Some(("node".into(), T0.plus(HOUR))));
    assert_eq!(orphans(&store, T0.plus(SECOND * 2)).await.len(), 0, "its lease was extended");
}

pub async fn a_lease_ends_by_its_own_time_whatever_the_wall_clock_said_at_its_claim(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b")]).await;
    // The wall clock is set forward by an hour and then back, while leases are measured as before.
    for (wall, lease_until) in [(T0.plus(HOUR), T0.plus(SECOND * 15)), (T0, T0.plus(SECOND * 16))] {
        let claim = Claim {
            pick: Pick::Ready(route("email")),
            max: 1,
            now: wall,
            lease_until,
            worker: "node".into(),
            provider: None,
            outlives_process: false,
            turns: Turns::default(),
        };
        assert_eq!(store.0.claim(claim).await.unwrap().leases.len(), 1);
    }
    assert_eq!(orphans(&store, T0.plus(SECOND * 14)).await.len(), 0);
    assert_eq!(orphans(&store, T0.plus(SECOND * 15)).await.len(), 1);
    assert_eq!(orphans(&store, T0.plus(SECOND * 16)).await.len(), 1);
}

pub async fn extending_answers_in_order_and_refuses_what_is_not_current(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b"), job("c")]).await;
    let leases = store.ready(3, T0).await;
    store.done(&leases[1], deliver(&leases[1], T0), T0).await;
    let tokens = vec![leases[0].token, leases[1].token, LeaseToken(u128::MAX), leases[2].token];
    let until = END.plus(SECOND);
    let answers = store.0.extend(tokens, until).await.unwrap();
    assert_eq!(answers, [Extended::Until(until), Extended::Stale, Extended::Stale, Extended::Until(until)]);
}

pub async fn a_lease_that_ran_out_is_taken_over_with_its_history(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let old = store.only(T0).await;
    let early = store.claim(Pick::Orphaned, 10, Timestamp::from_millis(END.as_millis() - 1)).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(END)), "it has not run out yet");
    let taken = orphans(&store, END).await.remove(0);
    let lost = LostLease { attempt: 1, claimed_at: T0, worker: "worker-1".into(), provider: None };
    assert_eq!((taken.attempt, taken.claimed_at, taken.lost), (1, END, Some(lost)));
    assert_ne!(taken.token, old.token, "the new holder has a token of its own");
    assert_eq!(taken.job.id, id("a"));
    assert_eq!(orphans(&store, END).await.len(), 0, "it is held again");
}

pub async fn a_lease_that_ran_out_tells_its_provider_however_often_it_is_taken_over(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b")]).await;
    let claim = |provider: Option<&str>| Claim {
        pick: Pick::Ready(route("email")),
        max: 1,
        now: T0,
        lease_until: END,
        worker: "worker-1".into(),
        provider: provider.map(Into::into),
        outlives_process: true,
        turns: Turns::default(),
    };
    let asked = store.0.claim(claim(Some("main"))).await.unwrap().leases.remove(0);
    store.0.claim(claim(None)).await.unwrap();
    assert_eq!(store.view("a", T0).await.held_by.unwrap().0, "worker-1".into());
    for round in 1..=2 {
        let now = END.plus(HOUR * round);
        let taken = orphans(&store, now).await;
        let told: Vec<_> =
            taken.into_iter().map(|lease| (lease.job.id, lease.lost.unwrap().provider)).collect();
        assert_eq!(told, [(asked.job.id.clone(), Some("main".into())), (id("b"), None)], "takeover {round}");
    }
}

pub async fn the_old_holder_is_fenced_off_after_a_takeover(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let old = store.only(T0).await;
    let new = orphans(&store, END).await.remove(0);
    let before = Snapshot::of(&store, END).await;
    assert_eq!(store.extend(old.token, END.plus(HOUR)).await, Extended::Stale);
    assert_eq!(store.settle(&old, deliver(&old, END), END).await, Settled::Stale);
    assert!(store.0.lease(old.token).await.unwrap().is_none());
    before.assert_same(&Snapshot::of(&store, END).await, "after the old holder tried");
    store.done(&new, deliver(&new, END), END).await;
}

pub async fn a_late_holder_may_still_settle_until_another_takes_over(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    store.done(&lease, deliver(&lease, END.plus(HOUR)), END.plus(HOUR)).await;
    assert_eq!(orphans(&store, END.plus(HOUR)).await.len(), 0);
}

pub async fn leases_that_ran_out_are_taken_over_oldest_end_first(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b"), job("c")]).await;
    let leases = store.ready(3, T0).await;
    store.extend(leases[0].token, END.plus(SECOND * 2)).await;
    store.extend(leases[2].token, END.plus(SECOND)).await;
    let late = END.plus(HOUR);
    let names = async |max| {
        let taken = store.claim(Pick::Orphaned, max, late).await.leases;
        taken.into_iter().map(|lease| lease.job.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(2).await, ["b", "c"]);
    assert_eq!(names(2).await, ["a"]);
}

pub async fn the_attempt_after_a_lost_one_has_the_next_number(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    store.only(T0).await;
    let taken = orphans(&store, END).await.remove(0);
    let lost = Some(attempt(1, AttemptResult::Lost, END));
    store.done(&taken, Transition::Release { at: END, lost }, END).await;
    let next = store.only(END).await;
    assert_eq!((next.attempt, next.job.progress.crashes, next.job.progress.attempts_spent), (2, 1, 0));
}

pub async fn waiting_jobs_whose_time_ran_out_are_picked_whatever_their_route_or_due_time(
    home: &mut dyn Home,
) {
    let store = TestStore::at(home).await;
    let short = |name, seconds| NewJob { expires_at: T0.plus(SECOND * seconds), ..job(name) };
    store
        .accept(vec![
            NewJob { due_at: T0.plus(HOUR), ..short("third", 3) },
            NewJob { route: route("sms"), ..short("first", 1) },
            short("second", 2),
            short("fourth", 4),
            job("a-day"),
        ])
        .await;
    let now = T0.plus(SECOND * 3);
    let early = store.claim(Pick::Overdue, 10, T0).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(T0.plus(SECOND))));
    let claimed = store.claim(Pick::Overdue, 10, now).await;
    let names: Vec<_> = claimed.leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!((names, claimed.next_at), (vec!["first", "second", "third"], Some(T0.plus(SECOND * 4))));
    assert_eq!(store.view("third", now).await.status, Status::Delivering);
    assert_eq!(store.claim(Pick::Overdue, 10, now).await.leases.len(), 0, "they are held now");
    let still: Vec<_> =
        store.ready(10, now).await.into_iter().map(|lease| lease.job.id.to_string()).collect();
    assert_eq!(still, ["fourth", "a-day"], "what was taken as overdue is not ready any more");
}

pub async fn only_jobs_that_wait_can_be_overdue(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    let late = T0.plus(Duration::from_secs(48 * 3_600));
    let overdue = store.claim(Pick::Overdue, 100, late).await.leases;
    let mut names: Vec<_> = overdue.iter().map(|lease| lease.job.id.to_string()).collect();
    names.sort();
    let mut expected: Vec<_> =
        Stage::ALL.into_iter().filter(|stage| stage.waits()).map(Stage::name).collect();
    expected.sort();
    assert_eq!(names, expected);
}

pub async fn a_job_given_back_can_become_overdue_again(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![NewJob { expires_at: T0.plus(HOUR), ..job("a") }]).await;
    for round in 1..=5 {
        let lease = store.only(T0.plus(SECOND * round)).await;
        let at = T0.plus(SECOND * (round + 1));
        store.done(&lease, retry_at(&lease, at, at), at).await;
    }
    let overdue = store.claim(Pick::Overdue, 10, T0.plus(HOUR)).await.leases;
    assert_eq!(overdue.len(), 1, "five times given back, once in line");
}

pub async fn no_token_is_ever_given_twice(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let mut tokens = std::collections::HashSet::new();
    for _ in 0..50 {
        let lease = store.only(T0).await;
        assert!(tokens.insert(lease.token), "{} came again", lease.token);
        store.done(&lease, Transition::Release { at: T0, lost: None }, T0).await;
    }
}
