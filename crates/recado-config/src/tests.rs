//! Tests of reading configuration files, and of the faults of wrong ones.

mod alerts;
mod anti_patterns;
mod environment;
mod faults;
mod lanes;
mod policies;
mod route_faults;
mod traces;
mod values;

use super::*;

/// The configuration that this file makes.
fn load(text: &str) -> Config {
    match try_load(text) {
        Ok(config) => config,
        Err(faults) => panic!("the file was refused:\n{faults}"),
    }
}

fn try_load(text: &str) -> Result<Config, Faults> {
    Config::load(&inputs(text, &[]))
}

fn inputs(text: &str, variables: &[(&str, &str)]) -> Inputs {
    Inputs {
        file: Some(Source { name: "recado.toml".to_owned(), text: text.to_owned(), hidden: Vec::new() }),
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        flags: Flags::default(),
    }
}

impl Config {
    fn sandbox_enabled(&self) -> bool {
        self.settings.sandbox.enabled == Some(true)
    }
}

impl RouteConfig {
    /// The name of the transport that takes its jobs.
    fn transport_name(&self) -> &'static str {
        match self.delivery {
            Delivery::Transport | Delivery::Workers => self.kind.as_str(),
            Delivery::Missing(_) => "none",
        }
    }
}

/// Everything that is said about a wrong file.
fn faults_of(text: &str) -> String {
    match try_load(text) {
        Ok(_) => panic!("the file was accepted:\n{text}"),
        Err(faults) => faults.to_string(),
    }
}

#[track_caller]
fn assert_faults(text: &str, expected: &str) {
    let said = faults_of(text);
    let expected = expected.trim_start_matches('\n');
    assert!(said.trim_end() == expected.trim_end(), "expected\n{expected}\nbut was\n{said}");
}
