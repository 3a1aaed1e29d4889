//! The right to deliver: one holder, for a while, and what happens when the while is over.

use std::time::Duration;

use recado_core::{AttemptResult, Lease, LeaseToken, LostLease, NewJob, Status, Timestamp, Transition};

use super::Home;
use super::given::{Desk, HOUR, SECOND, Stage, T0, attempt, deliver, id, job, retry_at, route};
use super::snapshot::Snapshot;
use recado_store::{Claim, Extended, Pick, Settled, Turns};

/// The end of the leases that [`Desk::ready`] gives at `T0`.
const END: Timestamp = Timestamp::from_millis(T0.as_millis() + 3_600_000);

async fn orphans(desk: &Desk, now: Timestamp) -> Vec<Lease> {
    desk.claim(Pick::Orphaned, 100, now).await.leases
}

pub async fn a_lease_carries_the_whole_job_and_shows_who_holds_it(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    let new = job("a");
    desk.accept(vec![new.clone()]).await;
    let lease = desk.only(T0).await;
    assert_eq!((lease.attempt, lease.claimed_at, lease.expires_at, &lease.lost), (1, T0, END, &None));
    assert_eq!((&lease.job.id, &lease.job.data, &lease.job.company), (&new.id, &new.data, &new.company));
    assert_eq!((&lease.job.user_id, &lease.job.correlation_id), (&new.user_id, &new.correlation_id));
    assert_eq!(lease.job.traceparent, new.traceparent);
    let view = desk.view("a", T0).await;
    assert_eq!((view.status, view.held_by), (Status::Delivering, Some(("worker-1".into(), END))));
}

pub async fn a_token_leads_to_its_lease_while_it_is_current(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let lease = desk.only(T0).await;
    let found = desk.0.lease(lease.token).await.unwrap().unwrap();
    assert_eq!((found.token, found.attempt, found.claimed_at), (lease.token, 1, T0));
    assert_eq!((found.expires_at, found.job.id, found.job.data), (END, id("a"), lease.job.data.clone()));
    desk.done(&lease, deliver(&lease, T0), T0).await;
    assert!(desk.0.lease(lease.token).await.unwrap().is_none(), "a settled lease was found");
    assert!(desk.0.lease(LeaseToken(7)).await.unwrap().is_none(), "a lease that never was, was found");
}

pub async fn an_extended_lease_ends_later(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let lease = desk.only(T0).await;
    let until = END.plus(HOUR);
    assert_eq!(desk.extend(lease.token, until).await, Extended::Until(until));
    assert_eq!(desk.view("a", T0).await.held_by, Some(("worker-1".into(), until)));
    assert_eq!(desk.0.lease(lease.token).await.unwrap().unwrap().expires_at, until);
    let early = desk.claim(Pick::Orphaned, 10, END).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(until)));
    assert_eq!(orphans(&desk, until).await.len(), 1);
}

pub async fn a_lease_inside_the_process_is_extended_for_all_to_see(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
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
    let lease = desk.0.claim(claim).await.unwrap().leases.remove(0);
    desk.extend(lease.token, T0.plus(HOUR)).await;
    assert_eq!(desk.view("a", T0).await.held_by, Some(("node".into(), T0.plus(HOUR))));
    assert_eq!(orphans(&desk, T0.plus(SECOND * 2)).await.len(), 0, "its lease was extended");
}

pub async fn a_lease_ends_by_its_own_time_whatever_the_wall_clock_said_at_its_claim(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), job("b")]).await;
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
        assert_eq!(desk.0.claim(claim).await.unwrap().leases.len(), 1);
    }
    assert_eq!(orphans(&desk, T0.plus(SECOND * 14)).await.len(), 0);
    assert_eq!(orphans(&desk, T0.plus(SECOND * 15)).await.len(), 1);
    assert_eq!(orphans(&desk, T0.plus(SECOND * 16)).await.len(), 1);
}

pub async fn extending_answers_in_order_and_refuses_what_is_not_current(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), job("b"), job("c")]).await;
    let leases = desk.ready(3, T0).await;
    desk.done(&leases[1], deliver(&leases[1], T0), T0).await;
    let tokens = vec![leases[0].token, leases[1].token, LeaseToken(u128::MAX), leases[2].token];
    let until = END.plus(SECOND);
    let answers = desk.0.extend(tokens, until).await.unwrap();
    assert_eq!(answers, [Extended::Until(until), Extended::Stale, Extended::Stale, Extended::Until(until)]);
}

pub async fn a_lease_that_ran_out_is_taken_over_with_its_history(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let old = desk.only(T0).await;
    let early = desk.claim(Pick::Orphaned, 10, Timestamp::from_millis(END.as_millis() - 1)).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(END)), "it has not run out yet");
    let taken = orphans(&desk, END).await.remove(0);
    let lost = LostLease { attempt: 1, claimed_at: T0, worker: "worker-1".into(), provider: None };
    assert_eq!((taken.attempt, taken.claimed_at, taken.lost), (1, END, Some(lost)));
    assert_ne!(taken.token, old.token, "the new holder has a token of its own");
    assert_eq!(taken.job.id, id("a"));
    assert_eq!(orphans(&desk, END).await.len(), 0, "it is held again");
}

pub async fn a_lease_that_ran_out_tells_its_provider_however_often_it_is_taken_over(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), job("b")]).await;
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
    let asked = desk.0.claim(claim(Some("main"))).await.unwrap().leases.remove(0);
    desk.0.claim(claim(None)).await.unwrap();
    assert_eq!(desk.view("a", T0).await.held_by.unwrap().0, "worker-1".into());
    for round in 1..=2 {
        let now = END.plus(HOUR * round);
        let taken = orphans(&desk, now).await;
        let told: Vec<_> =
            taken.into_iter().map(|lease| (lease.job.id, lease.lost.unwrap().provider)).collect();
        assert_eq!(told, [(asked.job.id.clone(), Some("main".into())), (id("b"), None)], "takeover {round}");
    }
}

pub async fn the_old_holder_is_fenced_off_after_a_takeover(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let old = desk.only(T0).await;
    let new = orphans(&desk, END).await.remove(0);
    let before = Snapshot::of(&desk, END).await;
    assert_eq!(desk.extend(old.token, END.plus(HOUR)).await, Extended::Stale);
    assert_eq!(desk.settle(&old, deliver(&old, END), END).await, Settled::Stale);
    assert!(desk.0.lease(old.token).await.unwrap().is_none());
    before.assert_same(&Snapshot::of(&desk, END).await, "after the old holder tried");
    desk.done(&new, deliver(&new, END), END).await;
}

pub async fn a_late_holder_may_still_settle_while_nobody_took_over(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let lease = desk.only(T0).await;
    desk.done(&lease, deliver(&lease, END.plus(HOUR)), END.plus(HOUR)).await;
    assert_eq!(orphans(&desk, END.plus(HOUR)).await.len(), 0);
}

pub async fn leases_that_ran_out_are_taken_over_oldest_end_first(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a"), job("b"), job("c")]).await;
    let leases = desk.ready(3, T0).await;
    desk.extend(leases[0].token, END.plus(SECOND * 2)).await;
    desk.extend(leases[2].token, END.plus(SECOND)).await;
    let late = END.plus(HOUR);
    let names = async |max| {
        let taken = desk.claim(Pick::Orphaned, max, late).await.leases;
        taken.into_iter().map(|lease| lease.job.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(2).await, ["b", "c"]);
    assert_eq!(names(2).await, ["a"]);
}

pub async fn the_attempt_after_a_lost_one_has_the_next_number(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    desk.only(T0).await;
    let taken = orphans(&desk, END).await.remove(0);
    let lost = Some(attempt(1, AttemptResult::Lost, END));
    desk.done(&taken, Transition::Release { at: END, lost }, END).await;
    let next = desk.only(END).await;
    assert_eq!((next.attempt, next.job.progress.crashes, next.job.progress.attempts_spent), (2, 1, 0));
}

pub async fn waiting_jobs_whose_time_ran_out_are_picked_whatever_their_route_or_due_time(
    home: &mut dyn Home,
) {
    let desk = Desk::at(home).await;
    let short = |name, seconds| NewJob { expires_at: T0.plus(SECOND * seconds), ..job(name) };
    desk.accept(vec![
        NewJob { due_at: T0.plus(HOUR), ..short("third", 3) },
        NewJob { route: route("sms"), ..short("first", 1) },
        short("second", 2),
        short("fourth", 4),
        job("a-day"),
    ])
    .await;
    let now = T0.plus(SECOND * 3);
    let early = desk.claim(Pick::Overdue, 10, T0).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(T0.plus(SECOND))));
    let claimed = desk.claim(Pick::Overdue, 10, now).await;
    let names: Vec<_> = claimed.leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!((names, claimed.next_at), (vec!["first", "second", "third"], Some(T0.plus(SECOND * 4))));
    assert_eq!(desk.view("third", now).await.status, Status::Delivering);
    assert_eq!(desk.claim(Pick::Overdue, 10, now).await.leases.len(), 0, "they are held now");
    let still: Vec<_> = desk.ready(10, now).await.into_iter().map(|lease| lease.job.id.to_string()).collect();
    assert_eq!(still, ["fourth", "a-day"], "what was taken as overdue is not ready any more");
}

pub async fn only_jobs_that_wait_can_be_overdue(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    for stage in Stage::ALL {
        desk.bring(&stage.name(), stage).await;
    }
    let late = T0.plus(Duration::from_secs(48 * 3_600));
    let overdue = desk.claim(Pick::Overdue, 100, late).await.leases;
    let mut names: Vec<_> = overdue.iter().map(|lease| lease.job.id.to_string()).collect();
    names.sort();
    let mut expected: Vec<_> =
        Stage::ALL.into_iter().filter(|stage| stage.waits()).map(Stage::name).collect();
    expected.sort();
    assert_eq!(names, expected);
}

pub async fn a_job_given_back_can_become_overdue_again(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![NewJob { expires_at: T0.plus(HOUR), ..job("a") }]).await;
    for round in 1..=5 {
        let lease = desk.only(T0.plus(SECOND * round)).await;
        let at = T0.plus(SECOND * (round + 1));
        desk.done(&lease, retry_at(&lease, at, at), at).await;
    }
    let overdue = desk.claim(Pick::Overdue, 10, T0.plus(HOUR)).await.leases;
    assert_eq!(overdue.len(), 1, "five times given back, once in line");
}

pub async fn no_token_is_ever_given_twice(home: &mut dyn Home) {
    let desk = Desk::at(home).await;
    desk.accept(vec![job("a")]).await;
    let mut tokens = std::collections::HashSet::new();
    for _ in 0..50 {
        let lease = desk.only(T0).await;
        assert!(tokens.insert(lease.token), "{} came again", lease.token);
        desk.done(&lease, Transition::Release { at: T0, lost: None }, T0).await;
    }
}
