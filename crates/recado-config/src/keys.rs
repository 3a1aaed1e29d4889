//! Every key of the configuration, as tables. [`table`] says how to add one.

pub mod alerts;
pub mod channel;
pub mod format;
pub mod provider;
pub mod route;
pub mod sections;
pub mod table;
