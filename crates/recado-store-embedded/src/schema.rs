//! The tables. People open this file with `sqlite3`: names are the ones that the runbooks query.

use std::time::Duration;

use rusqlite::Connection;

pub const FILE_NAME: &str = "recado.db";

/// Written to the file; a file of a later version is refused, one of an earlier version is migrated.
pub const FORMAT_VERSION: i32 = 5;

/// Longest wait of a statement for another program that has locked the file.
pub const BUSY_WAIT_MAX: Duration = Duration::from_secs(5);

/// "RCDO", so that `file recado.db` can tell.
const APPLICATION_ID: i32 = 0x5243_444f;

/// The steps that make a file of each version one of the next; the first starts from nothing.
const STEPS: [&str; FORMAT_VERSION as usize] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5];

/// There is no unique index over `jobId`: it would cost a random page write per job. Ids of all jobs in
/// the file are in the memory index, which is what keeps them unique.
const VERSION_1: &str = "
CREATE TABLE jobs (
  seq             INTEGER PRIMARY KEY,
  jobId           TEXT NOT NULL,
  route           TEXT NOT NULL,
  companyId       TEXT NOT NULL,
  status          TEXT NOT NULL, -- waiting | sent | failed | cancelled | discarded
  priority        INTEGER NOT NULL,
  enqueuedAt      INTEGER NOT NULL, -- times are milliseconds since 1970, UTC
  dueAt           INTEGER NOT NULL,
  expiresAt       INTEGER NOT NULL,
  endedAt         INTEGER,
  attemptsStarted INTEGER NOT NULL DEFAULT 0,
  attemptsSpent   INTEGER NOT NULL DEFAULT 0,
  crashes         INTEGER NOT NULL DEFAULT 0,
  deferrals       INTEGER NOT NULL DEFAULT 0,
  replays         INTEGER NOT NULL DEFAULT 0,
  bodyHash        BLOB NOT NULL,
  userId          TEXT,
  correlationId   TEXT,
  attempts        TEXT, -- JSON list
  answer          TEXT, -- what the provider said when it took the job
  data            TEXT  -- the payload; gone once the job has ended
);
CREATE INDEX jobs_by_correlation ON jobs (correlationId) WHERE correlationId IS NOT NULL;

CREATE TABLE leases (
  seq             INTEGER PRIMARY KEY,
  fence           INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  claimedAt       INTEGER NOT NULL,
  expiresAt       INTEGER NOT NULL,
  worker          TEXT NOT NULL,
  outlivesProcess INTEGER NOT NULL
);

CREATE TABLE dlq (
  entry                INTEGER PRIMARY KEY AUTOINCREMENT,
  seq                  INTEGER NOT NULL UNIQUE,
  jobId                TEXT NOT NULL,
  outboxId             TEXT NOT NULL,
  companyId            TEXT NOT NULL,
  route                TEXT NOT NULL,
  originalData         TEXT NOT NULL,
  failedAttempts       INTEGER NOT NULL,
  lastFailureReason    TEXT NOT NULL CHECK (length(trim(lastFailureReason, char(9, 10, 11, 12, 13, 32))) > 0),
  lastFailureCode      TEXT,
  lastFailureTimestamp TEXT NOT NULL, -- RFC 3339
  enqueuedAt           TEXT NOT NULL,
  movedToDLQAt         TEXT NOT NULL,
  ttl                  INTEGER NOT NULL, -- milliseconds
  expiresAt            INTEGER NOT NULL,
  userId               TEXT,
  correlationId        TEXT,
  errorClassification  TEXT NOT NULL,
  stackTrace           TEXT,
  attempts             TEXT NOT NULL,
  fingerprint          TEXT NOT NULL,
  cause                TEXT NOT NULL,
  state                TEXT NOT NULL -- dead | replaying
);
CREATE INDEX dlq_by_expiry ON dlq (expiresAt);

CREATE TABLE audit (
  id     INTEGER PRIMARY KEY,
  seq    INTEGER, -- the job, for records about one
  record TEXT NOT NULL -- JSON
);
CREATE INDEX audit_by_job ON audit (seq) WHERE seq IS NOT NULL;
";

/// Key-value entries; the column `shelf` is the namespace. An entry's version is its row's number: AUTOINCREMENT never
/// gives one twice, whatever was removed meanwhile.
const VERSION_2: &str = "
CREATE TABLE notes (
  version   INTEGER PRIMARY KEY AUTOINCREMENT, -- a new one with every write
  shelf     TEXT NOT NULL,
  key       TEXT NOT NULL,
  value     TEXT NOT NULL, -- JSON
  expiresAt INTEGER,
  UNIQUE (shelf, key)
);
CREATE INDEX notes_by_expiry ON notes (expiresAt) WHERE expiresAt IS NOT NULL;
";

/// The trace that a job belongs to, as W3C Trace Context writes it.
const VERSION_3: &str = "
ALTER TABLE jobs ADD COLUMN traceparent TEXT;
";

/// A job says itself which records are about it: its row is written together with each of them anyway, and an index
/// over the trail would have to be written besides. The records of a commit share a row.
const VERSION_4: &str = "
ALTER TABLE jobs ADD COLUMN records TEXT; -- their numbers in audit, with commas between them
UPDATE jobs SET records = (SELECT group_concat(audit.id) FROM audit WHERE audit.seq = jobs.seq)
  WHERE seq IN (SELECT audit.seq FROM audit WHERE audit.seq IS NOT NULL);
DROP INDEX audit_by_job;
ALTER TABLE audit DROP COLUMN seq;
ALTER TABLE audit RENAME COLUMN record TO records; -- a line each, numbered from id on
";

/// The provider that a lease was claimed for: an attempt that is lost with its process names it. Checksums of a job's
/// ids, company and route, of the data that was accepted and of the data that is sent; and of an entry's namespace, key and value.
/// Rows of earlier versions have none and are not checked.
const VERSION_5: &str = "
ALTER TABLE leases ADD COLUMN provider TEXT;
ALTER TABLE jobs ADD COLUMN checksum BLOB; -- 4 bytes each
ALTER TABLE notes ADD COLUMN checksum INTEGER;
";

/// Covers all fields that dead letters are filtered and counted by, so that neither looks into payloads; and
/// jobs that are few among many, by their status. An index is no part of the format: programs that do not
/// know of it keep it up, and one that opens a file without it makes it.
const INDEXES: &str = "
CREATE INDEX IF NOT EXISTS dlq_facets
  ON dlq (movedToDLQAt, companyId, route, lastFailureCode, fingerprint, lastFailureReason);
CREATE INDEX IF NOT EXISTS jobs_given_up ON jobs (status) WHERE status IN ('cancelled', 'discarded');
CREATE INDEX IF NOT EXISTS jobs_retrying ON jobs (status) WHERE status = 'waiting' AND attemptsSpent > 0;
";

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("the file is not a Recado store (application id {0:#x}); point --data-dir somewhere else")]
    Foreign(i32),
    #[error("the file has format {0}, this program knows up to {FORMAT_VERSION}; use a newer recado")]
    TooNew(i32),
}

/// Settings of every connection that writes.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Commits are forced to disk by the fsync thread, one step behind the writer.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // What is removed or replaced is blanked: a person's data that was erased must not be left behind in the file.
    connection.pragma_update(None, "secure_delete", true)?;
    // Tenants take turns, so jobs are read in another order than they were written: a queue that fits in here is
    // read from memory.
    connection.pragma_update(None, "cache_size", -65_536)?; // KiB
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Makes the tables, or brings those of an earlier version up to date. A file that is not ours is left as it
/// is.
pub fn prepare(connection: &Connection) -> Result<(), SchemaError> {
    connection.busy_timeout(BUSY_WAIT_MAX)?;
    let missing = &STEPS[read_version(connection)?..];
    configure(connection)?;
    if !missing.is_empty() {
        connection.execute_batch(&format!(
            "BEGIN; {} PRAGMA user_version = {FORMAT_VERSION}; PRAGMA application_id = {APPLICATION_ID}; COMMIT;",
            missing.concat()
        ))?;
    }
    connection.execute_batch(INDEXES)?;
    Ok(())
}

/// Reads the format of a file that is ours; 0 if it is empty.
pub fn read_version(connection: &Connection) -> Result<usize, SchemaError> {
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    match version {
        0 if objects == 0 && application == 0 => Ok(0),
        _ if application != APPLICATION_ID => Err(SchemaError::Foreign(application)),
        1..=FORMAT_VERSION => Ok(version as usize),
        later => Err(SchemaError::TooNew(later)),
    }
}
