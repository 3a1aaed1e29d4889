//! An operator's own classification rules.

use recado_core::RouteName;
use recado_core::classify::{Blame, Class, Condition, Rule};

use crate::keys::route::RuleKeys;
use crate::reading::checker::Scope;

/// Checks one entry of `classify` and fills in what it leaves open.
pub fn resolve(keys: &RuleKeys, entry: &Scope<'_>) -> Option<RuleKeys> {
    if !entry.has("as") {
        let message = "the rule does not say what it means; write as = \"transient\", \"permanent\", \"rate_limit\" or \"unknown\"";
        entry.fault("", message);
    }
    let conditions = ["code", "name", "enhanced", "status", "text", "regex", "network"];
    if !conditions.into_iter().any(|key| entry.has(key)) {
        let message = "the rule would match every failure; give it a code, name, enhanced, status, text, regex or network";
        return entry.refuse("", message);
    }
    if entry.has("code") && entry.has("name") {
        entry.fault("name", "`name` is another word for `code`; give one of the two");
    }
    if entry.has("wait") && keys.class == Some(Class::Permanent) {
        let message =
            "a permanent error is not retried, so it has no wait; take it out, or write as = \"rate_limit\"";
        entry.fault("wait", message);
    }
    Some(RuleKeys {
        code: keys.code.clone().or_else(|| keys.name.clone()),
        name: None,
        blame: keys.blame.or(Some(keys.class?.usual_blame())),
        ..keys.clone()
    })
}

impl RuleKeys {
    /// Returns the classifier's rules: one for each status, all by the entry's name.
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
