//! State that all nodes share: kept in the store, copied in each process, changed by compare-and-set.
//!
//! | file | what |
//! |---|---|
//! | [`entry`] | one entry of the store, changed by compare-and-set |
//! | [`value`] | [`SharedValue`](value::SharedValue): a value with a copy here, whose changes are saved at once or in the background |
//! | [`cache`] | a whole namespace of entries, copied |
//! | [`sync`] | reads again what other nodes wrote |
//! | [`leader`] | the lease that lets one node at a time do a duty |

pub(crate) mod cache;
pub(crate) mod entry;
pub(crate) mod leader;
pub(crate) mod sync;
pub(crate) mod value;
