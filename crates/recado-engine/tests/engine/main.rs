//! The engine in virtual time: the reference store, transports that misbehave on purpose, paused tokio time.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod aftermath;
mod alerts;
mod archive;
mod auto_replay;
mod bulk;
mod bulk_figures;
mod calls;
mod claims;
mod closed_off;
mod crashes;
mod damage;
mod erasure;
mod figures;
mod flaky;
mod given;
mod held_up;
mod lanes;
mod late;
mod leases;
mod lives;
mod nodes;
mod operators;
mod outage;
mod pins;
mod receivers;
mod replays;
mod ringing;
mod shaky;
mod shortage;
mod stops;
mod together;
mod trail;
mod workers;
