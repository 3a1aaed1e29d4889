//! Settings from the environment.
//!
//! The rule: `RECADO_` and the key's path in capitals, with two underscores between its parts. A dash in
//! a route's or a provider's name is written as one underscore.
//!
//! | variable | key |
//! |---|---|
//! | `RECADO_SERVER__LISTEN` | `server.listen` |
//! | `RECADO_RETENTION__ENDED_MAX_AGE` | `retention.ended_max_age` |
//! | `RECADO_ROUTES__EMAIL_SES__TIMEOUT` | `routes.email-ses.timeout` |
//! | `RECADO_PROVIDERS__EVOLUTION__API_KEY` | `providers.evolution.api_key` |
//!
//! A few have short names as well: see [`SHORT`]. Values are text; where the key wants a number or true
//! or false they are read as one, and a list or a table is written as in TOML (`["0s", "5s"]`). `${…}` is
//! not replaced in them. Variables without two underscores and without a short name are none of ours:
//! other tools put such names into the environment too.

use std::collections::BTreeMap;

use super::fault::{Place, closest};
use super::tree::{Node, Table, Text, Value, parse_value};

/// Short names, and the keys they stand for.
pub const SHORT: [(&str, &[&str]); 7] = [
    ("RECADO_LISTEN", &["server", "listen"]),
    ("RECADO_TOKEN", &["server", "token"]),
    ("RECADO_STORE", &["store", "url"]),
    ("RECADO_STORE_URL", &["store", "url"]),
    ("RECADO_DATA_DIR", &["store", "data_dir"]),
    ("RECADO_LOG_LEVEL", &["log", "level"]),
    ("RECADO_LOG_FORMAT", &["log", "format"]),
];

/// Read by the command line itself.
pub const ELSEWHERE: [&str; 3] = ["RECADO_CONFIG", "RECADO_ENV", "RECADO_URL"];

const PREFIX: &str = "RECADO_";

/// The environment's variables, by name.
pub type Variables = BTreeMap<String, String>;

/// The settings that the environment makes. `known` are the names of routes and providers, so that a
/// name with a dash is found again.
pub fn settings(variables: &Variables, known: &[String]) -> Table {
    let mut table = Table::default();
    for (name, value) in variables {
        // An empty variable is how many tools unset one.
        if value.is_empty() {
            continue;
        }
        let short = SHORT.iter().find(|(short, _)| short == name);
        let long = name.strip_prefix(PREFIX).filter(|rest| rest.contains("__"));
        let path = match (short, long) {
            (Some((_, path)), _) => path.iter().map(|part| (*part).to_owned()).collect(),
            (None, Some(rest)) => path_of(rest, known),
            (None, None) => continue,
        };
        let place = Place::Variable(name.clone());
        let structured = value.starts_with(['[', '{']).then(|| parse_value(value, &place)).flatten();
        let node = Node { value: structured.unwrap_or_else(|| Value::Text(Text::loose(value))), place };
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        table.put(&path, node);
    }
    table
}

fn path_of(rest: &str, known: &[String]) -> Vec<String> {
    let mut path: Vec<_> = rest.split("__").map(str::to_lowercase).collect();
    if matches!(path[0].as_str(), "routes" | "providers") {
        let spelled = |name: &&String| name.to_lowercase().replace(['-', '.', ':'], "_") == path[1];
        path[1] = match known.iter().find(spelled) {
            Some(name) => name.clone(),
            None => path[1].replace('_', "-"),
        };
    }
    path
}

/// Variables that look like a slip of the pen: their name, and the one that was probably meant.
pub fn misspelled(variables: &Variables) -> Vec<(String, &'static str)> {
    let known = || SHORT.iter().map(|(name, _)| *name).chain(ELSEWHERE);
    let ours = |name: &&String| {
        name.starts_with(PREFIX) && !name.contains("__") && !known().any(|known| known == *name)
    };
    let near = |name: &String| {
        let near = closest(&name[PREFIX.len()..], known().map(|known| &known[PREFIX.len()..]))?;
        let whole = known().find(|known| known.ends_with(near))?;
        Some((name.clone(), whole))
    };
    variables.keys().filter(ours).filter_map(near).collect()
}
