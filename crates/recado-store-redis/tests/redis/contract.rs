//! The suite of every store, on one server.

use recado_store_conformance::{
    Restarts, a_tenant_waits_for_one_turn_of_each_other_at_most, agrees_with_the_reference,
    agrees_with_the_reference_in_partitions,
};

use crate::place::{Disk, Place};

/// So many that `company-0`, `company-1` and `company-2` are in the same one.
const PARTITIONS: u16 = 3;

recado_store_conformance::conformance_tests!(Place::single());
recado_store_conformance::turn_tests!(Place::single());
recado_store_conformance::shared_tests!(Place::single().ringing());

mod on_disk {
    use super::*;

    recado_store_conformance::durability_tests!(Disk::new());
}

#[test]
fn the_redis_store_agrees_with_the_reference() {
    agrees_with_the_reference(Place::single, Restarts::Shared);
}

/// The companies of random lives share one of these partitions; the ids of their jobs are at home in all.
#[test]
fn a_partition_among_several_agrees_with_the_reference() {
    agrees_with_the_reference(|| Place::single().in_partitions(PARTITIONS), Restarts::Shared);
}

#[test]
fn several_partitions_agree_with_the_reference_in_all_but_who_comes_first() {
    agrees_with_the_reference_in_partitions(|| Place::single().in_partitions(5), Restarts::Shared);
}

#[test]
fn g11_a_tenant_that_arrives_waits_for_one_batch_of_each_other_at_most() {
    a_tenant_waits_for_one_turn_of_each_other_at_most(Place::single);
}
