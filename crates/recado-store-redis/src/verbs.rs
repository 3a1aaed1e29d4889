//! The calls of the five store traits, one file for each kind.

pub(crate) mod audit;
pub(crate) mod batcher;
pub(crate) mod circuits;
pub(crate) mod claim;
pub(crate) mod dead_letters;
pub(crate) mod enqueue;
pub(crate) mod inspect;
pub(crate) mod job_store;
pub(crate) mod key_value;
pub(crate) mod merge;
pub(crate) mod operator;
pub(crate) mod partitions;
pub(crate) mod prune;
pub(crate) mod read_ahead;
pub(crate) mod settle;
pub(crate) mod tenant_stats;
pub(crate) mod transfer;
