//! Reads the index from the file: at start, and after a commit that failed.

use recado_core::{LostLease, Priority, Random, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::index::{ActiveLease, Index, JobLocation, Phase, Slot};
use crate::rows;
use crate::store::audit_log;

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

/// Call once at start: a job whose status is damaged is put back in line or left dead, as the dead letters say. One
/// that had ended has no data left, so its checksum keeps it from being sent.
pub fn repair_statuses(connection: &Connection) -> rusqlite::Result<()> {
    let mended = connection.execute(
        "UPDATE jobs SET status = \
         CASE WHEN seq IN (SELECT seq FROM dlq WHERE state <> 'replaying') THEN 'failed' ELSE 'waiting' END \
         WHERE status NOT IN ('waiting', 'sent', 'failed', 'cancelled', 'discarded')",
        [],
    )?;
    if mended > 0 {
        tracing::error!(
            jobs = mended,
            "jobs with a damaged status were found; they are checked again before they go"
        );
    }
    Ok(())
}

/// Reads every job once, in order.
pub fn load_index(connection: &Connection, random: &Random) -> rusqlite::Result<Index> {
    let mut index = Index::new(random);
    let waiting: i64 =
        connection.query_row("SELECT count(*) FROM jobs WHERE status = 'waiting'", [], |row| row.get(0))?;
    index.reserve(usize::try_from(waiting).unwrap_or(0));
    let mut ended = Vec::new();

    let mut jobs = connection.prepare(
        "SELECT seq, jobId, route, companyId, status, priority, dueAt, expiresAt, endedAt FROM jobs ORDER BY seq",
    )?;
    let mut found = jobs.query([])?;
    while let Some(row) = found.next()? {
        let seq: u64 = row.get(0)?;
        let id = index.digest(&rows::text(row, 1));
        let company = index.company_key(&rows::text(row, 3));
        let lane = index.lane_key(&rows::text(row, 2));
        index.owner_index.insert(seq, company, lane);
        match &*rows::text(row, 4) {
            "waiting" => {
                index.insert(Slot {
                    id,
                    seq,
                    due: rows::number(row, 6),
                    expires: rows::number(row, 7),
                    company,
                    lane,
                    priority: Priority::new(rows::number(row, 5)).unwrap_or_default().level(),
                    phase: Phase::Free,
                });
            }
            "failed" => index.remember_row(id, seq),
            _ => {
                index.remember_row(id, seq);
                ended.push((rows::number::<Option<i64>>(row, 8).unwrap_or(0), seq));
            }
        }
    }
    index.ended = ended.into_iter().collect();
    index.dead_count = connection.query_row("SELECT count(*) FROM dlq", [], |row| row.get(0))?;
    index.next_record = audit_log::next_number(connection)?;
    load_leases(connection, &mut index)?;
    Ok(index)
}

fn load_leases(connection: &Connection, index: &mut Index) -> rusqlite::Result<()> {
    let mut leases = connection.prepare(
        "SELECT leases.seq, jobs.jobId, fence, attempt, claimedAt, leases.expiresAt, worker, \
         attemptsStarted, attemptsSpent, crashes, deferrals, replays, attempts, provider \
         FROM leases JOIN jobs ON jobs.seq = leases.seq WHERE jobs.status = 'waiting'",
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
