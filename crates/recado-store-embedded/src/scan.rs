//! Reads what the index needs of every job, in chunks of consecutive numbers.
//!
//! At a start it is the larger part of the work, so several readers share it, each with a connection and a thread of its
//! own: each reads every nth chunk, and the chunks are handed over in the order of their numbers.

use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, Scope};

use indexmap::IndexSet;
use recado_core::Priority;
use rusqlite::Connection;

use crate::index::{IdDigester, IdHash};
use crate::rows::{self, Result};

/// Numbers of a chunk at least: few enough to wait in memory, many enough that a chunk is worth its query.
const CHUNK_SEQS_MIN: u64 = 8 * 1_024;

/// Chunks at most: numbers may have gaps of any length, and each chunk costs a query.
const CHUNKS_MAX: u64 = 8 * 1_024;

/// Chunks of one reader that may wait.
const WAITING_CHUNKS_MAX: usize = 4;

const SELECT_CHUNK: &str = "SELECT seq, jobId, route, companyId, status, priority, dueAt, expiresAt, endedAt \
    FROM jobs WHERE seq >= ?1 ORDER BY seq";

/// The numbers of all jobs, in chunks.
#[derive(Debug, Clone)]
pub struct ChunkRanges {
    seqs: Range<u64>,
    step: u64,
}

impl ChunkRanges {
    pub fn of_file(file: &Connection) -> Result<Self> {
        let edges =
            "SELECT coalesce((SELECT min(seq) FROM jobs), 0), coalesce((SELECT max(seq) + 1 FROM jobs), 0)";
        let seqs: Range<u64> = file.query_row(edges, [], |row| Ok(row.get(0)?..row.get(1)?))?;
        let step = (seqs.end - seqs.start).div_ceil(CHUNKS_MAX).max(CHUNK_SEQS_MIN);
        Ok(ChunkRanges { seqs, step })
    }

    /// The number of the first job, if there is one.
    pub fn first_seq(&self) -> Option<u64> {
        (!self.seqs.is_empty()).then_some(self.seqs.start)
    }

    pub fn count(&self) -> usize {
        (self.seqs.end - self.seqs.start).div_ceil(self.step) as usize
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let Range { start, end } = self.seqs;
        let step = self.step;
        (start..end).step_by(step as usize).map(move |first| first..end.min(first + step))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowStatus {
    Waiting,
    /// In the dead letter queue.
    Failed,
    Ended,
    /// It is none of those that are written.
    Damaged,
}

impl RowStatus {
    pub fn parse(stored: &str) -> Self {
        match stored {
            "waiting" => RowStatus::Waiting,
            "failed" => RowStatus::Failed,
            "sent" | "cancelled" | "discarded" => RowStatus::Ended,
            _ => RowStatus::Damaged,
        }
    }
}

/// A job's row, as far as the index needs it.
#[derive(Debug)]
pub struct JobRow {
    pub seq: u64,
    pub id: IdHash,
    /// Its place among the names that its reader has found.
    pub company: usize,
    pub route: usize,
    pub status: RowStatus,
    pub priority: u8,
    pub due: i64,
    pub expires: i64,
    pub ended_at: i64,
}

#[derive(Debug, Default)]
pub struct Chunk {
    pub rows: Vec<JobRow>,
    /// The number of the job behind the last one, which is in a later chunk.
    pub next_seq: Option<u64>,
    /// Names that its reader has found in no chunk before.
    pub new_companies: Vec<Box<str>>,
    pub new_routes: Vec<Box<str>>,
}

/// Reads chunks one after the other.
#[derive(Debug)]
pub struct ChunkReader {
    digester: IdDigester,
    companies: IndexSet<Box<str>>,
    routes: IndexSet<Box<str>>,
}

fn place_of(names: &mut IndexSet<Box<str>>, new: &mut Vec<Box<str>>, name: &str) -> usize {
    names.get_index_of(name).unwrap_or_else(|| {
        new.push(name.into());
        names.insert_full(name.into()).0
    })
}

impl ChunkReader {
    pub fn new(digester: IdDigester) -> Self {
        ChunkReader { digester, companies: IndexSet::new(), routes: IndexSet::new() }
    }

    pub fn read(&mut self, file: &Connection, seqs: Range<u64>) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        let mut select = file.prepare_cached(SELECT_CHUNK)?;
        let mut found = select.query([seqs.start])?;
        while let Some(row) = found.next()? {
            let seq = row.get(0)?;
            if seq >= seqs.end {
                chunk.next_seq = Some(seq);
                break;
            }
            chunk.rows.push(JobRow {
                seq,
                id: self.digester.digest(&rows::text(row, 1)),
                route: place_of(&mut self.routes, &mut chunk.new_routes, &rows::text(row, 2)),
                company: place_of(&mut self.companies, &mut chunk.new_companies, &rows::text(row, 3)),
                status: RowStatus::parse(&rows::text(row, 4)),
                priority: Priority::new(rows::number(row, 5)).unwrap_or_default().level(),
                due: rows::number(row, 6),
                expires: rows::number(row, 7),
                ended_at: rows::number::<Option<i64>>(row, 8).unwrap_or(0),
            });
        }
        Ok(chunk)
    }

    /// Reads every `step`th chunk from the `first` on with a thread of its own.
    pub fn start<'s>(
        mut self,
        scope: &'s Scope<'s, '_>,
        file: Connection,
        ranges: &ChunkRanges,
        (first, step): (usize, usize),
    ) -> std::io::Result<Receiver<Result<Chunk>>> {
        let (queue, chunks) = sync_channel(WAITING_CHUNKS_MAX);
        let own = ranges.iter().skip(first).step_by(step);
        let read_all = move || {
            for seqs in own {
                // Not taken any more: the load has failed.
                if queue.send(self.read(&file, seqs)).is_err() {
                    return;
                }
            }
        };
        Builder::new().name("recado-load".to_owned()).spawn_scoped(scope, read_all)?;
        Ok(chunks)
    }
}
