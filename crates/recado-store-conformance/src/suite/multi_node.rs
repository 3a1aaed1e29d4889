//! Promises to several nodes that share a store.

use recado_core::{LostLease, NewJob, Status};
use recado_store::{Claim, Enqueued, KvWrite, KvWritten, Pick, Retention, Settled, Turns};

use super::waking::assert_woken;
use crate::Home;
use crate::given::{
    ACCOUNTS, ENDPOINTS, HOUR, SECOND, T0, TestStore, attempt, company, deliver, job, jobs_of, route, write,
};

fn claim_of_node(node: &str, max: usize) -> Claim {
    Claim {
        pick: Pick::Ready(route("email")),
        max,
        now: T0,
        lease_until: T0.plus(HOUR),
        worker: node.into(),
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    }
}

pub async fn a_lease_ends_by_time_alone_whichever_node_opens_the_store(home: &mut dyn Home) {
    let first = TestStore::at(home).await;
    first.accept(vec![job("a")]).await;
    let lease = first.0.claim(claim_of_node("first", 1)).await.unwrap().leases.remove(0);
    let second = TestStore::at(home).await;
    assert_eq!(second.claim(Pick::Orphaned, 10, T0).await.leases.len(), 0, "its holder is at work");
    drop(first);
    let third = TestStore::at(home).await;
    let early = third.claim(Pick::Orphaned, 10, T0).await;
    assert_eq!((early.leases.len(), early.next_at), (0, Some(T0.plus(HOUR))), "its end is not known yet");
    let taken = second.claim(Pick::Orphaned, 10, T0.plus(HOUR)).await.leases.remove(0);
    assert_eq!(
        taken.lost,
        Some(LostLease { attempt: 1, claimed_at: T0, worker: "first".into(), provider: None })
    );
    assert_eq!(
        third.settle(&lease, deliver(&lease, T0), T0).await,
        Settled::Stale,
        "its holder is fenced off"
    );
    third.done(&taken, deliver(&taken, T0), T0).await;
}

pub async fn turns_go_on_through_a_restart(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 6)).await;
    store.ready(2, T0).await;
    store.0.close().await.unwrap();
    drop(store);
    let (one, two) = (TestStore::at(home).await, TestStore::at(home).await);
    assert_eq!(one.tenant("a", T0).await.unwrap().consecutive_batch_count, 2, "two of its turn were had");
    one.ready(1, T0).await;
    two.ready(1, T0).await;
    let seen = two.tenant("a", T0).await.unwrap();
    assert_eq!((seen.consecutive_batch_count, seen.total_processed), (1, 4), "whichever node asks");
}

pub async fn what_one_node_does_the_others_see(home: &mut dyn Home) {
    let (one, two) = (TestStore::at(home).await, TestStore::at(home).await);
    one.accept(vec![job("a"), NewJob { company: company("b"), ..job("b") }]).await;
    assert_eq!(two.enqueue(vec![job("a")]).await, [Enqueued::Duplicate { status: Status::Queued }]);
    let leases = two.ready(1, T0).await;
    assert_eq!(one.ready(9, T0).await.len(), 1, "what one holds the other does not get");
    let now = T0.plus(SECOND);
    let lost = Some(attempt(1, recado_core::AttemptResult::Lost, now));
    one.done(&leases[0], recado_core::Transition::Release { at: now, lost }, now).await;
    assert_eq!(two.settle(&leases[0], deliver(&leases[0], now), now).await, Settled::Stale);
    assert_eq!(two.only(now).await.attempt, 2);
    let version = one.written(write("entry", "1"), T0).await;
    assert_eq!(two.entry("entry", T0).await.unwrap().version, version);
}

pub async fn one_nodes_work_wakes_another(home: &mut dyn Home) {
    let (one, two) = (TestStore::at(home).await, TestStore::at(home).await);
    let mut waker = two.0.waker(&route("email"));
    one.accept(vec![job("a")]).await;
    assert_woken(&mut waker, "for a job that another node took in").await;
}

pub async fn a_namespaces_version_tells_of_every_change_of_its_entries_and_of_no_others(home: &mut dyn Home) {
    let (one, two) = (TestStore::at(home).await, TestStore::at(home).await);
    let mut known = Vec::new();
    let mut is_news = async |what: &str| {
        let found = two.0.kv_versions(&[ACCOUNTS, ENDPOINTS]).await.unwrap();
        assert!(found.iter().all(Option::is_some), "it tells of both after {what}");
        let news = known.first() != found.first();
        assert!(known.is_empty() || known[1] == found[1], "{what} is no news of the other namespace");
        known = found;
        news
    };
    let briefly = KvWrite { expires_at: Some(T0.plus(SECOND)), ..write("brief", "1") };
    assert!(is_news("the start").await);
    one.written(write("entry", "1"), T0).await;
    one.written(briefly, T0).await;
    assert!(is_news("two entries").await && !is_news("nothing").await);
    one.written(write("entry", "1"), T0).await;
    assert!(is_news("the same words again").await);
    let stale = KvWrite { expect: Some(0), ..write("entry", "2") };
    assert!(matches!(one.0.kv_write(vec![stale], T0).await.unwrap()[..], [KvWritten::Conflict { .. }]));
    assert!(!is_news("a refused write").await);
    one.0.kv_write(vec![KvWrite { value: None, ..write("entry", "1") }], T0).await.unwrap();
    assert!(is_news("an entry that was removed").await);
    let nothing = Retention { ended_max_age: SECOND, ended_max_count: 0 };
    assert_eq!(one.0.prune(nothing, T0.plus(SECOND)).await.unwrap().kv_entries, 1);
    assert!(is_news("an entry that was pruned").await && !is_news("nothing more").await);
}

pub async fn one_nodes_entries_wake_another(home: &mut dyn Home) {
    let (one, two) = (TestStore::at(home).await, TestStore::at(home).await);
    let mut waker = two.0.kv_changes().unwrap();
    one.written(write("entry", "1"), T0).await;
    assert_woken(&mut waker, "for an entry that another node wrote").await;
}
