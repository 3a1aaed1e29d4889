//! Small value types that everything else is made of.

pub mod json;
pub mod name;
pub mod payload;
pub mod random;
pub mod reason;
pub mod time;
pub mod trace;
