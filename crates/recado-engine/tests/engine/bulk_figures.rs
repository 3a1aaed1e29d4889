//! The figures of bulk acts add up, whatever cuts in.
//!
//! Random lives of processes over one queue: two bulk acts over the same entries, people in between, notes that get
//! lost, and each life but the last one cut off without warning.

use recado_store::prelude::*;
use std::sync::Arc;
use std::time::Duration;

use recado_core::{JobId, Status};
use recado_engine::Engine;
use recado_engine::dlq::bulk::{Bulk, BulkAct, BulkOrder, BulkState, Chosen};
use recado_store::StoreError;
use recado_store::reference::ReferenceStore;
use recado_store_conformance::faulty::{FaultyStore, Verb};

use crate::bulk::{bury, order};
use crate::given::{Given, Scripted};

const STORIES: u64 = 30;

/// Numbers without a pattern, the same for the same seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Proof that a story's subject did happen.
#[derive(Default)]
struct Seen {
    /// Entries that were done when a process died, and not counted yet.
    uncounted: u64,
    lost_answers: usize,
    skipped: u64,
}

/// One process: what it does until it is cut off, in virtual time.
fn live<R>(store: &Arc<ReferenceStore>, nth: i64, life: impl AsyncFnOnce(&Given) -> R) -> R {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let given = Given { store: store.clone(), ..Given::new() };
        given.clock.set_by(60 * nth);
        life(&given).await
    })
}

fn id(nth: u64) -> JobId {
    JobId::new(format!("job-{nth}")).unwrap()
}

fn wanted(draws: &mut Draws, entries: u64) -> BulkOrder {
    let act = if draws.below(2) == 0 { BulkAct::Replay } else { BulkAct::Discard };
    let named = draws.below(3) == 0;
    let job_ids =
        if named { (0..entries).filter(|_| draws.below(2) == 0).map(id).collect() } else { Vec::new() };
    let rate_per_second = Some(u32::try_from(1 + draws.below(100)).unwrap());
    BulkOrder { filter: Chosen { job_ids, ..Chosen::default() }, rate_per_second, ..order(act) }
}

/// Entries whose trail names this bulk act.
async fn on_record(given: &Given, bulk: &Bulk, entries: u64) -> u64 {
    let mut found = 0;
    for nth in 0..entries {
        let trail = given.store.audit(&id(nth)).await.unwrap();
        let names_it = |words: &str| words.contains(&*bulk.id);
        let records =
            trail.iter().filter(|event| event.decision.retry_reason.as_deref().is_some_and(names_it)).count();
        assert!(records <= 1, "job-{nth} was done twice by one act");
        found += records as u64;
    }
    found
}

async fn meddle(draws: &mut Draws, engine: &Engine, entries: u64) {
    let one = id(draws.below(entries));
    match draws.below(3) {
        0 => drop(engine.dlq.discard(&one, "not wanted", Some("rui")).await.unwrap()),
        1 => drop(engine.dlq.replay(&one, None, Some("by hand"), Some("rui")).await.unwrap()),
        _ => {}
    }
}

fn cut_short(draws: &mut Draws) -> Duration {
    Duration::from_millis(if draws.below(2) == 0 { draws.below(400) } else { draws.below(25_000) })
}

fn lose_some_answers(draws: &mut Draws, store: &FaultyStore) {
    let verb = if draws.below(2) == 0 { Verb::KvWriteAnswer } else { Verb::KvWrite };
    let (after, times) = (draws.below(8) as usize, draws.below(2) as usize);
    store.fail(verb, after, times, StoreError::Unavailable("for a moment".to_owned()));
}

fn story(seed: u64, seen: &mut Seen) {
    let mut draws = Draws(seed);
    let store = Arc::new(ReferenceStore::default());
    let far_end = Arc::new(Scripted::new(if seed.is_multiple_of(2) { &["550", "ok"] } else { &["550"] }));
    let entries = 3 + draws.below(20);
    let names: Vec<String> = (0..entries).map(|nth| format!("job-{nth}")).collect();
    let cuts = draws.below(4);
    let acts = [wanted(&mut draws, entries), wanted(&mut draws, entries)];
    let mut begun = Vec::new();
    for nth in 0..=cuts {
        let is_last = nth == cuts;
        live(&store, i64::try_from(nth).unwrap(), async |given| {
            let (engine, faulty) = given.shaky(&far_end);
            if nth == 0 {
                bury(given, &engine, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
                for act in acts.clone() {
                    begun.push(engine.dlq.start_bulk(act).await.unwrap().unwrap());
                }
            }
            lose_some_answers(&mut draws, &faulty);
            meddle(&mut draws, &engine, entries).await;
            match is_last {
                true => until_all_ended(&engine, &begun).await,
                false => tokio::time::sleep(cut_short(&mut draws)).await,
            }
            seen.lost_answers += faulty.fired(Verb::KvWriteAnswer);
            for bulk in engine.dlq.bulks().await.unwrap() {
                let start = begun.iter().find(|start| start.id == bulk.id).unwrap();
                let told =
                    bulk.figures.done + bulk.figures.skipped + bulk.figures.failed + bulk.figures.left();
                assert_eq!(
                    (told, bulk.figures.total),
                    (start.figures.total, start.figures.total),
                    "seed {seed}: {bulk:?}"
                );
                let records = on_record(given, &bulk, entries).await;
                assert!(bulk.figures.done <= records, "seed {seed}: {bulk:?}");
                seen.uncounted += records - bulk.figures.done;
                if is_last {
                    assert_eq!(
                        (bulk.state, bulk.figures.left()),
                        (BulkState::Done, 0),
                        "seed {seed}: {bulk:?}"
                    );
                    assert_eq!(
                        (bulk.figures.done, bulk.figures.failed),
                        (records, 0),
                        "seed {seed}: {bulk:?}"
                    );
                    seen.skipped += bulk.figures.skipped;
                }
            }
        });
    }
}

async fn until_all_ended(engine: &Engine, begun: &[Bulk]) {
    for start in begun {
        while engine.dlq.bulk(&start.id).await.unwrap().unwrap().state == BulkState::Running {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[test]
fn g7_what_was_done_skipped_and_left_is_the_total_over_crashes_and_other_acts() {
    let mut seen = Seen::default();
    (0..STORIES).for_each(|seed| story(seed, &mut seen));
    assert!(seen.uncounted > 0, "no process died with entries in hand");
    assert!(seen.lost_answers > 0, "no answer was lost");
    assert!(seen.skipped > 0, "no other was faster");
}

#[test]
fn a_stopped_bulk_act_says_what_it_left() {
    let store = Arc::new(ReferenceStore::default());
    live(&store, 0, async |given| {
        let (engine, _) = given.shaky(&Arc::new(Scripted::new(&["550", "ok"])));
        bury(given, &engine, &["job-0", "job-1", "job-2"]).await;
        let slow = BulkOrder { rate_per_second: Some(1), ..order(BulkAct::Replay) };
        let bulk = engine.dlq.start_bulk(slow).await.unwrap().unwrap();
        assert_eq!((bulk.figures.total, bulk.figures.left()), (3, 3));
        given.until("job-2", Status::Sent).await;
        engine.dlq.stop_bulk(&bulk.id, Some("rui")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let bulk = engine.dlq.bulk(&bulk.id).await.unwrap().unwrap();
        assert_eq!((bulk.state, bulk.figures.done, bulk.figures.left()), (BulkState::Stopped, 1, 2));
    });
}
