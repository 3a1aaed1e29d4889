//! The store for several nodes: Redis or Valkey, every verb one script.
//!
//! ```text
//!   enqueue ┐                                  ┌ new: a stream, many jobs to an allocation
//!   claim   ├─▶ one script ─▶ partition {0} ───┤ job, data: keys of its own, once it waits again or is dead
//!   settle  ┘   on one slot   partition {1} …  │ line, aside, later, ring: who is next
//!                                              └ held, leases · letter, dead · ended · audit
//!   key-value ─▶ one script ─▶ {notes}
//! ```
//!
//! - **Values are Rust's, order is Lua's.** What a job is and becomes is worked out and written down in Rust
//!   ([`record`], [`dead_letter`]); scripts move values and keep the order, and read of them only the first fields.
//! - **Only the holder of a lease changes its job.** So a settlement is computed from the head that was leased, and the
//!   script only checks the fence. An operator's action on a job that is not leased is done if the head is still the
//!   one that it was decided by.
//! - **Every verb can be asked for again.** A claim with the same fence gives the same leases; a settlement repeated
//!   word for word is answered as done; the rest is safe by its nature.
//! - **What a claim leases is mostly read past its script**, in the same round trip: see [`read_ahead`].
//! - **Bounded.** No script does more than a thousand things, so no caller waits long for another.
//!
//! A partition is a whole store on one slot: exact in all that the contract says. With several, a company's jobs are
//! in one of them, claims go round and share by how many tenants wait in each; turns hold within a partition, and
//! lists are in the order of arrival to the millisecond. See `docs/decisions/0022-redis-in-scripts-and-streams.md`.
//!
//! Reading order: `scripts/jobs.lua` (where jobs are), `scripts/lanes.lua` (who is next), [`store`], then a verb with
//! its script: [`enqueue`], [`claim`], [`settle`], [`operator`]; [`partitions`] (several partitions), [`link`] (the connection).
//!
//! Deliberately absent: a clock (time comes with every verb, and leases end by it; [`orphan_grace`] only says when expired
//! leases may be taken over), and reading from replicas.

pub mod check;
mod codec;
mod format;
pub mod link;
mod orphan_grace;
mod scripts;
mod store;
mod verbs;
mod wakeups;

pub use format::FORMAT_VERSION;
pub use link::RedisOptions;
pub use store::RedisStore;
