//! The suite of every store, on this one.

use recado_store_conformance::{
    Restarts, a_tenant_waits_for_one_turn_of_each_other_at_most, agrees_with_the_reference,
};

use crate::given::Directory;

recado_store_conformance::conformance_tests!(Directory::in_memory());
recado_store_conformance::turn_tests!(Directory::in_memory());
recado_store_conformance::durability_tests!(Directory::in_memory());
recado_store_conformance::sole_process_tests!(Directory::in_memory());

#[test]
fn the_embedded_store_agrees_with_the_reference() {
    agrees_with_the_reference(Directory::in_memory, Restarts::Yes);
}

#[test]
fn g11_a_tenant_that_arrives_waits_for_one_batch_of_each_other_at_most() {
    a_tenant_waits_for_one_turn_of_each_other_at_most(Directory::in_memory);
}
