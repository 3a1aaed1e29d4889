//! The suite of every store, on Valkey.

use recado_store_conformance::{Restarts, agrees_with_the_reference};

use crate::place::Place;

recado_store_conformance::conformance_tests!(Place::valkey());
recado_store_conformance::turn_tests!(Place::valkey());
recado_store_conformance::shared_tests!(Place::valkey().ringing());

#[test]
fn valkey_agrees_with_the_reference() {
    agrees_with_the_reference(Place::valkey, Restarts::Shared);
}
