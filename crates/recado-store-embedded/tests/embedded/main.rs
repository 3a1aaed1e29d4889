//! The embedded store: the contract, and what only a store on disk has to answer for.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod again;
mod contract;
mod crash;
mod damage;
mod forgetting;
mod format;
mod full_disk;
mod given;
mod group_commit;
mod leases;
mod lock;
mod moved;
mod room;
mod runbook;
mod trail;
