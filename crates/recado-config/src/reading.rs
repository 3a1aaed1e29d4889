//! Settings with their places: the tree of a file, variables, readers, and faults shown at their line.

pub mod checker;
pub mod fault;
pub mod hidden;
pub mod reader;
pub mod tree;
pub mod variables;
