//! Lag of the trail's files: on every node, across restarts, and its alert.

use recado_store::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recado_core::Payload;
use recado_engine::audit::NAMESPACE;
use recado_engine::duties::alerts::AlertTerms;
use recado_engine::{Engine, Settings};
use recado_store::{KvWrite, Wakes};
use recado_store_conformance::faulty::FaultyStore;
use tempfile::TempDir;

use crate::given::{Given, settings};
use crate::trail::{archiving, count, node, parts, pass, paused, written};

/// The lag of the files on `/metrics`.
async fn late_s(engine: &Engine) -> f64 {
    let page = engine.gauges.prometheus().await;
    let line = page.lines().find_map(|line| line.strip_prefix("recado_audit_late_seconds "));
    line.unwrap_or_else(|| panic!("nothing is said: {page}")).parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn how_late_the_files_are_is_a_figure_and_grows_while_they_cannot_be_written() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let files = in_the_way(&dir);
    let engine = archiving(&given, &["ok"], &files);
    pass(600).await;
    assert!(files.is_file(), "the fault is still there");
    let late = late_s(&engine).await;
    assert!(late >= 599.0, "{late}");
    std::fs::remove_file(&files).unwrap();
    paused(&given, &engine, 1).await;
    pass(60).await;
    let late = late_s(&engine).await;
    assert!(late <= 2.0, "{late}");
    assert_eq!(written(&files).len(), 1);
}

/// A directory that cannot be made: a file is in its way.
fn in_the_way(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("audit");
    std::fs::write(&path, "a file where a directory should be").unwrap();
    path
}

fn rings(engine: &Engine) -> Vec<Box<str>> {
    engine.alerts.firing().into_iter().map(|alert| alert.alert).collect()
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_written_for_five_minutes_ring_until_they_are_whole_again() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let files = in_the_way(&dir);
    let engine = archiving(&given, &["ok"], &files);
    paused(&given, &engine, 3).await;
    pass(300).await;
    assert!(rings(&engine).is_empty());
    pass(55).await;
    assert!(rings(&engine).is_empty(), "above its threshold for less than a minute");
    pass(30).await;
    assert_eq!(rings(&engine), ["audit_late".into()]);
    assert!(files.is_file(), "the fault is still there");
    std::fs::remove_file(&files).unwrap();
    pass(280).await;
    assert_eq!(rings(&engine), ["audit_late".into()], "calm for less than five minutes");
    pass(60).await;
    assert!(rings(&engine).is_empty());
    assert_eq!(written(&files).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_restart_makes_no_files_look_good_that_cannot_be_written() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let files = in_the_way(&dir);
    let engine = archiving(&given, &["ok"], &files);
    pass(200).await;
    engine.stop().await.unwrap();
    let engine = archiving(&given, &["ok"], &files);
    pass(200).await;
    let late = late_s(&engine).await;
    assert!(late >= 399.0, "{late}");
    assert_eq!(rings(&engine), ["audit_late".into()], "no process was there for five minutes");
}

#[tokio::test(start_paused = true)]
async fn files_that_were_whole_at_a_stop_are_as_late_as_that_stop_is_ago() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let files = dir.path().join("audit");
    let engine = archiving(&given, &["ok"], &files);
    paused(&given, &engine, 1).await;
    // Nothing happens for long, and nothing is written down about it.
    pass(3_600).await;
    engine.stop().await.unwrap();
    std::fs::rename(&files, dir.path().join("elsewhere")).unwrap();
    let files = in_the_way(&dir);
    let engine = archiving(&given, &["ok"], &files);
    pass(100).await;
    let late = late_s(&engine).await;
    assert!((99.0..150.0).contains(&late), "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_files_look_good_that_cannot_be_written() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let files = in_the_way(&dir);
    let engine = archiving(&given, &["ok"], &files);
    pass(100).await;
    late_s(&engine).await;
    given.clock.set_by(-3_600);
    pass(100).await;
    let late = late_s(&engine).await;
    assert!((199.0..205.0).contains(&late), "{late}");
    engine.stop().await.unwrap();
    given.clock.set_by(-3_600);
    let engine = archiving(&given, &["ok"], &files);
    pass(400).await;
    let late = late_s(&engine).await;
    assert!(late >= 399.0, "{late}");
    assert_eq!(rings(&engine), ["audit_late".into()]);
    assert!(files.is_file(), "the fault is still there");
}

/// A node that archives, for it comes first, and leaves the ringing to others.
fn archivist(given: &Given, wakes: &Arc<Wakes>, dir: &Path) -> Engine {
    let store = Arc::new(FaultyStore::shared(given.store.clone(), wakes));
    let mut parts = parts(given, store, &["ok"], dir);
    parts.settings = Settings { node: "node-1".into(), ..settings() };
    parts.alerts = AlertTerms { every: Duration::from_secs(24 * 3_600), ..AlertTerms::default() };
    Engine::start(parts)
}

#[tokio::test(start_paused = true)]
async fn the_node_that_rings_knows_how_late_the_files_of_another_are() {
    let (given, wakes) = (Given::new(), Arc::default());
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let files = in_the_way(&here);
    let first = archivist(&given, &wakes, &files);
    pass(2).await;
    let (second, _) = node(&given, &wakes, "node-2", there.path());
    paused(&given, &second, 2).await;
    pass(290).await;
    assert!(rings(&second).is_empty());
    pass(100).await;
    assert_eq!(rings(&second), ["audit_late".into()]);
    let (one, other) = (late_s(&first).await, late_s(&second).await);
    assert!(one >= 391.0 && (one - other).abs() < 11.0, "both tell the same: {one} and {other}");
    std::fs::remove_file(&files).unwrap();
    pass(400).await;
    assert!(rings(&second).is_empty());
    assert_eq!((count(&files), count(there.path())), (2, 0), "the first one wrote them all along");
}

#[tokio::test(start_paused = true)]
async fn files_that_another_node_writes_are_never_late_for_long_and_no_alert_rings() {
    let (given, wakes) = (Given::new(), Arc::default());
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = archivist(&given, &wakes, here.path());
    pass(2).await;
    let (second, _) = node(&given, &wakes, "node-2", there.path());
    for _ in 0..40 {
        pass(30).await;
        let (one, other) = (late_s(&first).await, late_s(&second).await);
        assert!(one < 3.0 && other < 12.0, "{one} and {other}");
    }
    assert!(rings(&second).is_empty());
    assert_eq!(count(there.path()), 0, "it is the other that archives");
}

#[tokio::test(start_paused = true)]
async fn files_that_no_node_can_write_get_later_on_every_node() {
    let (given, wakes) = (Given::new(), Arc::default());
    let dir = TempDir::new().unwrap();
    let files = in_the_way(&dir);
    let (first, _) = node(&given, &wakes, "node-1", &files);
    pass(150).await;
    let (second, _) = node(&given, &wakes, "node-2", &files);
    first.stop().await.unwrap();
    pass(250).await;
    let late = late_s(&second).await;
    assert!(late >= 399.0, "{late}");
    assert_eq!(rings(&second), ["audit_late".into()]);
}

/// The archiver finds this note.
async fn found(given: &Given, note: &str) {
    let value = Some(Payload::trusted(note.to_owned()));
    let write = KvWrite {
        namespace: NAMESPACE,
        key: "archiver".into(),
        value,
        expect: None,
        expires_at: None,
        audit: Vec::new(),
    };
    given.store.kv_write(vec![write], given.clock_now()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_note_that_cannot_be_read_is_no_reason_to_be_silent() {
    for shared in [false, true] {
        let (given, wakes, dir) = (Given::new(), Arc::default(), TempDir::new().unwrap());
        found(&given, r#"{"who":"knows"}"#).await;
        let engine = match shared {
            true => node(&given, &wakes, "node-1", dir.path()).0,
            false => archiving(&given, &["ok"], dir.path()),
        };
        pass(400).await;
        assert_eq!(rings(&engine), ["audit_late".into()], "shared: {shared}");
        assert_eq!(count(dir.path()), 0, "the fault is still there");
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_of_an_earlier_version_is_taken_up_from_now_on() {
    let (given, dir) = (Given::new(), TempDir::new().unwrap());
    let files = in_the_way(&dir);
    let earlier =
        r#"{"store":"store_1","node":"node-1","until":"2025-10-09T08:53:20.000Z","archived":{"0":2}}"#;
    found(&given, earlier).await;
    let engine = archiving(&given, &["ok"], &files);
    pass(100).await;
    let late = late_s(&engine).await;
    assert!((99.0..150.0).contains(&late), "{late}");
}
