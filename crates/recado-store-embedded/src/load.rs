//! Reads the index from the file: at start, and after a commit that failed.

use recado_core::{LostLease, Random, Timestamp};
use rusqlite::{Connection, Row, ffi, params};

use crate::index::{ActiveLease, CompanyKey, Index, JobLocation, LaneKey, Phase, Slot};
use crate::rows;
use crate::scan::{Chunk, ChunkRanges, ChunkReader, JobRow, RowStatus};
use crate::store::audit_log;

/// Memory is reserved for as many waiting jobs as the first 1/16 of the file suggests.
const GUESS_PART: usize = 16;

/// Leases held inside the last process ended with it: they count as run out since the beginning of time.
const ORPHANED_AT: i64 = 0;

/// A worker's lease lasts at least this long after a start, or its own length if that is shorter: a clock that was set
/// while the last process ran or was down must not end it.
const WORKER_LEASE_AT_START_MS: i64 = 5 * 60 * 1_000;

/// Call once at start: leases of the last process have no holder.
pub fn orphan_leases(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE leases SET expiresAt = ?1 WHERE outlivesProcess = 0", params![ORPHANED_AT])?;
    Ok(())
}

/// Call once at start: the last process measured workers' leases by a clock of its own. Each ends at the latest its
/// length from now on, and is not over because the wall clock was set forward.
pub fn carry_over_leases(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let length = "(expiresAt - claimedAt)";
    connection.execute(
        &format!(
            "UPDATE leases SET expiresAt = max(min(expiresAt, ?1 + {length}), ?1 + min({length}, ?2)) \
             WHERE outlivesProcess = 1"
        ),
        params![now.as_millis(), WORKER_LEASE_AT_START_MS],
    )?;
    Ok(())
}

/// Builds an index of chunks of jobs that come in order.
struct Loader<'f> {
    file: &'f Connection,
    index: Index,
    ended: Vec<(i64, u64)>,
    repaired_count: u64,
    /// Number of the next job; `None` at the end.
    next_seq: Option<u64>,
}

/// The keys of the names that one reader has found, in its order.
#[derive(Debug, Default)]
struct KnownNames {
    companies: Vec<CompanyKey>,
    lanes: Vec<LaneKey>,
}

/// Reads every job once, in order: with the `readers`, or with the file's own connection where there are none.
pub fn load_index(file: &Connection, readers: Vec<Connection>, random: &Random) -> rusqlite::Result<Index> {
    let ranges = ChunkRanges::of_file(file)?;
    let (index, next_seq) = (Index::new(random), ranges.first_seq());
    let mut loader = Loader { file, index, ended: Vec::new(), repaired_count: 0, next_seq };
    let digester = loader.index.digester;
    std::thread::scope(|scope| {
        let count = readers.len();
        let start = |(nth, reader)| ChunkReader::new(digester).start(scope, reader, &ranges, (nth, count));
        let queues = readers.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>();
        let queues = queues.map_err(not_read)?;
        let mut known: Vec<_> = std::iter::repeat_with(KnownNames::default).take(count.max(1)).collect();
        let mut own = ChunkReader::new(digester);
        for (nth, seqs) in ranges.iter().enumerate() {
            let reader = nth % known.len();
            let chunk = match queues.get(reader) {
                Some(queue) => queue.recv().map_err(not_read)??,
                None => own.read(file, seqs)?,
            };
            loader.insert(chunk, &mut known[reader])?;
            if nth + 1 == ranges.count() / GUESS_PART {
                loader.index.reserve_in_proportion(GUESS_PART - 1);
            }
        }
        Ok::<_, rusqlite::Error>(())
    })?;
    loader.finish()
}

fn not_read(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

/// The error of a table whose numbers are not in order: jobs that a search by number does not find would be lost unseen.
fn out_of_order(seq: Option<u64>) -> rusqlite::Error {
    let place = seq.map_or("at the end".to_owned(), |seq| format!("at {seq}"));
    let why =
        format!("the numbers of the jobs are out of order {place}: the file is damaged, restore a backup");
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why))
}

impl Loader<'_> {
    /// Returns an error unless a chunk goes on where the one before it ended, and its numbers grow.
    fn check_order(&mut self, chunk: &Chunk) -> rusqlite::Result<()> {
        let first = chunk.rows.first().map(|row| row.seq).or(chunk.next_seq);
        if first != self.next_seq {
            return Err(out_of_order(first));
        }
        self.next_seq = chunk.next_seq;
        match chunk.rows.windows(2).find(|pair| pair[0].seq >= pair[1].seq) {
            Some(pair) => Err(out_of_order(Some(pair[1].seq))),
            None => Ok(()),
        }
    }

    fn insert(&mut self, chunk: Chunk, known: &mut KnownNames) -> rusqlite::Result<()> {
        self.check_order(&chunk)?;
        let Loader { index, .. } = self;
        known.companies.extend(chunk.new_companies.iter().map(|name| index.company_key(name)));
        known.lanes.extend(chunk.new_routes.iter().map(|name| index.lane_key(name)));
        for row in chunk.rows {
            let JobRow { seq, id, priority, due, expires, .. } = row;
            let (company, lane) = (known.companies[row.company], known.lanes[row.route]);
            let status = match row.status {
                RowStatus::Damaged => self.repair_status(seq)?,
                status => status,
            };
            let index = &mut self.index;
            if status == RowStatus::Waiting {
                index.insert(Slot { id, seq, due, expires, company, lane, priority, phase: Phase::Free });
                continue;
            }
            index.owner_index.insert(seq, company, lane);
            index.remember_row(id, seq);
            if status == RowStatus::Ended {
                self.ended.push((row.ended_at, seq));
            }
        }
        Ok(())
    }

    /// Puts a job whose status is damaged back in line or leaves it dead, as the dead letters say. One that had ended has
    /// no data left, so its checksum keeps it from being sent.
    fn repair_status(&mut self, seq: u64) -> rusqlite::Result<RowStatus> {
        self.repaired_count += 1;
        let repair = "UPDATE jobs SET status = CASE \
            WHEN seq IN (SELECT seq FROM dlq WHERE state <> 'replaying') THEN 'failed' ELSE 'waiting' END \
            WHERE seq = ?1 RETURNING status";
        let status: Option<String> = rows::find(self.file, repair, seq)?;
        Ok(RowStatus::parse(status.as_deref().unwrap_or_default()))
    }

    fn finish(self) -> rusqlite::Result<Index> {
        if self.next_seq.is_some() {
            return Err(out_of_order(self.next_seq));
        }
        let Loader { file, mut index, ended, repaired_count, .. } = self;
        if repaired_count > 0 {
            tracing::error!(
                jobs = repaired_count,
                "Jobs with a damaged status were found; they are checked again before they go"
            );
        }
        index.ended = ended.into_iter().collect();
        index.dead_count = file.query_row("SELECT count(*) FROM dlq", [], |row| row.get(0))?;
        index.next_record = audit_log::next_number(file)?;
        load_leases(file, &mut index)?;
        Ok(index)
    }
}

fn load_leases(connection: &Connection, index: &mut Index) -> rusqlite::Result<()> {
    // A cross join keeps the order of the tables: SQLite would read all jobs first, and leases are few.
    let mut leases = connection.prepare(
        "SELECT leases.seq, jobs.jobId, fence, attempt, claimedAt, leases.expiresAt, worker, \
         attemptsStarted, attemptsSpent, crashes, deferrals, replays, attempts, provider \
         FROM leases CROSS JOIN jobs ON jobs.seq = leases.seq WHERE jobs.status = 'waiting'",
    )?;
    let mut found = leases.query([])?;
    while let Some(row) = found.next()? {
        let id = index.digest(&rows::text(row, 1));
        let Some(JobLocation::Live(slot)) = index.find(id) else { continue };
        let (attempt, claimed_at) = (row.get(3)?, Timestamp::from_millis(row.get(4)?));
        index.remove_waiting(slot);
        index.add_lease(ActiveLease {
            slot,
            fence: row.get::<_, i64>(2)?.cast_unsigned(),
            expires_at: row.get(5)?,
            as_lost: LostLease { attempt, claimed_at, worker: row.get(6)?, provider: row.get(13)? },
            progress: rows::progress(row, 7),
            attempts: readable_attempts(row, 12),
        });
    }
    Ok(())
}

/// A history that cannot be read is left out: its job is damaged and is never sent.
fn readable_attempts(row: &Row<'_>, at: usize) -> Option<Box<str>> {
    let stored: Option<Box<str>> = row.get(at).ok().flatten();
    stored.filter(|json| rows::attempts(Some(json)).is_ok())
}

#[cfg(test)]
mod tests {
    use recado_store::Turns;

    use super::*;
    use crate::owner_index::OwnerFilter;
    use crate::store::inspect::open_reader;

    const JOBS: u64 = 60;
    /// Far enough apart that the jobs lie in many chunks.
    const SEQ_STEP: u64 = 5_000;
    const STATUSES: [&str; 4] = ["waiting", "sent", "failed", "senv"];

    fn id(nth: u64) -> String {
        format!("job-{nth}")
    }

    fn fill(file: &Connection) {
        let insert = "INSERT INTO jobs (seq, jobId, route, companyId, status, priority, enqueuedAt, dueAt, expiresAt, \
            bodyHash, endedAt) VALUES (?1, ?2, ?3, ?4, ?5, 5, 0, ?6, 9, x'00', ?6)";
        for nth in 0..JOBS {
            let names = (id(nth), format!("route-{}", nth % 2), format!("company-{}", nth % 7));
            let status = STATUSES[nth as usize / 2 % STATUSES.len()];
            let values = params![1 + nth * SEQ_STEP, names.0, names.1, names.2, status, nth];
            file.execute(insert, values).unwrap();
        }
    }

    /// The jobs of an index, in a form to compare.
    #[derive(Debug, PartialEq)]
    struct Loaded {
        in_turn: Vec<u64>,
        rows: Vec<Option<u64>>,
        owned: Vec<u64>,
        ended: Vec<(i64, u64)>,
    }

    fn look(mut index: Index) -> Loaded {
        let mut in_turn = Vec::new();
        for route in ["route-0", "route-1"] {
            let lane = index.lane_of(route).unwrap();
            index.begin_claim(lane, 1_000);
            while let Some(slot) = index.take_ready(lane, 1_000, &Turns::default()) {
                in_turn.push(index.slots.get(slot).seq);
            }
        }
        let rows = (0..JOBS).map(|nth| index.row_of(index.digest(&id(nth)))).collect();
        let owned = index.owner_index.find_newest(OwnerFilter::default(), u64::MAX, JOBS as usize);
        Loaded { in_turn, rows, owned, ended: index.ended.into_iter().collect() }
    }

    #[test]
    fn readers_that_share_the_work_load_the_same_index_as_one_connection() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(crate::schema::FILE_NAME);
        let file = Connection::open(&path).unwrap();
        crate::schema::prepare(&file).unwrap();
        fill(&file);
        let readers = (0..3).map(|_| open_reader(&path).unwrap()).collect();
        let shared = look(load_index(&file, readers, &Random::from_seed(7)).unwrap());
        let alone = look(load_index(&file, Vec::new(), &Random::from_seed(7)).unwrap());
        assert_eq!(shared, alone);

        let Loaded { in_turn, rows, owned, ended } = shared;
        let seqs: Vec<_> = (0..JOBS).map(|nth| 1 + nth * SEQ_STEP).collect();
        assert_eq!(rows, seqs.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(owned, seqs.iter().rev().copied().collect::<Vec<_>>());
        let of_status = |wanted: &[&str]| {
            let is_wanted = |nth: &u64| wanted.contains(&STATUSES[*nth as usize / 2 % STATUSES.len()]);
            (0..JOBS).filter(is_wanted).collect::<Vec<_>>()
        };
        assert_eq!(in_turn.len(), of_status(&["waiting", "senv"]).len(), "a damaged status is repaired");
        assert_eq!(
            ended,
            of_status(&["sent"]).iter().map(|nth| (*nth as i64, 1 + nth * SEQ_STEP)).collect::<Vec<_>>()
        );
    }

    /// A number as it stands in a leaf of a table.
    fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = vec![(number & 0x7f) as u8];
        while number > 0x7f {
            number >>= 7;
            bytes.insert(0, (number & 0x7f) as u8 | 0x80);
        }
        bytes
    }

    #[test]
    fn a_number_that_is_out_of_order_hides_no_job_behind_it() {
        const FIRST: u64 = 1_000_000;
        for damaged in [FIRST + 90_000, FIRST - 90_000, FIRST + 5] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(crate::schema::FILE_NAME);
            let file = Connection::open(&path).unwrap();
            crate::schema::prepare(&file).unwrap();
            fill(&file);
            file.execute("UPDATE jobs SET seq = ?1 + seq / ?2", params![FIRST, SEQ_STEP]).unwrap();
            drop(file);
            let mut bytes = std::fs::read(&path).unwrap();
            let (before, after) = (varint(FIRST + JOBS / 2), varint(damaged));
            let places: Vec<_> =
                (0..bytes.len() - 3).filter(|at| bytes[*at..].starts_with(&before)).collect();
            assert_eq!((places.len(), before.len()), (1, after.len()));
            bytes[places[0]..places[0] + after.len()].copy_from_slice(&after);
            std::fs::write(&path, bytes).unwrap();

            let file = Connection::open(&path).unwrap();
            let error = load_index(&file, Vec::new(), &Random::from_seed(7)).unwrap_err();
            assert!(error.to_string().contains("out of order"), "{damaged}: {error}");
        }
    }
}
