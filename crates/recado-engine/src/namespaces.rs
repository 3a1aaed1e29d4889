//! The namespaces that move with a store.

use recado_store::Namespace;

use crate::admission::breaker::PROVIDERS;
use crate::admission::control::{LIMITS, RECEIVER_HOLDS, ROUTES, TENANT_LIMITS};
use crate::admission::tenant_limits;
use crate::attempt::calls;
use crate::dlq::{archive, bulk};
use crate::duties::alerts;
use crate::metrics::dead_letter_rate;
use crate::notify::{accounts, endpoints};

/// All but [`crate::duties::nodes::NAMESPACE`] and [`crate::audit::NAMESPACE`]: the nodes of one store are not those of
/// the next, and its trail's numbers are its own.
pub const MOVED_NAMESPACES: [Namespace; 13] = [
    PROVIDERS,
    ROUTES,
    LIMITS,
    RECEIVER_HOLDS,
    TENANT_LIMITS,
    tenant_limits::NAMESPACE,
    accounts::NAMESPACE,
    endpoints::NAMESPACE,
    calls::NAMESPACE,
    bulk::NAMESPACE,
    dead_letter_rate::NAMESPACE,
    archive::NAMESPACE,
    alerts::NAMESPACE,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Names of the namespaces in the code above each file's tests.
    fn written(dir: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                written(&path, names);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let found = code.split("Namespace::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(found.map(str::to_owned));
        }
    }

    #[test]
    fn every_namespace_of_the_engine_moves_but_those_of_the_nodes_and_of_the_trail() {
        let mut names = BTreeSet::new();
        written(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        assert!(
            names.remove(crate::duties::nodes::NAMESPACE.as_str())
                && names.remove(crate::audit::NAMESPACE.as_str())
        );
        let listed: BTreeSet<String> =
            MOVED_NAMESPACES.iter().map(|namespace| namespace.as_str().to_owned()).collect();
        assert_eq!(names, listed);
    }
}
