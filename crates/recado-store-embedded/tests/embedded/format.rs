//! The stored format: ours, of a version we know, and read for as long as it is supported.

use std::path::{Path, PathBuf};

use recado_core::{
    AttemptResult, AuditKind, BodyHash, Cause, DeadLetterState, NewJob, Progress, RouteName, Status,
};
use recado_store::prelude::*;
use recado_store::{Claim, Enqueued, JobView, KvWrite, KvWritten, Namespace, Pick, Redriven, Turns};
use recado_store_embedded::{EmbeddedStore, FORMAT_VERSION, OpenError};
use rusqlite::Connection;

use crate::given::{DAY, Directory, HOUR, T0, id, job, open, options};

/// A file of that format, made by `examples/make_store_fixture.rs` when it was the newest.
fn fixture(version: i32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-v{version}.db"))
}

fn refused(home: &Directory) -> String {
    let error = open(&options(home.path())).expect_err("the file was accepted");
    assert!(matches!(error, OpenError::Schema { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains(home.file().to_str().unwrap()), "the file is not named: {said}");
    said
}

#[test]
fn another_programs_database_is_refused_and_left_as_it_was() {
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
    let mut select = file
        .prepare(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL \
             AND name NOT IN ('dlq_facets', 'jobs_given_up', 'jobs_retrying') ORDER BY name",
        )
        .unwrap();
    let found = select.query_map([], |row| row.get(0)).unwrap();
    found.map(Result::unwrap).collect()
}

#[test]
fn the_tables_have_not_changed_without_a_new_version() {
    let home = Directory::new();
    drop(home.store());
    assert_eq!(
        tables(&home.file()),
        tables(&fixture(FORMAT_VERSION)),
        "the tables are not those of format {FORMAT_VERSION} any more: give the format a new version, a reader \
         for the old one and a fixture"
    );
}

/// A directory with a copy of the fixture, because opening a store changes it.
fn home_with(version: i32) -> Directory {
    let home = Directory::new();
    std::fs::copy(fixture(version), home.file()).unwrap();
    home
}

fn version(file: &Path) -> i32 {
    Connection::open(file).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_file_of_format_1_gets_the_tables_of_the_newest_once_it_is_opened() {
    let (new, old) = (Directory::new(), home_with(1));
    assert_eq!(version(&old.file()), 1, "the fixture is not of format 1: nothing was tested");
    drop((new.store(), old.store()));
    assert_eq!((version(&old.file()), tables(&old.file())), (FORMAT_VERSION, tables(&new.file())));
}

/// Something of that name is there already, so that a step in the middle of the migration fails.
#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    let home = home_with(1);
    let clash = "CREATE INDEX notes_by_expiry ON jobs (dueAt)";
    Connection::open(home.file()).unwrap().execute_batch(clash).unwrap();
    let before = tables(&home.file());
    assert!(refused(&home).contains("notes_by_expiry"), "it failed for another reason");
    assert_eq!((version(&home.file()), tables(&home.file())), (1, before));

    Connection::open(home.file()).unwrap().execute_batch("DROP INDEX notes_by_expiry").unwrap();
    drop(home.store());
    assert_eq!(version(&home.file()), FORMAT_VERSION);
}

/// One module of tests for each format that is supported.
macro_rules! supported {
    ($($format:ident: $version:literal)+) => {
        $(mod $format {
            #[tokio::test]
            async fn is_read_job_by_job() {
                super::is_read_job_by_job($version).await;
            }

            #[tokio::test]
            async fn is_read_in_every_detail() {
                super::is_read_in_every_detail($version).await;
            }

            #[tokio::test]
            async fn is_where_work_goes_on() {
                super::is_where_work_goes_on($version).await;
            }

            #[tokio::test]
            async fn keeps_notes() {
                super::keeps_notes($version).await;
            }
        })+

        #[test]
        fn every_format_is_supported() {
            assert_eq!([$($version),+].len(), FORMAT_VERSION as usize);
        }
    };
}

supported! {
    format_1: 1
    format_2: 2
    format_3: 3
    format_4: 4
    format_5: 5
}

async fn view(store: &EmbeddedStore, name: &str) -> JobView {
    store.job(&id(name), T0).await.unwrap().unwrap_or_else(|| panic!("{name} is not in the fixture"))
}

async fn is_read_job_by_job(version: i32) {
    let home = home_with(version);
    let store = home.store();
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

async fn is_read_in_every_detail(version: i32) {
    let home = home_with(version);
    let store = home.store();
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
    assert_eq!((queued.user_id, queued.correlation_id, queued.traceparent), (None, None, None));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().ok();
    assert_eq!(scheduled.traceparent, parent.filter(|_| version >= 3), "formats 1 and 2 know of no traces");

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
    assert_eq!((entry.failure.reason.as_str(), entry.failure.code.as_deref()), ("não existe", Some("550")));
    assert_eq!((entry.cause, entry.state, entry.ttl), (Cause::Permanent, DeadLetterState::Dead, 7 * DAY));
    assert_eq!((entry.failed_attempts, entry.attempts.len(), entry.moved_at), (1, 1, T0));
    let replaying = store.dead_letter(&id("replaying")).await.unwrap().unwrap();
    assert_eq!(replaying.state, DeadLetterState::Replaying);
    assert_eq!(replaying.original_data.as_str(), r#"{"for":"replaying"}"#);
    let trail: Vec<_> =
        store.audit(&id("replaying")).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(trail, [AuditKind::Buried, AuditKind::Replayed]);
}

async fn is_where_work_goes_on(version: i32) {
    let home = home_with(version);
    let store = home.store();
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
        provider: None,
        outlives_process: false,
        turns: Turns::default(),
    };
    let orphans = store.claim(claim(Pick::Orphaned, T0)).await.unwrap().leases;
    let names: Vec<_> = orphans.iter().map(|lease| lease.job.id.as_str()).collect();
    assert_eq!(names, ["held-inside"], "the process that held it is gone; the other lease is held outside");
    let provider = orphans[0].lost.as_ref().unwrap().provider.as_deref();
    let known = Some("provider-1").filter(|_| version >= 5);
    assert_eq!(provider, known, "formats before 5 do not know which provider a lease was claimed for");
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
    let redrive = recado_store::Redrive {
        id: id("dead"),
        data: None,
        due_at: T0,
        expires_at: T0.plus(DAY),
        audit,
        follow_ups: Vec::new(),
    };
    assert_eq!(store.redrive(redrive).await.unwrap(), Redriven::Done);
}

async fn keeps_notes(version: i32) {
    const ACCOUNTS: Namespace = Namespace::new("accounts");
    let home = home_with(version);
    let store = home.store();
    let found = store.kv_list(ACCOUNTS, T0).await.unwrap();
    let found: Vec<_> = found.iter().map(|note| (&*note.key, note.value.as_str(), note.expires_at)).collect();
    let value = r#"{"marked":"não entrega"}"#;
    let expected: &[_] = match version {
        1 => &[],
        _ => &[("for-an-hour", value, Some(T0.plus(HOUR))), ("for-good", value, None)],
    };
    assert_eq!(found, expected);
    // Three versions have been given in the fixture, the last one to a note that is gone.
    let given = if version == 1 { 0 } else { 3 };
    let write = KvWrite {
        namespace: ACCOUNTS,
        key: "removed".into(),
        value: Some(job("a").data),
        expect: Some(0),
        expires_at: None,
        audit: Vec::new(),
    };
    let noted = store.kv_write(vec![write], T0).await.unwrap();
    assert_eq!(noted, [KvWritten::Done { version: given + 1 }]);
}
