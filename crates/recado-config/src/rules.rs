//! An operator's own classification rules.

use std::time::Duration;

use recado_core::classify::{Blame, Class, Condition, Rule};
use recado_core::{NetworkKind, RouteName};
use regex::Regex;

use super::fault::At;
use super::raw::RawRule;
use super::reader::FaultList;

/// One entry of a route's `classify`, checked.
#[derive(Clone, Debug)]
pub struct OwnRule {
    pub code: Option<String>,
    pub enhanced: Option<String>,
    /// Any of these, both ends included; empty for any status or none.
    pub status: Vec<(u16, u16)>,
    pub text: Option<String>,
    pub regex: Option<Regex>,
    /// `Some(None)` is any network failure.
    pub network: Option<Option<NetworkKind>>,
    pub class: Class,
    pub blame: Blame,
    pub wait: Option<Duration>,
}

impl OwnRule {
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
            class: self.class,
            blame: self.blame,
            wait: self.wait,
        };
        match self.status.as_slice() {
            [] => vec![rule(None)],
            several => several.iter().map(|range| rule(Some(*range))).collect(),
        }
    }
}

pub fn resolve(raw: &RawRule, faults: &FaultList) -> Option<OwnRule> {
    let fault = |fault| faults.borrow_mut().push(fault);
    if raw.is_empty() {
        fault(raw.here.fault(
            "the rule would match every failure; give it a code, name, enhanced, status, text, regex or network",
        ));
        return None;
    }
    for words in [&raw.code, &raw.name, &raw.enhanced, &raw.text, &raw.regex].into_iter().flatten() {
        if words.value.trim().is_empty() {
            fault(words.fault(
                "this is empty and would match every failure; write what to look for, or leave it out",
            ));
        }
    }
    if let (Some(_), Some(name)) = (&raw.code, &raw.name) {
        fault(name.fault("`name` is another word for `code`; give one of the two"));
    }
    if let Some(enhanced) = raw.enhanced.as_ref().filter(|enhanced| !is_enhanced(&enhanced.value)) {
        fault(
            enhanced.fault("this is not an enhanced code; write three parts, such as \"4.7.1\" or \"4.x.x\""),
        );
    }
    let regex = raw.regex.as_ref().and_then(|pattern| match Regex::new(&pattern.value) {
        Ok(regex) => Some(regex),
        Err(error) => {
            let words = error.to_string();
            let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            fault(pattern.fault(format!("this is not a regular expression: {last}")));
            None
        }
    });
    if let (Some(wait), Some(At { value: Class::Permanent, .. })) = (&raw.wait, &raw.class) {
        fault(wait.fault(
            "a permanent error is not retried, so it has no wait; take it out, or write as = \"rate_limit\"",
        ));
    }
    let status = raw.status.iter().flatten().filter_map(|said| status(said, faults)).collect();
    let class = raw.class.as_ref()?.value;
    let text = |said: &Option<At<String>>| said.as_ref().map(|said| said.value.clone());
    let usual_blame = if class == Class::Permanent { Blame::Message } else { Blame::Provider };
    Some(OwnRule {
        code: text(&raw.code).or_else(|| text(&raw.name)),
        enhanced: text(&raw.enhanced),
        status,
        text: text(&raw.text),
        regex,
        network: raw.network.as_ref().map(|network| network.value),
        class,
        blame: raw.blame.as_ref().map_or(usual_blame, |blame| blame.value),
        wait: raw.wait.as_ref().map(|wait| wait.value),
    })
}

fn is_enhanced(text: &str) -> bool {
    let part = |part: &str| {
        part == "x" || ((1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
    };
    text.split('.').count() == 3 && text.split('.').all(part)
}

/// `500`, `"50x"` or `"5xx"`.
fn status(said: &At<String>, faults: &FaultList) -> Option<(u16, u16)> {
    let text = said.value.trim().to_ascii_lowercase();
    let end = |digit: &str| text.replace('x', digit).parse::<u16>().ok();
    let shaped = text.len() == 3 && text.trim_end_matches('x').bytes().all(|b| b.is_ascii_digit());
    let range = end("0").zip(end("9")).filter(|(low, high)| shaped && *low >= 100 && *high <= 599);
    if range.is_none() {
        faults
            .borrow_mut()
            .push(said.fault("this is not an HTTP status; write 100 to 599, \"50x\" or \"5xx\""));
    }
    range
}
