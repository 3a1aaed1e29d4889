//! File descriptors of this process: how many it may have, and how callers of the API and deliveries share them.

use recado_api::ServeLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this a server that is busy runs short.
const FEW_DESCRIPTORS: u64 = 4_096;

/// Connections at least that the API takes, however few descriptors there are.
const CONNECTIONS_MIN: u64 = 16;

/// Raises the limit as far as the process may, and returns it.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "Cannot raise the limit of file descriptors");
    }
    // No limit at all is told as none.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The API's share: half of the descriptors. The other half is for deliveries, the store and files.
pub fn limits_of_api(descriptors: u64) -> ServeLimits {
    let half = usize::try_from((descriptors / 2).max(CONNECTIONS_MIN)).unwrap_or(usize::MAX);
    let limits = ServeLimits::for_connections(half.min(ServeLimits::CONNECTIONS_MAX));
    if descriptors < FEW_DESCRIPTORS {
        tracing::warn!(
            descriptors,
            connections = limits.connections_max,
            "This process may have few file descriptors; raise the hard limit (ulimit -Hn, LimitNOFILE)"
        );
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_are_kept_for_deliveries_and_the_store() {
        for (descriptors, connections) in [(1_024, 512), (20_000, 10_000), (u64::MAX, 10_000), (10, 16)] {
            assert_eq!(limits_of_api(descriptors).connections_max, connections, "{descriptors}");
        }
    }
}
