//! Keys, records and answers as bytes.

pub(crate) mod bytes;
pub(crate) mod dead_letter;
pub(crate) mod keys;
pub(crate) mod receipt;
pub(crate) mod record;
pub(crate) mod token;
