//! Measures speed. Run with: cargo test --release -p recado-audit -- --ignored --nocapture
//!
//! Each figure comes twice: by the clock, and as processor time, which others on the machine do not change.

use std::time::{Duration, Instant};

use recado_audit::{Query, search};

use crate::given::{Place, at, entries};

/// Processor time of this process and of the system on its behalf so far.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, String) {
    let (begun, before) = (Instant::now(), worked());
    let done = work();
    (done, format!("{:?}, {:?} of it work", begun.elapsed(), worked() - before))
}

#[test]
#[ignore = "writes a gigabyte; a figure for people"]
fn a_million_records_are_written_verified_and_searched() {
    let place = Place::on_disk();
    let batches: Vec<_> =
        (0..1_000).map(|batch| entries(batch * 1_000 + 1..=batch * 1_000 + 1_000)).collect();
    let months = ["2026-09-15T12:00:00Z", "2026-10-15T12:00:00Z", "2026-11-15T12:00:00Z"];
    let mut trail = place.open();
    let ((), time) = timed(|| {
        for (number, batch) in batches.iter().enumerate() {
            trail.append(batch, at(months[number / 334])).unwrap();
        }
    });
    println!("append, 1,000 a batch, fsync each: {time}");
    drop(trail);
    println!("open: {}", timed(|| place.open()).1);
    let bytes: u64 =
        place.names().iter().map(|name| std::fs::metadata(place.path(name)).unwrap().len()).sum();
    println!("on disk, indexes included: {} bytes a record", bytes / 1_000_000);
    let (report, time) = timed(|| place.assert_whole());
    println!("verify: {time}");
    assert_eq!(report.records, 1_000_000);
    for (what, query) in [
        ("a job in an old segment", Query { job: Some("job-123456".into()), ..Query::default() }),
        ("a job of today", Query { job: Some("job-999999".into()), ..Query::default() }),
        ("a job that is not there", Query { job: Some("job-0".into()), ..Query::default() }),
        ("a company's newest 100", Query { company: Some("company-1".into()), ..Query::default() }),
        ("the newest 100", Query::default()),
    ] {
        let (found, time) = timed(|| search(place.dir(), &query).unwrap());
        println!("search, {what}: {} in {time}", found.records.len());
    }
}
