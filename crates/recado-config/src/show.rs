//! A configuration written out as TOML: the settings in effect, or the commented default.
//!
//! Both come from the same walk over the same [`Config`], so that the default file cannot say anything
//! else than the program does. Secrets are written as `***`.

pub mod reference;
pub mod template;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use recado_core::Policy;
use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_engine::admission::provider::ProviderTerms;
use recado_engine::notify::notices::Channel;

use crate::catalogue::{Environment, ROUTES};
use crate::keys::channel::ChannelKeys;
use crate::keys::format::{quote_key, table};
use crate::keys::provider::ProviderKeys;
use crate::keys::table::{Row, Section, defaults};
use crate::resolve::protection;
use crate::resolve::routes::policy_keys;
use crate::{Config, Delivery, RouteConfig};

/// Purpose of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The settings in effect.
    Effective,
    /// Every default with its explanation.
    Default,
    /// The same with every line commented out, to start a file from.
    Starter,
}

/// Writes the configuration out.
pub fn page(config: &Config, style: Style) -> String {
    let mut settings = config.settings.clone();
    if style != Style::Effective {
        // The environment decides.
        settings.sandbox.enabled = None;
    }
    let mut page = Page { out: String::new(), style, section: "", explained: BTreeSet::new() };
    page.preface(config);
    for row in settings.rows() {
        page.section = row.key;
        match row.key {
            "notify" => page.channels(config),
            "providers" => {
                config.protection.iter().for_each(|(name, terms)| page.provider(config, name, terms))
            }
            "routes" => config.routes.iter().for_each(|route| page.route(config, route)),
            "environments" => {}
            path => {
                page.heading(path, row.doc);
                page.rows(&row.rows);
            }
        }
    }
    page.out
}

/// A policy as the configuration writes it.
pub fn policy(policy: &Policy) -> String {
    table().write(&policy_keys(policy))
}

struct Page {
    out: String,
    style: Style,
    /// The section whose keys are written: `server`, `routes`.
    section: &'static str,
    /// Keys that have had their comment, by section.
    explained: BTreeSet<(&'static str, &'static str)>,
}

impl Page {
    fn preface(&mut self, config: &Config) {
        match self.style {
            Style::Effective => {
                let (environment, file) = (config.environment, config.file.as_deref().unwrap_or("no file"));
                self.comment(&format!(
                    "What holds in {environment}: built-in defaults, {file}, variables and flags. Secrets are hidden."
                ));
            }
            Style::Default => self.out.push_str(template::DEFAULT_PREFACE),
            Style::Starter => self.out.push_str(template::STARTER_PREFACE),
        }
    }

    fn comment(&mut self, line: &str) {
        let _ = writeln!(self.out, "{}", format!("# {}", line.trim_start()).trim_end());
    }

    /// Writes a line that the starter file comments out.
    fn line(&mut self, line: &str) {
        let commented_out = if self.style == Style::Starter { "#" } else { "" };
        let _ = writeln!(self.out, "{commented_out}{line}");
    }

    fn heading(&mut self, path: &str, about: &[&str]) {
        self.out.push('\n');
        if self.style != Style::Effective {
            about.iter().for_each(|line| self.comment(line));
        }
        self.line(&format!("[{path}]"));
    }

    fn rows(&mut self, rows: &[Row]) {
        for row in rows {
            let is_new = self.style != Style::Effective && !self.explained.contains(&(self.section, row.key));
            if row.value.is_none() && (!is_new || row.example.is_none()) {
                continue;
            }
            if is_new {
                self.explained.insert((self.section, row.key));
                row.doc.iter().for_each(|line| self.comment(line));
            }
            match (&row.value, &row.example) {
                (Some(value), _) => self.line(&format!("{} = {value}", row.key)),
                (None, Some(example)) => {
                    let _ = writeln!(self.out, "#{} = {example}", row.key);
                }
                (None, None) => {}
            }
        }
    }

    fn channels(&mut self, config: &Config) {
        if self.style != Style::Effective {
            self.out.push_str("\n#[notify.ops]\n");
            self.rows(&defaults::<ChannelKeys>().rows());
        }
        for (name, keys) in &config.settings.notify {
            let mut keys = keys.clone();
            if let Some(Channel::Email { route, .. }) = config.notices.channels.get(name.as_str()) {
                keys.route = Some(route.to_string());
            }
            self.heading(&format!("notify.{}", quote_key(name)), &[]);
            self.rows(&keys.rows());
        }
    }

    fn provider(&mut self, config: &Config, name: &str, terms: &ProviderTerms) {
        self.heading(&format!("providers.{}", quote_key(name)), &[]);
        let written = config.settings.providers.get(name);
        let mut keys = written.cloned().unwrap_or_else(defaults::<ProviderKeys>);
        let provider = config.providers.get(name);
        keys.transport = provider.map(|provider| provider.kind);
        keys.protection = protection::keys(terms, keys.protection.allow);
        let protection = keys.protection.rows();
        if provider.is_some_and(|provider| !provider.says_nothing()) {
            let rows = keys.rows();
            self.rows(&rows[..rows.len() - protection.len()]);
        }
        let row = ROUTES.iter().find(|row| row.provider == name && self.style != Style::Effective);
        for line in row.iter().flat_map(|row| row.provider_lines.lines().skip(1)) {
            let _ = writeln!(self.out, "#{line}");
        }
        self.rows(&protection);
    }

    fn route(&mut self, config: &Config, route: &RouteConfig) {
        let name = quote_key(route.name.as_str());
        let purpose = route.built_in.map(|row| row.purpose.as_str());
        self.heading(&format!("routes.{name}"), purpose.as_slice());
        match (&route.delivery, self.style) {
            (Delivery::Missing(what), Style::Effective) => {
                format!("Refuses jobs: {what}").lines().for_each(|line| self.comment(line));
            }
            (_, Style::Effective) => {
                self.comment(&format!("Carried by transport \"{}\".", route.kind.as_str()));
            }
            (Delivery::Missing(_), _) => {
                let lacks = if route.kind.needs_address() { "has an address" } else { "is written" };
                self.comment(&format!("Refuses jobs until [providers.{}] {lacks}.", route.provider));
            }
            _ => {}
        }
        let mut keys = route.keys();
        keys.allow = config.settings.routes.get(route.name.as_str()).and_then(|keys| keys.allow.clone());
        let mut development = None;
        if self.style != Style::Effective {
            keys.hold_max = keys.hold_max.filter(|max| *max != HOLD_MAX_DEFAULT);
            if let Some(row) = route.built_in {
                let production = row.policy(Environment::Production);
                keys.policy = Some(policy_keys(&production));
                development = Some(row.policy(Environment::Development)).filter(|own| *own != production);
            }
        }
        self.rows(&keys.rows());
        if let Some(development) = development {
            self.heading(&format!("environments.development.routes.{name}"), &[]);
            self.line(&format!("policy = {}", policy(&development)));
        }
    }
}
