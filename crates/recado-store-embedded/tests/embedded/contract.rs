//! The suite of every store, on this one.

use recado_store::conformance::{Restarts, agrees_with_the_reference};

use crate::given::Directory;

recado_store::conformance_tests!(Directory::in_memory());
recado_store::durability_tests!(Directory::in_memory());

#[test]
fn the_embedded_store_agrees_with_the_reference() {
    agrees_with_the_reference(Directory::in_memory, Restarts::Yes);
}
