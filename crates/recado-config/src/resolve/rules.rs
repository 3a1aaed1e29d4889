//! An operator's own classification rules.

use recado_core::RouteName;
use recado_core::classify::{Blame, Class, Condition, Rule};
use regex::Regex;

use crate::keys::format::quote;
use crate::keys::route::RuleKeys;
use crate::reading::checker::Checker;
use crate::reading::tree::Text;

/// Checks one entry of `classify` and fills in what it leaves open; `path` is `routes.<name>.classify[<position>]`.
pub fn resolve(keys: &RuleKeys, path: &str, checker: &Checker) -> Option<RuleKeys> {
    let has = |key: &str| checker.has(&format!("{path}.{key}"));
    if !has("as") {
        checker.fault(path, "the rule does not say what it means; write as = \"transient\", \"permanent\", \"rate_limit\" or \"unknown\"");
    }
    if !["code", "name", "enhanced", "status", "text", "regex", "network"].into_iter().any(has) {
        checker.fault(
            path,
            "the rule would match every failure; give it a code, name, enhanced, status, text, regex or network",
        );
        return None;
    }
    if has("code") && has("name") {
        checker.fault(&format!("{path}.name"), "`name` is another word for `code`; give one of the two");
    }
    if has("wait") && keys.class == Some(Class::Permanent) {
        let message =
            "a permanent error is not retried, so it has no wait; take it out, or write as = \"rate_limit\"";
        checker.fault(&format!("{path}.wait"), message);
    }
    let usual_blame = if keys.class? == Class::Permanent { Blame::Message } else { Blame::Provider };
    Some(RuleKeys {
        code: keys.code.clone().or_else(|| keys.name.clone()),
        name: None,
        blame: keys.blame.or(Some(usual_blame)),
        ..keys.clone()
    })
}

impl RuleKeys {
    /// As the classifier wants it: a rule for each status, all by the entry's name.
    pub fn rules(&self, route: &RouteName, position: usize) -> Vec<Rule> {
        let condition = Condition {
            code: self.code.clone().map(Into::into),
            enhanced: self.enhanced.clone().map(Into::into),
            status: None,
            text: self.text.clone().map(Into::into),
            regex: self.regex.clone(),
            network: self.network.flatten(),
            any_network: self.network == Some(None),
        };
        let rule = |status| Rule {
            name: format!("config/{route}/{}", position + 1).into(),
            when: Condition { status, ..condition.clone() },
            class: self.class.unwrap_or(Class::Unknown),
            blame: self.blame.unwrap_or(Blame::Provider),
            wait: self.wait,
        };
        match &self.status {
            Some(several) => several.iter().map(|range| rule(Some(*range))).collect(),
            None => vec![rule(None)],
        }
    }
}

pub fn non_empty(written: &Text) -> Result<String, String> {
    if written.text.trim().is_empty() {
        return Err(
            "this is empty and would match every failure; write what to look for, or leave it out".to_owned()
        );
    }
    Ok(written.text.clone())
}

pub fn regular_expression(written: &Text) -> Result<Regex, String> {
    Regex::new(&non_empty(written)?).map_err(|error| {
        let words = error.to_string();
        let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("this is not a regular expression: {last}")
    })
}

pub fn enhanced_code(written: &Text) -> Result<String, String> {
    let part = |part: &str| {
        part == "x" || ((1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let text = non_empty(written)?;
    if text.split('.').count() != 3 || !text.split('.').all(part) {
        return Err(
            "this is not an enhanced code; write three parts, such as \"4.7.1\" or \"4.x.x\"".to_owned()
        );
    }
    Ok(text)
}

/// Any status from the first to the second.
pub type StatusRange = (u16, u16);

/// Reads `500`, `"50x"` or `"5xx"`.
pub fn status_range(written: &Text) -> Result<StatusRange, String> {
    let text = written.text.trim().to_ascii_lowercase();
    let end = |digit: &str| text.replace('x', digit).parse::<u16>().ok();
    let shaped = text.len() == 3 && text.trim_end_matches('x').bytes().all(|b| b.is_ascii_digit());
    let range = end("0").zip(end("9")).filter(|(low, high)| shaped && *low >= 100 && *high <= 599);
    range.ok_or_else(|| "this is not an HTTP status; write 100 to 599, \"50x\" or \"5xx\"".to_owned())
}

/// A single status is written as a number.
pub fn write_status_range(range: &StatusRange) -> String {
    if range.0 == range.1 { range.0.to_string() } else { quote(&show_status_range(range)) }
}

pub fn show_status_range((low, high): &StatusRange) -> String {
    match high - low {
        0 => low.to_string(),
        9 => format!("{}x", low / 10),
        _ => format!("{}xx", low / 100),
    }
}
