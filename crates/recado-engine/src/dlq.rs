//! The dead letter queue: acts of operators, bulk acts, archive, automatic replays.

pub mod archive;
pub mod auto_replay;
pub mod bulk;
pub mod operator;
