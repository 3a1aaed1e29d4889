//! The default file and the file to start from: every key with its explanation, as its section's table has it.

use crate::catalogue::Environment;
use crate::show::{Style, page};
use crate::{Config, Flags, Inputs};

pub const DEFAULT_PREFACE: &str = include_str!("../../pages/default-preface.toml");

pub const STARTER_PREFACE: &str = include_str!("../../pages/starter-preface.toml");

/// The defaults, explained.
pub fn default_file() -> String {
    written(Style::Default)
}

/// A file to start from.
pub fn starter_file() -> String {
    written(Style::Starter)
}

fn written(style: Style) -> String {
    let flags = Flags { environment: Some(Environment::Development), ..Flags::default() };
    match Config::load(&Inputs { flags, ..Inputs::default() }) {
        Ok(config) => page(&config, style) + EXAMPLE,
        Err(faults) => format!("# The built-in configuration is faulty; this is a bug.\n{faults}"),
    }
}

/// A route of one's own, for copying.
const EXAMPLE: &str = include_str!("../../pages/own-route.toml");
