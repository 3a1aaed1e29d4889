//! The engine in virtual time: the reference store, transports that misbehave on purpose, paused tokio time.

mod crashes;
mod given;
mod lives;
mod stops;
mod workers;
