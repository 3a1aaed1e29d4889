//! Jobs that a settlement, a replay or a discard brings about, in the same step.

use recado_core::{AuditKind, NewJob, Status};
use recado_store::{Discard, Discarded, Enqueued, Pick, Redrive, Redriven, Settled, Settlement};

use super::snapshot::{ComparableJob, Snapshot};
use super::waking::{assert_woken, is_quiet};
use crate::Home;
use crate::given::{
    DAY, HOUR, OTHER_BODY, SECOND, Stage, T0, TestStore, act, bury, company, deliver, every_transition, id,
    job, priority, retry_at, route,
};

/// Makes a job that reports on another one, on a route of its own.
fn word_of(name: &str) -> NewJob {
    NewJob { route: route("hooks"), ..job(&format!("word-of-{name}")) }
}

fn redrive(name: &str, follow_ups: Vec<NewJob>) -> Redrive {
    Redrive {
        id: id(name),
        data: None,
        due_at: T0,
        expires_at: T0.plus(DAY),
        audit: act(name, AuditKind::Replayed, T0),
        follow_ups,
    }
}

fn discard(name: &str, follow_ups: Vec<NewJob>) -> Discard {
    Discard { id: id(name), replays: None, audit: act(name, AuditKind::Discarded, T0), follow_ups }
}

pub async fn every_kind_of_settlement_takes_its_follow_ups_in(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for nth in 0..6 {
        let name = format!("job-{nth}");
        let own = route(&format!("to-{name}"));
        store.accept(vec![NewJob { route: own.clone(), ..job(&name) }]).await;
        let lease = store.claim(Pick::Ready(own), 1, T0).await.leases.remove(0);
        let transition = every_transition(&lease, T0)[nth].clone();
        let what = format!("{transition:?}");
        let follow_ups = vec![word_of(&name), word_of(&format!("{name}-too"))];
        assert_eq!(store.settle_with(&lease, transition, follow_ups, T0).await, Settled::Done, "{what}");
        for word in [word_of(&name), word_of(&format!("{name}-too"))] {
            assert_eq!(store.view(word.id.as_str(), T0).await.status, Status::Queued, "{what}");
        }
    }
    assert_eq!(store.claim(Pick::Ready(route("hooks")), 100, T0).await.leases.len(), 12);
}

pub async fn a_follow_up_is_a_job_like_one_that_was_enqueued(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let word = NewJob {
        priority: priority(2),
        due_at: T0.plus(HOUR),
        user_id: None,
        company: company("other"),
        ..word_of("a")
    };
    let twin = NewJob { id: id("twin"), ..word.clone() };
    store.settle_with(&lease, deliver(&lease, T0), vec![word.clone()], T0).await;
    store.accept(vec![twin]).await;
    let mut as_enqueued = ComparableJob::from(store.view("twin", T0).await);
    as_enqueued.names[0] = word.id.to_string();
    assert_eq!(ComparableJob::from(store.view("word-of-a", T0).await), as_enqueued);

    let counts = store.0.counts(T0).await.unwrap();
    assert_eq!((counts.delayed, counts.waiting_by_route.get(&route("hooks"))), (2, Some(&2)));
    assert_eq!(store.audit_kinds("word-of-a").await, [], "its trail is its own");
    let again = store.enqueue(vec![word.clone(), NewJob { body_hash: OTHER_BODY, ..word }]).await;
    assert_eq!(again, [Enqueued::Duplicate { status: Status::Scheduled }, Enqueued::Conflict]);
}

pub async fn a_stale_settlement_takes_nothing_in(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    store.done(&lease, retry_at(&lease, T0.plus(HOUR), T0), T0).await;
    let before = Snapshot::of(&store, T0).await;
    let mut waker = store.0.waker(&route("hooks"));
    for transition in every_transition(&lease, T0) {
        let answer = store.settle_with(&lease, transition, vec![word_of("a")], T0).await;
        assert_eq!(answer, Settled::Stale);
    }
    before.assert_same(&Snapshot::of(&store, T0).await, "after settlements that were stale");
    assert!(is_quiet(&mut waker), "a route rang for jobs that were not taken in");
}

pub async fn of_two_settlements_at_once_only_the_winner_is_followed_up(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for round in 0..10 {
        let name = format!("a-{round}");
        store.accept(vec![job(&name)]).await;
        let lease = store.only(T0).await;
        let [sent, failed] = ["sent", "failed"].map(|how| word_of(&format!("{name}-{how}")));
        let (left, _) = tokio::join!(
            store.settle_with(&lease, deliver(&lease, T0), vec![sent.clone()], T0),
            store.settle_with(&lease, bury(&lease, None, "no", T0), vec![failed.clone()], T0)
        );
        let sent = store.find(sent.id.as_str(), T0).await;
        let failed = store.find(failed.id.as_str(), T0).await;
        let won = left == Settled::Done;
        assert_eq!((sent.is_some(), failed.is_some()), (won, !won), "what is told is what happened");
    }
}

pub async fn a_follow_up_whose_id_is_taken_is_left_alone(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let mut before = Vec::new();
    for stage in Stage::ALL {
        before.push(ComparableJob::from(store.view(&stage.name(), T0).await));
    }
    let mut follow_ups: Vec<_> = Stage::ALL.iter().map(|stage| job(&stage.name())).collect();
    follow_ups.extend(Stage::ALL.map(|stage| NewJob { body_hash: OTHER_BODY, ..job(&stage.name()) }));
    follow_ups.extend([job("a"), word_of("a"), NewJob { body_hash: OTHER_BODY, ..word_of("a") }]);
    let answer = store.settle_with(&lease, deliver(&lease, T0), follow_ups, T0).await;
    assert_eq!(answer, Settled::Done, "an id that is taken is no reason to refuse");
    for (stage, before) in Stage::ALL.into_iter().zip(before) {
        assert_eq!(ComparableJob::from(store.view(&stage.name(), T0).await), before, "{stage:?}");
    }
    assert_eq!(store.view("a", T0).await.status, Status::Sent, "it does not follow itself");
    assert_eq!(store.claim(Pick::Ready(route("hooks")), 9, T0).await.leases.len(), 1, "twice in one list");
    let same = store.enqueue(vec![word_of("a")]).await;
    assert_eq!(same, [Enqueued::Duplicate { status: Status::Delivering }], "the first of the two counts");
}

pub async fn a_follow_up_wakes_its_route(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for name in ["replayed", "discarded"] {
        store.bring(name, Stage::Dead).await;
    }
    store.accept(vec![job("a")]).await;
    let lease = store.only(T0).await;
    let bell_of = |name: &str| store.0.waker(&route(name));
    let mut bells = ["settled", "replayed", "discarded", "other"].map(|name| (name, bell_of(name)));
    let word = |name: &str| vec![NewJob { route: route(name), ..word_of(name) }];
    store.settle_with(&lease, deliver(&lease, T0), word("settled"), T0).await;
    store.0.redrive(redrive("replayed", word("replayed"))).await.unwrap();
    store.0.discard(discard("discarded", word("discarded"))).await.unwrap();
    let [settled, replayed, discarded, other] = &mut bells;
    for (name, waker) in [settled, replayed, discarded] {
        assert_woken(waker, &format!("for what follows on {name}")).await;
    }
    assert!(is_quiet(&mut other.1), "another route rang");
}

pub async fn follow_ups_go_in_line_like_all_others(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let hook = |name: &str| NewJob { route: route("hooks"), ..job(name) };
    let of_other = |name: &str| NewJob { company: company("other"), ..hook(name) };
    store.accept(vec![hook("third"), NewJob { priority: priority(9), ..hook("sixth") }, job("a")]).await;
    let lease = store.only(T0).await;
    let follow_ups = vec![
        hook("fourth"),
        NewJob { due_at: T0.plus(SECOND), ..hook("fifth") },
        NewJob { priority: priority(1), ..hook("second") },
        NewJob { due_at: T0.plus(HOUR), ..hook("not-yet") },
        of_other("theirs"),
    ];
    store.settle_with(&lease, deliver(&lease, T0), follow_ups, T0).await;
    store.accept(vec![of_other("theirs-too")]).await;

    let claimed = store.claim(Pick::Ready(route("hooks")), 10, T0.plus(SECOND)).await;
    let of = |tenant: &str| -> Vec<&str> {
        let theirs = claimed.leases.iter().filter(|lease| lease.job.company == company(tenant));
        theirs.map(|lease| lease.job.id.as_str()).collect()
    };
    assert_eq!(of("acme"), ["second", "third", "fourth", "fifth", "sixth"]);
    assert_eq!(of("other"), ["theirs", "theirs-too"]);
    assert_eq!(claimed.next_at, Some(T0.plus(HOUR)));
    let turn = claimed.leases.iter().take_while(|lease| lease.job.company == company("acme")).count();
    assert!(turn <= 3, "one tenant got {turn} in a row while another one waited");
}

pub async fn each_settlement_of_a_batch_is_followed_up_on_its_own(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a"), job("b")]).await;
    let leases = store.ready(2, T0).await;
    let settlement = |at: usize, word: &str| Settlement {
        token: leases[at].token,
        transition: deliver(&leases[at], T0),
        audit: None,
        now: T0,
        follow_ups: vec![word_of(word)],
    };
    let batch = vec![settlement(0, "a"), settlement(0, "a-again"), settlement(1, "b")];
    let answers = store.0.settle(batch).await.unwrap();
    assert_eq!(answers, [Settled::Done, Settled::Stale, Settled::Done]);
    let claimed = store.claim(Pick::Ready(route("hooks")), 9, T0).await;
    let words: Vec<_> = claimed.leases.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(words, ["word-of-a", "word-of-b"], "in the order of the settlements");
}

pub async fn a_replay_is_followed_up_only_when_it_is_done(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in [Stage::Dead, Stage::Replaying, Stage::Sent] {
        store.bring(&stage.name(), stage).await;
    }
    for (name, expected) in [
        ("replaying", Redriven::AlreadyReplaying),
        ("sent", Redriven::Unknown),
        ("unknown", Redriven::Unknown),
        ("dead", Redriven::Done),
    ] {
        let done = expected == Redriven::Done;
        assert_eq!(store.0.redrive(redrive(name, vec![word_of(name)])).await.unwrap(), expected, "{name}");
        assert_eq!(store.find(word_of(name).id.as_str(), T0).await.is_some(), done, "{name}");
    }
}

pub async fn a_discard_is_followed_up_only_when_it_is_done(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in [Stage::Dead, Stage::Replaying, Stage::Sent] {
        store.bring(&stage.name(), stage).await;
    }
    for (name, expected) in [
        ("replaying", Discarded::Replaying),
        ("sent", Discarded::Unknown),
        ("unknown", Discarded::Unknown),
        ("dead", Discarded::Done),
    ] {
        let done = expected == Discarded::Done;
        assert_eq!(store.0.discard(discard(name, vec![word_of(name)])).await.unwrap(), expected, "{name}");
        assert_eq!(store.find(word_of(name).id.as_str(), T0).await.is_some(), done, "{name}");
    }
}
