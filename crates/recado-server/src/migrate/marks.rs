//! The marks at both ends of a move: what keeps a store from being served while it is one.
//!
//! ```text
//!   source                 target               who may be served
//!   -                      -                    source
//!   moving to T            -                    neither
//!   moving to T            being filled from S  neither
//!   moved to T             being filled from S  neither
//!   moved to T             filled from S        target
//! ```
//!
//! They are written in this order, so a move that is cut off anywhere can be taken up again, or, while the source is
//! not marked as moved, called off. Calling off removes the source's mark alone: a target that holds a part of
//! something keeps its own, and is not served until it has been emptied.

use recado_core::{Payload, Timestamp};
use recado_store::{Fence, KvEntry, KvWrite, KvWritten, Namespace, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::{MoveError, Side};

/// The marks of moves that a store has.
pub const MOVES: Namespace = Namespace::new("moves");

/// The end of a move that a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Source,
    Target,
}

impl End {
    /// The key of its mark and the name of its fence.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            End::Source => ("to", "move-to"),
            End::Target => ("from", "move-from"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The store at the other end.
    pub store: String,
    /// Everything has arrived.
    pub done: bool,
    /// Both ends of one move have the same. An earlier version marked its moves without one.
    #[serde(default)]
    pub id: Option<String>,
}

impl Mark {
    /// Returns true if the marks of two stores are of one move.
    pub fn is_same_move(&self, other: &Mark) -> bool {
        self.id.is_some() && self.id == other.id
    }
}

/// The mark of a store as this end of a move, with its version.
async fn read(store: &dyn Store, end: End, now: Timestamp) -> Result<Option<(Mark, u64)>, StoreError> {
    let entry = store.kv_get(MOVES, end.names().0, now).await?;
    entry.map(|entry| Ok((parse(&entry)?, entry.version))).transpose()
}

fn parse(entry: &KvEntry) -> Result<Mark, StoreError> {
    entry.value.parse().map_err(|_| {
        let words = "the mark of a move cannot be read; was it written by a newer version?";
        StoreError::Unavailable(words.to_owned())
    })
}

impl Side<'_> {
    /// The mark of this store as either end of a move, with its version.
    pub async fn mark_as(&self, end: End) -> Result<Option<(Mark, u64)>, MoveError> {
        self.at(read(self.store, end, self.now).await)
    }

    /// Writes a mark on top of the version that was read, and shuts out the process that wrote the one before.
    pub async fn renew_mark(&self, mark: &Mark, expect: u64) -> Result<Fence, MoveError> {
        let (_, name) = self.end.names();
        let fence = Fence { name, number: self.write_mark(Some(mark), expect).await? };
        self.at(self.store.raise_fence(fence).await)?;
        // A store that was emptied in between has no fence that this one could have been refused by.
        match self.mark_as(self.end).await? {
            Some((_, version)) if version == fence.number => Ok(fence),
            _ => Err(MoveError::TakenOver),
        }
    }

    /// Writes a mark, or removes it, on top of the version that was read; 0 where there was none. The mark's new version.
    pub async fn write_mark(&self, mark: Option<&Mark>, expect: u64) -> Result<u64, MoveError> {
        let json = |mark| serde_json::to_string(mark).map_err(|error| StoreError::Broken(error.to_string()));
        let value = self.at(mark.map(json).transpose())?.map(Payload::trusted);
        let (key, expect) = (self.end.names().0.into(), Some(expect));
        let write = KvWrite { namespace: MOVES, key, value, expect, audit: Vec::new(), expires_at: None };
        match self.at(self.store.kv_write(vec![write], self.now).await)?.first() {
            Some(KvWritten::Done { version }) => Ok(*version),
            _ => Err(MoveError::TakenOver),
        }
    }
}

/// A store's part in a move, because of which it must not be served. Each names the store at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InMove {
    /// The source of a move that is not whole.
    MovingTo(String),
    /// The source of a move that is whole.
    MovedTo(String),
    /// The target of a move that is not whole, or was called off.
    FilledFrom(String),
}

impl InMove {
    /// The reason why a server does not serve this store, and the fix.
    pub fn refusal(&self, own_name: &str) -> String {
        match self {
            InMove::MovingTo(to) => format!(
                "this store is being moved to {to}, and the move is not complete. Continue it with `{}`; or cancel it \
                 with the same command and --abort, and serve this store.",
                command(own_name, to)
            ),
            InMove::MovedTo(to) => format!(
                "everything in this store was moved to {to}: serve that one. If that one says that it is not complete, \
                 finish the move with `{}`.",
                command(own_name, to)
            ),
            InMove::FilledFrom(from) => format!(
                "this store is being filled from {from}, and does not hold everything yet. Continue with `{}`. If \
                 that move was cancelled, empty this store: remove its data directory, or its keys from Redis.",
                command(from, own_name)
            ),
        }
    }
}

/// The command that moves everything from one store to another, by their names.
fn command(from: &str, to: &str) -> String {
    let from = from.split(" --partitions ").next().unwrap_or(from);
    let from = match from.split_once(" --prefix ") {
        Some((url, prefix)) => format!("{url} --from-prefix {prefix}"),
        None if from.contains("://") && to.contains(" --prefix ") => format!("{from} --from-prefix recado"),
        None => from.to_owned(),
    };
    format!("recado store migrate --from {from} --to {to}")
}

/// The move that keeps a store from being served, if there is one.
pub async fn in_move(store: &dyn Store, now: Timestamp) -> Result<Option<InMove>, StoreError> {
    in_move_by(&store.kv_list(MOVES, now).await?)
}

/// The same, by the entries of [`MOVES`].
pub fn in_move_by(entries: &[KvEntry]) -> Result<Option<InMove>, StoreError> {
    let mark = |end: End| entries.iter().find(|entry| &*entry.key == end.names().0).map(parse).transpose();
    if let Some(mark) = mark(End::Source)? {
        let end = if mark.done { InMove::MovedTo } else { InMove::MovingTo };
        return Ok(Some(end(mark.store)));
    }
    let target = mark(End::Target)?;
    Ok(target.filter(|mark| !mark.done).map(|mark| InMove::FilledFrom(mark.store)))
}

/// Returns true when two names mean the same store: paths may be written in several ways.
pub fn is_same_store(one: &str, other: &str) -> bool {
    let whole = |name: &str| match name.contains("://") {
        true => None,
        false => std::path::absolute(name).ok(),
    };
    one == other || whole(one).is_some_and(|path| Some(path) == whole(other))
}
