//! `docs/requirements.md` names every requirement, and tests that exist.

use std::collections::BTreeSet;

use crate::{Outcome, root};

/// The families of requirements and how many each has.
const FAMILIES: [(char, usize); 5] = [('E', 13), ('G', 24), ('W', 7), ('T', 23), ('F', 14)];

/// A row reads `| id | requirement | how it works here | tests or "open" |`; a test reads `` `path::name` ``.
pub fn check(faults: &mut Vec<String>) -> Outcome {
    let path = "docs/requirements.md";
    let text = std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
    let mut named = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, requirement, how, proof] = cells[..] else { continue };
        if !id.starts_with(|first: char| FAMILIES.iter().any(|(family, _)| *family == first))
            || id[1..].parse::<usize>().is_err()
        {
            continue;
        }
        named.insert(id.to_owned());
        if requirement.is_empty() {
            faults.push(format!("{path}: {id} does not say what is required"));
        }
        if how.is_empty() {
            faults.push(format!("{path}: {id} does not say how it works"));
        }
        let tests: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && !proof.starts_with("open") {
            faults.push(format!("{path}: {id} names no test and is not open"));
        }
        for test in tests {
            if let Some(why) = missing(test) {
                faults.push(format!("{path}: {id} names {test}: {why}"));
            }
        }
    }
    for (family, count) in FAMILIES {
        for number in 1..=count {
            let id = format!("{family}{number}");
            if !named.contains(&id) {
                faults.push(format!("{path}: {id} is missing"));
            }
        }
    }
    Ok(())
}

/// Says what is wrong with the name of a test, if anything is.
pub fn missing(test: &str) -> Option<&'static str> {
    let Some((file, name)) = test.rsplit_once("::") else { return Some("write it as path::name") };
    let Ok(text) = std::fs::read_to_string(root().join(file)) else { return Some("there is no such file") };
    (!text.contains(&format!("fn {name}("))).then_some("there is no such test in it")
}
