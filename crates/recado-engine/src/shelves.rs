//! The shelves of notes that move with a store.

use recado_store::Shelf;

use crate::values::{LIMITS, PROVIDERS, RECEIVER_HOLDS, ROUTES, TENANT_LIMITS};
use crate::{accounts, alerts, archive, bulk, calls, endpoints, entries, tenants};

/// All but [`crate::nodes::SHELF`] and [`crate::trail::SHELF`]: who shared one store does not share the next, and its
/// trail's numbers are its own.
pub const SHELVES: [Shelf; 13] = [
    PROVIDERS,
    ROUTES,
    LIMITS,
    RECEIVER_HOLDS,
    TENANT_LIMITS,
    tenants::SHELF,
    accounts::SHELF,
    endpoints::SHELF,
    calls::SHELF,
    bulk::SHELF,
    entries::SHELF,
    archive::SHELF,
    alerts::SHELF,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Names of the shelves in the code above each file's tests.
    fn written(dir: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                written(&path, names);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let found = code.split("Shelf::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(found.map(str::to_owned));
        }
    }

    #[test]
    fn every_shelf_of_the_engine_moves_but_those_of_the_nodes_and_of_the_trail() {
        let mut names = BTreeSet::new();
        written(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        assert!(names.remove(crate::nodes::SHELF.as_str()) && names.remove(crate::trail::SHELF.as_str()));
        let listed: BTreeSet<String> = SHELVES.iter().map(|shelf| shelf.as_str().to_owned()).collect();
        assert_eq!(names, listed);
    }
}
