//! The suite of every store, on a Cluster of three masters.

mod in_one_partition {
    use crate::place::Place;

    recado_store_conformance::conformance_tests!(Place::cluster());
    recado_store_conformance::turn_tests!(Place::cluster());
    recado_store_conformance::shared_tests!(Place::cluster().ringing());
}

/// Without the turns: tenants of different partitions stand in different rings.
mod in_three_partitions {
    use crate::place::Place;

    recado_store_conformance::conformance_tests!(Place::cluster().in_partitions(3));
    recado_store_conformance::shared_tests!(Place::cluster().in_partitions(3).ringing());
}
