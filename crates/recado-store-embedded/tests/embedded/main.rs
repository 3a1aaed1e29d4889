//! The embedded store: the contract, and what only a store on disk has to answer for.

mod contract;
mod given;
