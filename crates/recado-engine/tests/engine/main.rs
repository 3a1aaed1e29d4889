//! The engine in virtual time: the reference store, transports that misbehave on purpose, paused tokio time.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene fails")]

mod alert_rules;
mod alerts;
mod archive;
mod auto_replay;
mod bulk;
mod bulk_figures;
mod calls;
mod claims;
mod crashes;
mod damage;
mod deferrals;
mod erasure;
mod figures;
mod flaky;
mod given;
mod lanes;
mod late;
mod leases;
mod lives;
mod nodes;
mod open_breaker_fallback;
mod operators;
mod outage;
mod pins;
mod post_settle;
mod receivers;
mod replays;
mod rule_suggestions;
mod shaky;
mod shared;
mod shortage;
mod stops;
mod trail;
mod workers;
