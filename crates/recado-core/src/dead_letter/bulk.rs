//! Words for an act on many dead letters at once: the act, its progress, and the state of its canary.

use crate::values::named_enum::named_enum;

named_enum! {
    pub enum BulkAct {
        Replay = "replay",
        Discard = "discard",
    }
}

named_enum! {
    pub enum BulkState {
        Running = "running",
        Done = "done",
        /// By a person, or because the canary died.
        Stopped = "stopped",
        /// No entry was done, and some failed.
        Failed = "failed",
    }
}

named_enum! {
    pub enum CanaryState {
        /// Some of its jobs are not on their way yet.
        Starting = "starting",
        /// They are on their way, and the rest waits for them.
        Waiting = "waiting",
        Delivered = "delivered",
        Died = "died",
    }
}
