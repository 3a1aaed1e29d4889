//! Reads and writes of the wire format: fields, faults, problems, and the schema for the API document.

#[cfg(feature = "openapi")]
pub mod components;
pub mod problem;
pub mod read;
pub(crate) mod value;
