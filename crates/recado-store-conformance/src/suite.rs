//! The checks that every store must pass, by subject.

pub(crate) mod audit_log;
pub(crate) mod cancelling;
pub(crate) mod counting;
pub(crate) mod durability;
pub(crate) mod enqueueing;
pub(crate) mod fairness;
pub(crate) mod follow_ups;
pub(crate) mod key_value;
pub(crate) mod leasing;
pub(crate) mod listing;
pub(crate) mod multi_node;
pub(crate) mod ordering;
pub(crate) mod pruning;
pub(crate) mod replaying;
pub(crate) mod settling;
pub(crate) mod single_process;
pub(crate) mod snapshot;
pub(crate) mod tenant_stats;
pub(crate) mod transfer;
pub(crate) mod waking;
