//! The stored format: ours, of a version we know, and read for as long as it is supported.

use std::path::Path;

use recado_core::{
    AttemptResult, AuditKind, BodyHash, Cause, DeadLetterState, NewJob, Progress, RouteName, Status,
};
use recado_store::{Claim, Enqueued, JobView, Pick, Redriven, Store};
use recado_store_embedded::{EmbeddedStore, FORMAT_VERSION, OpenError};
use rusqlite::Connection;

use crate::given::{DAY, Directory, HOUR, T0, id, job, options};

/// Made by `examples/make_fixture.rs`.
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-v1.db");

fn refused(home: &Directory) -> String {
    let error = EmbeddedStore::open(&options(home.path())).expect_err("the file was accepted");
    assert!(matches!(error, OpenError::Schema { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains(home.file().to_str().unwrap()), "the file is not named: {said}");
    said
}

#[test]
fn somebody_elses_database_is_refused_and_left_as_it_was() {
    let home = Directory::new();
    Connection::open(home.file()).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    let before = std::fs::read(home.file()).unwrap();
    let said = refused(&home);
    assert!(said.contains("not a Recado store") && said.contains("--data-dir"), "{said}");
    assert_eq!(std::fs::read(home.file()).unwrap(), before, "the file was changed");
}

#[test]
fn an_empty_database_that_another_program_has_marked_is_refused() {
    let home = Directory::new();
    Connection::open(home.file()).unwrap().execute_batch("PRAGMA application_id = 7; VACUUM").unwrap();
    assert!(refused(&home).contains("application id 0x7"));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_was() {
    let home = Directory::new();
    let text = "not a database at all, but long enough to be taken for one at first sight".repeat(20);
    std::fs::write(home.file(), &text).unwrap();
    assert!(refused(&home).contains("not a database"));
    assert_eq!(std::fs::read_to_string(home.file()).unwrap(), text, "the file was changed");
}

#[test]
fn a_file_of_a_later_format_is_refused_with_the_way_out() {
    let home = Directory::new();
    drop(home.store());
    let later = FORMAT_VERSION + 1;
    Connection::open(home.file()).unwrap().pragma_update(None, "user_version", later).unwrap();
    let said = refused(&home);
    assert!(said.contains(&format!("format {later}")) && said.contains("use a newer recado"), "{said}");
}

fn tables(file: &Path) -> Vec<String> {
    let file = Connection::open(file).unwrap();
    let mut select =
        file.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").unwrap();
    let found = select.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

#[test]
fn the_tables_have_not_changed_without_a_new_version() {
    let home = Directory::new();
    drop(home.store());
    assert_eq!(
        tables(&home.file()),
        tables(Path::new(FIXTURE)),
        "the tables are not those of format {FORMAT_VERSION} any more: give the format a new version, a reader \
         for the old one and a fixture"
    );
}

/// The fixture, copied, because opening a store changes it.
fn opened() -> (Directory, EmbeddedStore) {
    let home = Directory::new();
    std::fs::copy(FIXTURE, home.file()).unwrap();
    let store = home.store();
    (home, store)
}

async fn view(store: &EmbeddedStore, name: &str) -> JobView {
    store.job(&id(name), T0).await.unwrap().unwrap_or_else(|| panic!("{name} is not in the fixture"))
}

#[tokio::test]
async fn a_file_of_format_1_is_read_job_by_job() {
    let (_home, store) = opened();
    let untouched = Progress::default();
    let tried = Progress { attempts_started: 1, attempts_spent: 1, ..untouched };
    for (name, status, progress, data) in [
        ("scheduled", Status::Scheduled, untouched, r#"{"for":"scheduled"}"#),
        ("queued", Status::Queued, untouched, r#"{"for":"queued"}"#),
        ("cancelled", Status::Cancelled, untouched, "null"),
        ("held-outside", Status::Delivering, untouched, r#"{"for":"held-outside"}"#),
        ("held-inside", Status::Delivering, untouched, r#"{"for":"held-inside"}"#),
        ("retrying", Status::Retrying, tried, r#"{"for":"retrying"}"#),
        ("postponed", Status::Scheduled, Progress { deferrals: 1, ..untouched }, r#"{"for":"postponed"}"#),
        ("sent", Status::Sent, tried, "null"),
        ("dead", Status::Failed, tried, r#"{"for":"dead"}"#),
        (
            "replaying",
            Status::Queued,
            Progress { attempts_started: 1, replays: 1, ..untouched },
            r#"{"corrected":true}"#,
        ),
    ] {
        let JobView { job, status: found, .. } = view(&store, name).await;
        assert_eq!((found, job.progress, job.data.as_str()), (status, progress, data), "{name}");
        assert_eq!((job.company.as_str(), job.route.as_str()), ("acme", &*format!("to-{name}")), "{name}");
        assert_eq!(job.enqueued_at, T0, "{name}");
    }
    let counts = store.counts(T0).await.unwrap();
    assert_eq!((counts.delayed, counts.ready, counts.leased), (3, 2, 2));
    assert_eq!((counts.dead_letters, counts.ended), (2, 2));
}

#[tokio::test]
async fn the_details_of_format_1_are_read() {
    let (_home, store) = opened();
    let scheduled = view(&store, "scheduled").await.job;
    assert_eq!(
        (scheduled.priority.level(), scheduled.due_at, scheduled.expires_at),
        (1, T0.plus(HOUR), T0.plus(DAY))
    );
    assert_eq!(
        (scheduled.user_id.as_deref(), scheduled.correlation_id.as_deref()),
        (Some("user-7"), Some("corr-9"))
    );
    let queued = view(&store, "queued").await.job;
    assert_eq!((queued.user_id, queued.correlation_id), (None, None));

    let attempts = view(&store, "retrying").await.job.attempts;
    assert_eq!((attempts.len(), attempts[0].result), (1, AttemptResult::Failed));
    assert_eq!(
        (attempts[0].error_code.as_deref(), attempts[0].next_retry_delay_ms),
        (Some("421"), Some(3_600_000))
    );
    let sent = view(&store, "sent").await;
    assert_eq!(sent.answer.as_ref().map(|answer| answer.as_str()), Some(r#"{"messageId":"m-1"}"#));
    assert_eq!(sent.ended_at, Some(T0));

    let entry = store.dead_letter(&id("dead")).await.unwrap().unwrap();
    assert_eq!(
        (entry.last_failure_reason.as_str(), entry.last_failure_code.as_deref()),
        ("não existe", Some("550"))
    );
    assert_eq!((entry.cause, entry.state, entry.ttl), (Cause::Permanent, DeadLetterState::Dead, 7 * DAY));
    assert_eq!((entry.failed_attempts, entry.attempts.len(), entry.moved_at), (1, 1, T0));
    let replaying = store.dead_letter(&id("replaying")).await.unwrap().unwrap();
    assert_eq!(replaying.state, DeadLetterState::Replaying);
    assert_eq!(replaying.original_data.as_str(), r#"{"for":"replaying"}"#);
    let trail: Vec<_> =
        store.audit(&id("replaying")).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(trail, [AuditKind::Buried, AuditKind::Replayed]);
}

#[tokio::test]
async fn work_goes_on_from_a_file_of_format_1() {
    let (_home, store) = opened();
    let body_hash = BodyHash(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    for name in ["queued", "sent", "dead", "cancelled"] {
        let answers = store.enqueue(vec![NewJob { body_hash, ..job(name) }, job(name)]).await.unwrap();
        assert!(
            matches!(answers[..], [Enqueued::Duplicate { .. }, Enqueued::Conflict]),
            "{name}: {answers:?}"
        );
    }
    let claim = |pick, now| Claim {
        pick,
        max: 10,
        now,
        lease_until: T0.plus(DAY),
        worker: "after".into(),
        outlives_process: false,
    };
    let orphans = store.claim(claim(Pick::Orphaned, T0)).await.unwrap().leases;
    let names: Vec<_> = orphans.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["held-inside"], "the process that held it is gone; the other lease is held outside");
    let outside = store.claim(claim(Pick::Orphaned, T0.plus(HOUR))).await.unwrap().leases;
    assert_eq!(outside.len(), 1, "until its time is up");
    for (name, attempt) in
        [("queued", 1), ("retrying", 2), ("postponed", 1), ("scheduled", 1), ("replaying", 2)]
    {
        let route = Pick::Ready(RouteName::new(format!("to-{name}")).unwrap());
        let leases = store.claim(claim(route, T0.plus(HOUR))).await.unwrap().leases;
        assert_eq!((leases.len(), leases[0].attempt), (1, attempt), "{name}");
    }
    let mut audit = recado_core::AuditEvent::claim("dead", "to-dead", AuditKind::Replayed, T0);
    audit.job_id = Some("dead".into());
    let redrive =
        recado_store::Redrive { id: id("dead"), data: None, due_at: T0, expires_at: T0.plus(DAY), audit };
    assert_eq!(store.redrive(redrive).await.unwrap(), Redriven::Done);
}
