//! People open the file with `sqlite3`: what they are told to type works.

use recado_core::{CompanyId, NewJob};
use recado_store::prelude::*;
use recado_store::{Discard, JobSnapshot};
use rusqlite::{Connection, OpenFlags};

use crate::given::{Directory, T0, bury, claim, job, settle};

/// Runbook 1, step 1, as written.
const BY_CODE: &str = "
   SELECT lastFailureCode, COUNT(*)
   FROM dlq
   GROUP BY lastFailureCode
   ORDER BY COUNT(*) DESC;
";

/// Runbook 1, step 2, as written.
const BY_COMPANY: &str = "
   SELECT companyId, COUNT(*)
   FROM dlq
   GROUP BY companyId
   ORDER BY COUNT(*) DESC
   LIMIT 10;
";

async fn with_dead_letters(
    home: &Directory,
    dead: &[(&str, &str, &str)],
) -> recado_store_embedded::EmbeddedStore {
    let store = home.store();
    for (name, company, code) in dead {
        let company = CompanyId::new(*company).unwrap();
        store.enqueue(vec![NewJob { company, ..job(name) }]).await.unwrap();
        let lease = claim(&store, 1, T0).await.remove(0);
        settle(&store, &lease, bury(&lease, Some(code), "no such mailbox")).await.unwrap();
    }
    store
}

fn rows(home: &Directory, sql: &str) -> Vec<(String, i64)> {
    let file = Connection::open_with_flags(home.file(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut select = file.prepare(sql).unwrap();
    let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    found.map(Result::unwrap).collect()
}

#[tokio::test]
async fn both_questions_of_the_runbook_are_answered_on_the_file_while_it_is_in_use() {
    let home = Directory::in_memory();
    let dead = [
        ("1", "acme", "550"),
        ("2", "acme", "550"),
        ("3", "acme", "554"),
        ("4", "apex", "550"),
        ("5", "apex", "421"),
    ];
    let store = with_dead_letters(&home, &dead).await;
    let by_code = rows(&home, BY_CODE);
    assert_eq!(by_code[0], ("550".to_owned(), 3));
    assert_eq!(by_code.len(), 3);
    assert_eq!(rows(&home, BY_COMPANY), [("acme".to_owned(), 3), ("apex".to_owned(), 2)]);
    drop(store);
}

#[tokio::test]
async fn the_table_has_the_required_columns_with_the_entrys_values() {
    let home = Directory::in_memory();
    let store = with_dead_letters(&home, &[("1", "acme", "550")]).await;
    store.close().await.unwrap();
    let file = Connection::open(home.file()).unwrap();
    let sql = "SELECT jobId, outboxId, companyId, originalData, lastFailureReason, lastFailureCode, \
               lastFailureTimestamp, enqueuedAt, movedToDLQAt FROM dlq";
    let texts: Vec<String> = file
        .query_row(sql, [], |row| (0..9).map(|column| row.get(column)).collect::<rusqlite::Result<_>>())
        .unwrap();
    let at = "2025-01-12T10:30:00.000Z";
    assert_eq!(texts, ["1", "1", "acme", r#"{"for":"1"}"#, "no such mailbox", "550", at, at, at]);
    let numbers: (i64, i64) = file
        .query_row("SELECT failedAttempts, ttl FROM dlq", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(numbers, (1, 604_800_000), "one attempt, kept for seven days in milliseconds");
}

#[tokio::test]
async fn a_blank_failure_reason_is_refused_by_the_table_itself() {
    let home = Directory::in_memory();
    let store = with_dead_letters(&home, &[("1", "acme", "550")]).await;
    store.close().await.unwrap();
    let file = Connection::open(home.file()).unwrap();
    for blank in ["", " ", "\t", "\n", " \r\n\t "] {
        let set = file.execute("UPDATE dlq SET lastFailureReason = ?1", [blank]);
        let error = set.expect_err("a blank reason was taken").to_string();
        assert!(error.contains("CHECK constraint failed"), "{blank:?}: {error}");
    }
    let absent =
        file.execute("UPDATE dlq SET lastFailureReason = NULL", []).expect_err("no reason was taken");
    assert!(absent.to_string().contains("NOT NULL"), "{absent}");
    assert_eq!(
        file.execute("UPDATE dlq SET lastFailureReason = ' why '", []).unwrap(),
        1,
        "a reason is taken"
    );
}

/// SQLite's plan for a query.
fn plan(home: &Directory, sql: &str) -> String {
    let file = Connection::open_with_flags(home.file(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut explain = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = explain.query_map([], |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn g20_neither_question_of_the_runbook_reads_a_payload() {
    let home = Directory::in_memory();
    let store = with_dead_letters(&home, &[("1", "acme", "550")]).await;
    for question in [BY_CODE, BY_COMPANY] {
        let plan = plan(&home, question);
        assert!(plan.contains("USING COVERING INDEX dlq_facets"), "{plan}");
    }
    drop(store);
}

#[tokio::test]
async fn a_dead_letter_that_comes_back_brings_no_second_copy_of_its_trail() {
    let home = Directory::in_memory();
    let store = with_dead_letters(&home, &[("1", "acme", "550")]).await;
    let id = recado_core::JobId::new("1").unwrap();
    let back = store.transfer(&id).await.unwrap().unwrap();
    let event = |kind| recado_core::AuditEvent::about(&back.job, kind, back.job.enqueued_at);
    let audit = event(recado_core::AuditKind::DeadLetterArchived);
    store.discard(Discard { id: id.clone(), replays: None, audit, follow_ups: Vec::new() }).await.unwrap();
    let mut trail = store.audit(&id).await.unwrap();
    let rows_before = rows(&home, "SELECT 'rows', count(*) FROM audit");
    trail.push(event(recado_core::AuditKind::DeadLetterImported));
    store.adopt(vec![JobSnapshot { audit: trail.clone(), ..back }]).await.unwrap();
    assert_eq!(store.audit(&id).await.unwrap(), trail);
    assert_eq!(rows(&home, "SELECT 'rows', count(*) FROM audit")[0].1, rows_before[0].1 + 1, "one is new");
}
