//! Directories and stores that the tests start from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use recado_store::Store;
use recado_store::conformance::Home;
use recado_store_embedded::{EmbeddedOptions, EmbeddedStore, FILE_NAME};
use tempfile::TempDir;

/// A data directory that is gone with the test.
pub struct Directory(TempDir);

impl Directory {
    pub fn new() -> Self {
        Directory(tempfile::tempdir().unwrap())
    }

    /// In memory where the system offers it, for tests that are not about the disk.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Directory(tempfile::tempdir_in(memory).unwrap()) } else { Directory::new() }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self) -> PathBuf {
        self.path().join(FILE_NAME)
    }

    pub fn options(&self) -> EmbeddedOptions {
        EmbeddedOptions { reserve_bytes: 0, ..EmbeddedOptions::at(self.path()) }
    }

    pub fn store(&self) -> EmbeddedStore {
        EmbeddedStore::open(&self.options()).unwrap()
    }
}

#[async_trait]
impl Home for Directory {
    async fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }
}
