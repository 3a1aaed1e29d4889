//! The order of the engine's rooms: the table in its `lib.rs` says it, and every module holds to it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Outcome, root, tidy};

const ENGINE: &str = "crates/recado-engine/src";

/// Checks that each module of the engine uses only those in rows above its own.
pub fn check(faults: &mut Vec<String>) -> Outcome {
    let read = |path: &Path| {
        std::fs::read_to_string(root().join(path)).map_err(|error| format!("{}: {error}", path.display()))
    };
    let rows = rows_of(&read(&Path::new(ENGINE).join("lib.rs"))?);
    for path in tidy::files()? {
        let Ok(relative) = path.strip_prefix(ENGINE) else { continue };
        let module = relative.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let Some(row) = rows.get(module) else {
            faults.push(format!("{ENGINE}/lib.rs: the table of rooms has no row for `{module}`"));
            continue;
        };
        for used in used_modules(&read(&path)?) {
            if used != module && rows.get(&*used).is_some_and(|other| other >= row) {
                let (path, why) = (path.display(), "which is not above it in the table of rooms");
                faults.push(format!("{path}: `{module}` uses `{used}`, {why}"));
            }
        }
    }
    Ok(())
}

/// Returns the row of each module: the links in the first column of a table in the crate's documentation.
fn rows_of(lib: &str) -> BTreeMap<String, usize> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split(" | ").next());
    let modules =
        |row: &str| row.split("`] [`").map(|name| name.trim_end_matches("`]").to_owned()).collect::<Vec<_>>();
    rows.enumerate().flat_map(|(at, row)| modules(row).into_iter().map(move |name| (name, at))).collect()
}

/// Returns the modules that the code above a file's tests names by `crate::`.
fn used_modules(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let name = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
    code.split("crate::").skip(1).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_rooms_is_read_and_a_use_of_a_lower_room_is_found() {
        let rows = rows_of(
            "//! | room | duty |\n//! |---|---|\n//! | [`clock`] [`route`] | time |\n//! | [`dlq`] | x |\n",
        );
        assert_eq!((rows["clock"], rows["route"], rows["dlq"]), (0, 0, 1));
        let used =
            used_modules("use crate::clock::Clock;\n// crate::not::this\n#[cfg(test)]\nuse crate::dlq;");
        assert_eq!(used, ["clock"]);
    }
}
