//! House rules that a compiler does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, cargo, licences, mutants, output, planted, proof, requirements, rooms, root};

/// Crates of the workspace that each one may depend on, without the `recado-` of their names. Arrows point inwards.
const ALLOWED: &[(&str, &str)] = &[
    ("recado-core", ""),
    ("recado-audit", "core"),
    ("recado-observe", "core"),
    ("recado-store", "core"),
    ("recado-store-conformance", "core store"),
    ("recado-store-embedded", "core store"),
    ("recado-store-redis", "core store"),
    ("recado-transport", "core"),
    ("recado-email", "core transport"),
    ("recado-transport-smtp", "core transport email"),
    ("recado-transport-ses", "core transport email"),
    ("recado-transport-webhook", "core transport"),
    ("recado-engine", "core audit observe store transport transport-webhook"),
    ("recado-wire", "core"),
    ("recado-simulate", "core store transport engine wire"),
    ("recado-api", "core audit observe store transport engine wire simulate"),
    ("recado-client", "wire core"),
    ("recado-camunda", "core wire client"),
    (
        "recado-config",
        "core observe store-redis transport transport-smtp transport-ses transport-webhook email engine",
    ),
    ("recado-terminal", "core"),
    ("recado-testkit", "core"),
    (
        "recado-server",
        "core observe store store-embedded store-redis transport transport-smtp transport-ses transport-webhook engine api config terminal simulate",
    ),
    ("recado-sim", "core store store-conformance transport engine server"),
    ("recado-bench", "core audit store store-embedded store-redis transport engine wire api client terminal"),
    ("recado-demo", "core client config server terminal testkit"),
    (
        "recado-cli",
        "core audit store-embedded store-redis engine wire client camunda config server bench demo terminal simulate",
    ),
    (
        "recado-fuzz",
        "core api config email engine store store-embedded store-redis testkit transport transport-smtp wire",
    ),
    ("recado", "cli"),
    ("xtask", ""),
];

/// Crates that the pure core must never reach, however deep.
const BANNED_FROM_CORE: [&str; 8] =
    ["tokio", "rand", "fastrand", "reqwest", "hyper", "rusqlite", "axum", "getrandom"];

/// Longest source file allowed, in lines.
const FILE_LINES_MAX: usize = 700;

/// File names that say nothing about their content.
const DRAWERS: [&str; 6] = ["util.rs", "utils.rs", "common.rs", "helpers.rs", "misc.rs", "imp.rs"];

pub fn run() -> Outcome {
    println!("\n── tidy");
    let mut faults = Vec::new();
    let metadata = metadata()?;
    dependency_direction(&metadata, &mut faults)?;
    rooms::check(&mut faults)?;
    licences::check(&metadata, &mut faults);
    source_files(&mut faults)?;
    unreachable_pages(&mut faults)?;
    requirements::check(&mut faults)?;
    mutants::check(&mut faults);
    planted::check(&mut faults);
    proof::check(&mut faults);
    if faults.is_empty() {
        println!("tidy");
        return Ok(());
    }
    for fault in &faults {
        println!("- {fault}");
    }
    Err(format!("{} faults", faults.len()))
}

fn metadata() -> Result<serde_json::Value, String> {
    let args = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let output = output("cargo metadata", cargo().args(args))?;
    serde_json::from_slice(&output).map_err(|error| format!("cargo metadata: {error}"))
}

fn dependency_direction(metadata: &serde_json::Value, faults: &mut Vec<String>) -> Outcome {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    for package in
        metadata["packages"].as_array().into_iter().flatten().filter(|package| package["source"].is_null())
    {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(may) = allowed.get(name) else {
            faults.push(format!("crate {name} is not in tidy's list of who may depend on whom"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            let is_allowed = may.split(' ').any(|short| on.strip_prefix("recado-") == Some(short));
            if allowed.contains_key(on) && dependency["kind"].is_null() && !is_allowed {
                faults.push(format!("{name} depends on {on}: arrows point inwards, see ARCHITECTURE.md"));
            }
        }
    }
    for banned in reachable_from_core()? {
        faults.push(format!(
            "recado-core reaches {banned}: the core does no I/O, reads no clock and draws no numbers"
        ));
    }
    Ok(())
}

/// Returns the crates that the core reaches and must not.
fn reachable_from_core() -> Result<Vec<&'static str>, String> {
    let args = ["tree", "--package", "recado-core", "--locked", "--all-features", "--target", "all"];
    let tree = output("cargo tree", cargo().args(args).args(["--edges", "normal", "--prefix", "none"]))?;
    let tree = String::from_utf8_lossy(&tree);
    let reaches = |banned: &&str| tree.lines().any(|line| line.split(' ').next() == Some(banned));
    Ok(BANNED_FROM_CORE.into_iter().filter(reaches).collect())
}

/// Files that git tracks or would track.
pub fn files() -> Result<Vec<PathBuf>, String> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = output("git ls-files", Command::new("git").current_dir(root()).args(args))?;
    let names = String::from_utf8_lossy(&output);
    Ok(names.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect())
}

fn source_files(faults: &mut Vec<String>) -> Outcome {
    let home = std::env::var("HOME").unwrap_or_default();
    let here = root().display().to_string();
    for path in files()? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if DRAWERS.contains(&name) {
            faults.push(format!("{}: name the file after what is in it", path.display()));
        }
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        let lines = text.lines().count();
        if path.extension().is_some_and(|ending| ending == "rs") && lines > FILE_LINES_MAX {
            faults.push(format!("{}: {lines} lines; split it at {FILE_LINES_MAX}", path.display()));
        }
        let local = [home.as_str(), here.as_str()].into_iter().filter(|path| path.len() > 1);
        for local in local {
            if text.contains(&format!("{local}/")) {
                faults.push(format!("{}: holds a path of this machine ({local})", path.display()));
            }
        }
        if path.extension().is_some_and(|ending| ending == "md") {
            dead_links(&path, &text, faults);
        }
    }
    Ok(())
}

/// Relative links in Markdown lead somewhere.
fn dead_links(path: &Path, text: &str, faults: &mut Vec<String>) {
    for target in relative_links(text) {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        if !root().join(folder).join(target).exists() {
            faults.push(format!("{}: the link to {target} leads nowhere", path.display()));
        }
    }
}

fn relative_links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .map(|part| part.split([')', ' ', '#']).next().unwrap_or_default())
        .filter(|target| !(target.is_empty() || target.contains("://") || target.starts_with("mailto:")))
}

/// Every page of the documentation is reached by links from its front page.
fn unreachable_pages(faults: &mut Vec<String>) -> Outcome {
    let docs = root().join("docs").canonicalize().map_err(|error| format!("docs: {error}"))?;
    let mut reached = BTreeSet::new();
    let mut open = vec![docs.join("README.md")];
    while let Some(page) = open.pop() {
        if !reached.insert(page.clone()) {
            continue;
        }
        let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
        let folder = page.parent().unwrap_or(&docs);
        let linked = relative_links(&text).filter_map(|target| folder.join(target).canonicalize().ok());
        open.extend(linked.filter(|page| page.extension().is_some_and(|ending| ending == "md")));
    }
    for path in files()? {
        let is_page = path.starts_with("docs") && path.extension().is_some_and(|ending| ending == "md");
        if is_page && !root().join(&path).canonicalize().is_ok_and(|page| reached.contains(&page)) {
            faults.push(format!("{}: no link leads here from docs/README.md", path.display()));
        }
    }
    Ok(())
}
