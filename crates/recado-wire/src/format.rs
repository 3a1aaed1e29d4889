//! Reads and writes of the wire format: fields, faults, problems, and the schema for the API document.

pub mod components;
pub mod problem;
pub mod read;
pub(crate) mod value;
