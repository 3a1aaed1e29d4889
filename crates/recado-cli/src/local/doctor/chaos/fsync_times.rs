//! Times of fsync on a disk, and whether they can be true.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use recado_store_redis::check::{Finding, bad, good, note};
use serde::Serialize;

/// Time for measuring.
const MEASURED: Duration = Duration::from_millis(500);

/// Writes that are measured at most.
const WRITES_MAX: usize = 20_000;

/// No disk takes a write and a flush in less: the way to it and back alone takes about this long.
const PLAUSIBLE_MIN: Duration = Duration::from_micros(10);

/// Faster than this are only disks whose cache survives a power cut, and hosts that answer from memory.
const UNPROTECTED_MIN: Duration = Duration::from_micros(100);

/// File systems in memory, by `f_type` of statfs: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Measured times of durable writes of 4 KiB.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FsyncTimes {
    writes: usize,
    fastest_micros: u64,
    median_micros: u64,
    p99_micros: u64,
    is_in_memory: bool,
    judgement: Judgement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Judgement {
    Plausible,
    /// True if the disk's cache is protected; else a host that answers from memory.
    Fast,
    TooFastToBeTrue,
}

impl FsyncTimes {
    pub fn measure(dir: &Path) -> io::Result<Self> {
        let path = dir.join("fsync-times");
        let mut file = File::create(&path)?;
        let (began, page) = (Instant::now(), [0_u8; 4096]);
        let mut times = Vec::new();
        while times.is_empty() || (began.elapsed() < MEASURED && times.len() < WRITES_MAX) {
            file.write_all(&page)?;
            let asked = Instant::now();
            file.sync_data()?;
            times.push(asked.elapsed());
        }
        std::fs::remove_file(&path)?;
        let kind = rustix::fs::statfs(dir).ok().and_then(|disk| u64::try_from(disk.f_type).ok());
        Ok(Self::of(times, kind.is_some_and(|kind| IN_MEMORY.contains(&kind))))
    }

    pub fn of(mut times: Vec<Duration>, is_in_memory: bool) -> Self {
        times.sort_unstable();
        let at =
            |part: usize| times.get(times.len().saturating_sub(1) * part / 100).copied().unwrap_or_default();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let judgement = match at(50) {
            _ if is_in_memory => Judgement::TooFastToBeTrue,
            median if median < PLAUSIBLE_MIN => Judgement::TooFastToBeTrue,
            median if median < UNPROTECTED_MIN => Judgement::Fast,
            _ => Judgement::Plausible,
        };
        FsyncTimes {
            writes: times.len(),
            fastest_micros: micros(at(0)),
            median_micros: micros(at(50)),
            p99_micros: micros(at(99)),
            is_in_memory,
            judgement,
        }
    }

    pub fn finding(&self) -> Finding {
        let FsyncTimes { writes, fastest_micros, median_micros, p99_micros, .. } = self;
        let found = format!(
            "{writes} writes of 4 KiB: fastest {fastest_micros} µs, median {median_micros} µs, 99th percentile {p99_micros} µs"
        );
        match self.judgement {
            Judgement::Plausible => good("fsync", found),
            Judgement::Fast => note(
                "fsync",
                format!("{found}; faster than {} µs", UNPROTECTED_MIN.as_micros()),
                "true for a disk whose cache survives a power cut; otherwise the host answers from memory, and a power cut \
                 loses acknowledged jobs: ask who runs it, or pull the plug of a spare one",
            ),
            Judgement::TooFastToBeTrue if self.is_in_memory => bad(
                "fsync",
                format!("{found}; this file system is in memory"),
                "choose a directory on a disk: here a restart of the machine loses everything",
            ),
            Judgement::TooFastToBeTrue => bad(
                "fsync",
                format!("{found}; no disk takes a write in less than {} µs", PLAUSIBLE_MIN.as_micros()),
                "the disk, the hypervisor or the file system does not force writes (look for cache=unsafe, nobarrier, \
                 eatmydata); until it does, a power cut loses acknowledged jobs",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_judged_by_their_median_and_by_the_kind_of_the_file_system() {
        let judged = |micros: u64, in_memory| {
            let times = [1, micros, micros, micros, 9_000].map(Duration::from_micros).to_vec();
            FsyncTimes::of(times, in_memory).judgement
        };
        assert_eq!(judged(9, false), Judgement::TooFastToBeTrue);
        assert_eq!(judged(10, false), Judgement::Fast);
        assert_eq!(judged(100, false), Judgement::Plausible);
        assert_eq!(judged(100, true), Judgement::TooFastToBeTrue);
        let times = FsyncTimes::of((1..=100).map(Duration::from_micros).collect(), false);
        assert_eq!((times.fastest_micros, times.median_micros, times.p99_micros), (1, 50, 99));
    }
}
