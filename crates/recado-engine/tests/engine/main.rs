//! The engine in virtual time: the reference store, transports that misbehave on purpose, paused tokio time.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod aftermath;
mod archive;
mod auto_replay;
mod bulk;
mod calls;
mod claims;
mod crashes;
mod given;
mod lanes;
mod lives;
mod replays;
mod shaky;
mod stops;
mod workers;
