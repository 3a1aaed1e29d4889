//! Puts known faults back, one at a time, and expects the simulator to find each.
//!
//! `tidy` checks that every text which a fault replaces is still in its file, so that the table cannot rot.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Outcome, root, tidy};

/// The faults: a name, and the edits that plant it.
const TABLE: &str = "crates/recado-sim/planted/faults.json";

/// Seeds within which a fault has to be found.
const SEEDS: &str = "0..2000";

/// Checks that every text which a fault replaces is in its file, exactly once.
pub fn check(faults: &mut Vec<String>) {
    match table() {
        Ok(table) => {
            let edits = table.iter().flat_map(edits);
            faults.extend(edits.filter_map(|edit| read(&root(), edit).err()));
        }
        Err(why) => faults.push(why),
    }
}

/// Runs the simulator on a copy of the tree with each fault of the table, or with those whose name contains the argument.
pub fn run() -> Outcome {
    let tree = root().join("target/planted");
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let name = |fault: &Value| fault["name"].as_str().unwrap_or_default().to_owned();
    let mut chosen = table()?;
    chosen.retain(|fault| name(fault).contains(&wanted));
    if chosen.is_empty() {
        return Err(format!("no planted fault has that name; see {TABLE}"));
    }
    let mut missed = Vec::new();
    for fault in &chosen {
        let name = name(fault);
        println!("\n── {name}");
        copy_tree(&tree)?;
        for edit in edits(fault) {
            plant(&tree, edit)?;
        }
        match find(&tree)? {
            Some(words) => println!("found:{words}"),
            None => missed.push(name),
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("not found within {SEEDS}: {}", missed.join("; "))),
    }
}

fn table() -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(root().join(TABLE)).map_err(|error| format!("{TABLE}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{TABLE}: {error}"))
}

fn edits(fault: &Value) -> impl Iterator<Item = &Value> {
    fault["edits"].as_array().into_iter().flatten()
}

fn field<'e>(edit: &'e Value, name: &str) -> &'e str {
    edit[name].as_str().unwrap_or_default()
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

/// Reads the file that an edit changes; it must contain the replaced text exactly once.
fn read(tree: &Path, edit: &Value) -> Result<String, String> {
    let (file, find) = (field(edit, "file"), field(edit, "find"));
    let text = fs::read_to_string(tree.join(file)).map_err(|error| format!("{file}: {error}"))?;
    match text.matches(find).count() {
        1 => Ok(text),
        _ => Err(format!("{file}: must contain `{find}` exactly once; update {TABLE}")),
    }
}

fn plant(tree: &Path, edit: &Value) -> Outcome {
    let text = read(tree, edit)?.replace(field(edit, "find"), field(edit, "replace"));
    fs::write(tree.join(field(edit, "file")), text).map_err(|error| error.to_string())
}

/// Returns the first line about a seed that failed.
fn find(tree: &Path) -> Result<Option<String>, String> {
    let mut seeds = crate::build_simulator(tree)?;
    let output = seeds.args(["--seeds", SEEDS, "--first"]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().find(|line| line.starts_with("  seed ")).map(str::to_owned))
}
