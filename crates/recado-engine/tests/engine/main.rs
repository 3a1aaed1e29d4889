//! The engine in virtual time: the reference store, transports that misbehave on purpose, paused tokio time.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod aftermath;
mod calls;
mod claims;
mod crashes;
mod given;
mod lanes;
mod lives;
mod shaky;
mod stops;
mod workers;
