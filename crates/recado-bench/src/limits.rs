//! Limits of the machine itself, for comparison.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::StatusCode;
use rusqlite::{CachedStatement, Connection};

use super::load::{Posted, drive};
use super::report::Report;
use super::scene::job_body;
use super::{BenchOptions, Failed};

pub const FSYNC: &str = "fsyncs of a 4 KiB write";
pub const RAW_INSERTS: &str = "bare SQLite inserts, 1,000 a commit";
pub const RAW_UPDATES: &str = "bare SQLite updates, 1,000 a commit";
pub const BARE_AXUM: &str = "bare axum handler, 50 connections";

const ROWS_PER_COMMIT: usize = 1_000;

pub async fn fsync(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (path, time) = (options.dir.join("fsync"), options.seconds(2.0));
    let per_second = tokio::task::spawn_blocking(move || fsyncs_per_second(&path, time)).await??;
    report.add(FSYNC, per_second, "/s");
    Ok(())
}

fn fsyncs_per_second(path: &Path, time: Duration) -> Result<f64, Failed> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    let page = [7_u8; 4_096];
    file.write_all_at(&vec![0_u8; 4 << 20], 0)?;
    let started = Instant::now();
    let mut syncs = 0_u64;
    while started.elapsed() < time {
        file.write_all_at(&page, (syncs % 1_024) * 4_096)?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / started.elapsed().as_secs_f64())
}

pub async fn sqlite(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    let (path, rows) = (options.dir.join("bare.db"), options.count(300_000));
    let (inserts, updates) = tokio::task::spawn_blocking(move || bare_rows_per_second(&path, rows)).await??;
    report.add(RAW_INSERTS, inserts, "rows/s");
    report.add(RAW_UPDATES, updates, "rows/s");
    Ok(())
}

/// Inserts and updates.
fn bare_rows_per_second(path: &Path, rows: usize) -> Result<(f64, f64), Failed> {
    let file = Connection::open(path)?;
    file.pragma_update(None, "journal_mode", "WAL")?;
    file.pragma_update(None, "synchronous", "FULL")?;
    file.execute_batch(
        "CREATE TABLE bare (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, data TEXT NOT NULL, state TEXT)",
    )?;
    let data = job_body("worker");
    let inserts = commits(&file, rows, "INSERT INTO bare (id, data) VALUES (?1, ?2)", |insert, _| {
        insert.execute((uuid::Uuid::new_v4().to_string(), &data))
    })?;
    let updates = commits(&file, rows, "UPDATE bare SET state = 'sent' WHERE seq = ?1", |update, row| {
        update.execute([row + 1])
    })?;
    Ok((inserts, updates))
}

/// Runs a statement for each row, a thousand rows a commit: rows a second.
fn commits(
    file: &Connection,
    rows: usize,
    statement: &str,
    run: impl Fn(&mut CachedStatement<'_>, usize) -> rusqlite::Result<usize>,
) -> Result<f64, Failed> {
    let started = Instant::now();
    for commit in 0..rows / ROWS_PER_COMMIT {
        file.execute_batch("BEGIN")?;
        let mut statement = file.prepare_cached(statement)?;
        for row in 0..ROWS_PER_COMMIT {
            run(&mut statement, commit * ROWS_PER_COMMIT + row)?;
        }
        drop(statement);
        file.execute_batch("COMMIT")?;
    }
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}

/// The least that an axum service can do with a request: read its body and answer as we do.
pub async fn bare_axum(options: &BenchOptions, report: &mut Report) -> Result<(), Failed> {
    async fn handler(body: Bytes) -> (StatusCode, [(&'static str, &'static str); 1], String) {
        let is_empty = body.is_empty();
        let answer = format!(r#"{{"jobId":"bare","status":"queued","duplicate":{is_empty}}}"#);
        (StatusCode::ACCEPTED, [("content-type", "application/json")], answer)
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = axum::Router::new().route("/v1/jobs", axum::routing::post(handler));
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let body = || job_body("bench-worker");
    let posted = Posted { path: "/v1/jobs", content_type: "application/json", body };
    let driven = drive(address, 50, options.seconds(4.0), posted).await?;
    server.abort();
    report.add(BARE_AXUM, driven.per_second(), "/s").set_latencies(driven.latencies);
    Ok(())
}
