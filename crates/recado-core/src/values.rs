//! Small value types that everything else is made of.

pub mod alert;
pub mod json;
pub mod name;
pub(crate) mod named_enum;
pub mod payload;
pub mod random;
pub mod reason;
pub(crate) mod sparse_struct;
pub mod time;
pub mod trace;
