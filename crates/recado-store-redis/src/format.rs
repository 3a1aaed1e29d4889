//! What a store is written in: a version, and how many partitions it has.
//!
//! It is written down at the start and looked after while the store is open: a server that was emptied forgets it, and
//! a node with another number of partitions would find a part of the jobs and miss the rest.

use std::sync::{OnceLock, Weak};
use std::time::Duration;

use recado_store::StoreError;

use crate::answer::Answer;
use crate::keys::Root;
use crate::link::{Link, OpenError};
use crate::store::Shared;

/// The version of what is written. A newer one is not touched.
pub const FORMAT_VERSION: u32 = 2;

/// How soon it is written down again after a server lost it.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Remembers that the store was found to be written in another way.
#[derive(Debug, Default)]
pub(crate) struct Format {
    changed: OnceLock<String>,
}

impl Format {
    /// An error once the store is another one than was opened: nothing may be read from it or written to it.
    pub fn still_fits(&self) -> Result<(), StoreError> {
        self.changed.get().map_or(Ok(()), |why| Err(StoreError::Broken(why.clone())))
    }
}

/// Writes down again what a server lost, for as long as the store is open.
pub(crate) async fn keep(store: Weak<Shared>) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        let partitions = store.roots.len() as u16;
        for root in store.roots.iter().chain([&store.notes_root]) {
            // A server that does not answer is asked again.
            if let Err(OpenError::Unfit(why)) = check(&store.link, root, partitions).await {
                let _ = store.format.changed.set(format!(
                    "Redis was emptied or given other data while this node was running, and what is there now is another \
                     store: {why}. Give all nodes the same settings, and start them again; what was there before is in \
                     backups of Redis alone"
                ));
                return;
            }
        }
    }
}

/// Writes down what a new store is written in, or reads what an older one was.
pub async fn check(link: &Link, root: &Root, partitions: u16) -> Result<(), OpenError> {
    let key = root.key("format");
    let mut note = redis::cmd("SET");
    note.arg(&key).arg(format!("{FORMAT_VERSION} {partitions}")).arg("NX");
    let mut read = redis::cmd("GET");
    read.arg(&key);
    let mut both = redis::pipe();
    both.add_command(note).add_command(read);
    let answers = link.pipeline(&both, &key).await.map_err(OpenError::unavailable)?;
    let found = answers
        .into_iter()
        .nth(1)
        .map(Answer)
        .ok_or_else(|| OpenError::unavailable(crate::answer::unexpected()))?;
    permit(&found.text().map_err(OpenError::unavailable)?, partitions)
}

/// Reads how many partitions a store has, and writes nothing.
pub async fn found_partitions(link: &Link, root: &Root) -> Result<Option<u16>, OpenError> {
    let key = root.key("format");
    let found = link.command(redis::cmd("GET").arg(&key), &key).await.map(Answer);
    let Some(found) = found.map_err(OpenError::unavailable)?.there() else { return Ok(None) };
    let found = found.text().map_err(OpenError::unavailable)?;
    let partitions = found.split_once(' ').and_then(|(_, partitions)| partitions.parse().ok());
    let partitions = partitions.unwrap_or(1);
    permit(&found, partitions).map(|()| Some(partitions))
}

fn permit(found: &str, partitions: u16) -> Result<(), OpenError> {
    let (version, parts) = found.split_once(' ').unwrap_or((found, ""));
    match (version.parse::<u32>(), parts.parse::<u16>()) {
        (Ok(version), _) if version > FORMAT_VERSION => Err(OpenError::Unfit(format!(
            "the store was written by a newer version of Recado (format {version}, this one knows {FORMAT_VERSION}); \
             run the newer version"
        ))),
        (Ok(version @ 1..FORMAT_VERSION), _) => Err(OpenError::Unfit(format!(
            "the store was written by an older version of Recado (format {version}, this one knows {FORMAT_VERSION}); \
             with the older version move its jobs into an embedded store (`recado store migrate`), and with this one \
             into a new store with another prefix"
        ))),
        (Ok(FORMAT_VERSION), Ok(parts)) if parts == partitions => Ok(()),
        (Ok(FORMAT_VERSION), Ok(parts)) => Err(OpenError::Unfit(format!(
            "the store has {parts} partitions and not {partitions}; set partitions = {parts}, or move its jobs into a \
             new store with another prefix (`recado store migrate` with --from-prefix and --prefix)"
        ))),
        _ => Err(OpenError::Unfit(
            "what lies under the prefix is not a store of Recado's; give it a prefix of its own".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_version_wrote_is_opened() {
        assert!(permit("2 3", 3).is_ok());
        let words = |found: &str| permit(found, 3).unwrap_err().to_string();
        assert!(words("3 3").contains("newer version"), "{}", words("3 3"));
        assert!(words("1 3").contains("older version"), "{}", words("1 3"));
        assert!(words("2 4").contains("partitions = 4"), "{}", words("2 4"));
        for strange in ["", "2", "0 3", "hello"] {
            assert!(words(strange).contains("prefix of its own"), "{strange:?}: {}", words(strange));
        }
    }
}
