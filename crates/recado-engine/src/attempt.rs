//! The life of an attempt: claim, deliver, settle, and what follows.

pub mod calls;
pub(crate) mod claimer;
pub(crate) mod deliver;
pub(crate) mod leases;
pub(crate) mod log;
pub(crate) mod open_breaker_fallback;
pub(crate) mod pins;
pub(crate) mod post_settle;
pub(crate) mod shortage;
pub mod worker_leases;
