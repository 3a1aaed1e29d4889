//! The suite of every store, on one server.

use recado_store::conformance::{
    Restarts, a_tenant_waits_for_one_turn_of_each_other_at_most, agrees_with_the_reference,
};

use crate::place::{Disk, Place};

recado_store::conformance_tests!(Place::single());
recado_store::turn_tests!(Place::single());
recado_store::shared_tests!(Place::single().ringing());

mod on_disk {
    use super::*;

    recado_store::durability_tests!(Disk::new());
}

#[test]
fn the_redis_store_agrees_with_the_reference() {
    agrees_with_the_reference(Place::single, Restarts::Shared);
}

#[test]
fn g11_a_tenant_that_arrives_waits_for_one_batch_of_each_other_at_most() {
    a_tenant_waits_for_one_turn_of_each_other_at_most(Place::single);
}
