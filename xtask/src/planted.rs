//! Puts known faults back, one at a time, and expects the simulator to find each.

use std::fs;
use std::path::Path;

use crate::{Outcome, root, tidy};

/// Seeds within which a fault has to be found.
const SEEDS: &str = "0..2000";

/// Runs the simulator on a copy of the tree with each fault of the table in `crates/recado-sim/planted`.
pub fn run() -> Outcome {
    let tree = root().join("target/planted");
    let table = fs::read_to_string(root().join("crates/recado-sim/planted/faults.json"));
    let table = table.map_err(|error| format!("cannot read the planted faults: {error}"))?;
    let table: serde_json::Value =
        serde_json::from_str(&table).map_err(|error| format!("cannot read the planted faults: {error}"))?;
    let wanted = std::env::args().nth(2);
    let mut missed = Vec::new();
    for fault in table.as_array().into_iter().flatten() {
        let name = fault["name"].as_str().unwrap_or_default();
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        println!("\n── {name}");
        copy_tree(&tree)?;
        for edit in fault["edits"].as_array().into_iter().flatten() {
            plant(&tree, edit)?;
        }
        match find(&tree)? {
            Some(words) => println!("found:{words}"),
            None => missed.push(name.to_owned()),
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("not found within {SEEDS}: {}", missed.join("; "))),
    }
}

/// Copies the files that git tracks; one that is the same keeps its time, so that it is not built again.
pub fn copy_tree(tree: &Path) -> Outcome {
    for path in tidy::files()? {
        let (from, to) = (root().join(&path), tree.join(&path));
        let text = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        if fs::read(&to).is_ok_and(|there| there == text) {
            continue;
        }
        let folder = to.parent().unwrap_or(tree);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&to, text));
        written.map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(())
}

fn plant(tree: &Path, edit: &serde_json::Value) -> Outcome {
    let field = |name: &str| edit[name].as_str().unwrap_or_default();
    let (path, find) = (tree.join(field("file")), field("find"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.matches(find).count() != 1 {
        return Err(format!("{}: the text `{find}` stands there not once; mend the table", field("file")));
    }
    fs::write(&path, text.replace(find, field("replace"))).map_err(|error| error.to_string())
}

/// Returns the first line about a seed that failed.
fn find(tree: &Path) -> Result<Option<String>, String> {
    let mut seeds = crate::build_simulator(tree)?;
    let output = seeds.args(["--seeds", SEEDS, "--first"]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().find(|line| line.starts_with("  seed ")).map(str::to_owned))
}
