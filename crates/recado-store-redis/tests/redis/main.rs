//! The store on real servers: `redis-server` processes that the tests start and end.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod batcher;
mod breakers;
mod claims;
mod clustered;
mod contract;
mod damage;
mod faults;
mod format;
mod given;
mod hints;
mod link;
mod memory;
mod orphans;
mod partitions;
mod place;
mod records;
mod repeated;
mod scripts;
mod upgrade;
mod valkey;
