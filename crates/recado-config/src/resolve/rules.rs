//! An operator's own classification rules.

use recado_core::RouteName;
use recado_core::classify::{Blame, Class, Condition, Rule};

use crate::keys::route::RuleKeys;
use crate::reading::checker::Checker;

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
