//! The format of a store: its version, and its number of partitions.
//!
//! Every partition has it in a key of its own, written when the store is made and checked while the store is open: a
//! server that was emptied loses it, and a node with another number of partitions would find a part of the jobs and
//! miss the rest. A partition of an older version is upgraded when the store is opened, see [`crate::format::upgrade`].

pub(crate) mod upgrade;

use std::sync::Weak;
use std::time::Duration;

use crate::codec::keys::Root;
use crate::link::{Link, OpenError};
use crate::store::Shared;

/// The version of what is written. A newer one is not touched; an older one is upgraded.
pub const FORMAT_VERSION: u32 = 3;

/// Interval of checks, and so the longest time that a server that lost the format is without it.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The version of a partition that has the expected number of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundVersion {
    Current,
    Older(u32),
}

/// The text of the format key.
pub(crate) fn text(version: u32, partitions: u16) -> String {
    format!("{version} {partitions}")
}

/// Checks the format for as long as the store is open, and writes it again when a server lost it.
pub(crate) async fn keep(store: Weak<Shared>) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        let partitions = store.roots.len() as u16;
        for root in store.roots.iter().chain([&store.kv_root]) {
            let why = match check(&store.link, root, partitions).await {
                Err(OpenError::Unfit(why)) => why,
                Ok(FoundVersion::Older(version)) => format!("it has the older format {version}"),
                // A server that does not answer is asked again.
                Ok(FoundVersion::Current) | Err(_) => continue,
            };
            let _ = store.format_changed.set(format!(
                "Redis was emptied or given other data while this node was running, and what is there now is another \
                 store: {why}. Give all nodes the same settings, and start them again; what was there before is in \
                 backups of Redis alone"
            ));
            return;
        }
    }
}

/// Writes the format of a new store, or reads that of an existing one.
pub(crate) async fn check(link: &Link, root: &Root, partitions: u16) -> Result<FoundVersion, OpenError> {
    let (key, new) = (root.key("format"), text(FORMAT_VERSION, partitions));
    let mut command = redis::cmd("SET");
    command.arg(&key).arg(&new).arg("NX").arg("GET");
    let found: Option<String> = link.command(&command).await?;
    read_version(&found.unwrap_or(new), partitions)
}

/// Checks the format of an existing store, and writes nothing.
pub(crate) async fn peek(link: &Link, root: &Root, partitions: u16) -> Result<(), OpenError> {
    let found: Option<String> = link.command(redis::cmd("GET").arg(root.key("format"))).await?;
    found.map_or(Ok(()), |found| read_version(&found, partitions).map(drop))
}

/// Reads the number of partitions of an existing store, and writes nothing.
pub async fn found_partitions(link: &Link, root: &Root) -> Result<Option<u16>, OpenError> {
    let found: Option<String> = link.command(redis::cmd("GET").arg(root.key("format"))).await?;
    let Some(found) = found else { return Ok(None) };
    let partitions = found.split_once(' ').and_then(|(_, partitions)| partitions.parse().ok());
    let partitions = partitions.unwrap_or(1);
    read_version(&found, partitions).map(|_| Some(partitions))
}

fn read_version(found: &str, partitions: u16) -> Result<FoundVersion, OpenError> {
    let (version, count) = found.split_once(' ').unwrap_or((found, ""));
    match (version.parse::<u32>(), count.parse::<u16>()) {
        (Ok(version), _) if version > FORMAT_VERSION => Err(OpenError::Unfit(format!(
            "the store was written by a newer version of Recado (format {version}, this one knows {FORMAT_VERSION}); \
             run the newer version"
        ))),
        (Ok(1..=FORMAT_VERSION), Ok(count)) if count != partitions => Err(OpenError::Unfit(format!(
            "the store has {count} partitions and not {partitions}; set partitions = {count}, or move its jobs into a \
             new store with another prefix (`recado store migrate` with --from-prefix and --prefix)"
        ))),
        (Ok(FORMAT_VERSION), Ok(_)) => Ok(FoundVersion::Current),
        (Ok(version @ 1..FORMAT_VERSION), Ok(_)) => Ok(FoundVersion::Older(version)),
        _ => Err(OpenError::Unfit(
            "what lies under the prefix is not a store of Recado's; give it a prefix of its own".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_version_and_those_before_it_are_opened_and_no_others() {
        assert_eq!(read_version("3 3", 3).unwrap(), FoundVersion::Current);
        assert_eq!(read_version("2 3", 3).unwrap(), FoundVersion::Older(2));
        assert_eq!(read_version("1 3", 3).unwrap(), FoundVersion::Older(1));
        let words = |found: &str| read_version(found, 3).unwrap_err().to_string();
        assert!(words("4 3").contains("newer version"), "{}", words("4 3"));
        assert!(words("3 4").contains("partitions = 4"), "{}", words("3 4"));
        assert!(words("1 4").contains("partitions = 4"), "{}", words("1 4"));
        for strange in ["", "3", "1", "0 3", "hello"] {
            assert!(words(strange).contains("prefix of its own"), "{strange:?}: {}", words(strange));
        }
    }
}
