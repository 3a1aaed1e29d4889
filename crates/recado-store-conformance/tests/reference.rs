//! The reference keeps the contract that it is the reference for.

use std::sync::Arc;

use async_trait::async_trait;
use recado_store::Store;
use recado_store::reference::ReferenceStore;
use recado_store_conformance::{Home, Restarts, a_tenant_waits_for_one_turn_of_each_other_at_most};

/// A store in memory, dropped with its owner.
struct Memory;

#[async_trait]
impl Home for Memory {
    async fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(ReferenceStore::default())
    }
}

mod conformance {
    use super::*;

    recado_store_conformance::conformance_tests!(Memory);
    recado_store_conformance::turn_tests!(Memory);
}

#[test]
fn g11_a_tenant_that_arrives_waits_for_one_batch_of_each_other_at_most() {
    a_tenant_waits_for_one_turn_of_each_other_at_most(|| Memory);
}

/// It takes the same life twice in the same way.
#[test]
fn the_reference_agrees_with_itself() {
    recado_store_conformance::agrees_with_the_reference(|| Memory, Restarts::No);
}
