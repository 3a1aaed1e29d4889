//! The reference keeps the contract that it is the reference for.

use std::sync::Arc;

use async_trait::async_trait;
use recado_store::Store;
use recado_store::conformance::{Home, Restarts};
use recado_store::reference::ReferenceStore;

/// A store in memory, gone with whoever holds it.
struct Memory;

#[async_trait]
impl Home for Memory {
    async fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(ReferenceStore::default())
    }
}

mod conformance {
    use super::*;

    recado_store::conformance_tests!(Memory);
}

/// Its own claims, turns included, are among those that the rules allow.
#[test]
fn the_reference_agrees_with_itself() {
    recado_store::conformance::agrees_with_the_reference(|| Memory, Restarts::No);
}
