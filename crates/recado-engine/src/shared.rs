//! State that all nodes share.

pub(crate) mod cache;
pub(crate) mod leader;
pub(crate) mod sync;
pub(crate) mod value;
