//! The rule sets that ship with Recado, as data, in the order they are tried.
//!
//! Each set is a file of tables: a row is a rule, and the first row that holds wins. Rows that read an
//! answer's words come before rows that read its number, because a number alone misjudges (a 550 that
//! says "try again later", a 429 that says the money is gone). A network failure comes before both: no
//! answer arrived, so nothing in its text is the provider's word.
//!
//! SMTP rows look at the `code`, HTTP rows at the `status`. Sandbox faults and HTTP faults carry both.
//!
//! A body may repeat what it was sent, so a row for it asks for the place where the provider puts its own
//! word (`"code": 190`), not for the word alone. `docs/classification.md` shows every row.

mod evolution;
mod general;
mod graph;
mod http;
mod openai;
mod ses;
mod smtp;
mod social;
mod tiss;

use std::sync::{Arc, OnceLock};

use regex::Regex;

use crate::classify::{Blame, Class, Classifier, Condition, Rule};
use crate::values::named_enum::named_enum;

named_enum! {
    /// A built-in rule set, by the name that `classifier = "…"` in the configuration takes.
    pub enum RuleSet {
        Smtp = "smtp",
        Ses = "ses",
        Evolution = "evolution",
        Tiss = "tiss",
        Social = "social",
        OpenAi = "openai",
        Http = "http",
        General = "general",
    }
}

impl RuleSet {
    fn compile(self) -> Vec<Rule> {
        match self {
            RuleSet::Smtp => smtp::rules(),
            RuleSet::Ses => ses::rules(),
            RuleSet::Evolution => evolution::rules(),
            RuleSet::Tiss => tiss::rules(),
            RuleSet::Social => social::rules(),
            RuleSet::OpenAi => openai::rules(),
            RuleSet::Http => http::rules(),
            RuleSet::General => general::rules(),
        }
    }
}

/// Names of the built-in rule sets, in the order of [`RuleSet::ALL`].
pub const NAMES: [&str; RuleSet::ALL.len()] = {
    let mut names = [""; RuleSet::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = RuleSet::ALL[at].as_str();
        at += 1;
    }
    names
};

/// Each rule set, compiled at its first use: a thousand routes share one.
static SETS: [OnceLock<Arc<Vec<Rule>>>; NAMES.len()] = [const { OnceLock::new() }; NAMES.len()];

/// Returns the classifier with the built-in rule set of that name.
pub fn named(name: &str) -> Option<Classifier> {
    let set = RuleSet::parse(name)?;
    let rules = SETS[set as usize].get_or_init(|| Arc::new(set.compile())).clone();
    Some(Classifier { set: Some(set), rules, ..Classifier::default() })
}

/// One rule as the tables write it: its name within the set, its conditions, its class, its blame.
type Row = (&'static str, &'static [RowCondition], Class, Blame);

/// One field of a [`Condition`], as a constant can hold it: a regular expression is not compiled yet.
#[derive(Clone, Copy)]
enum RowCondition {
    Code(&'static str),
    Enhanced(&'static str),
    /// Both ends included.
    Status(u16, u16),
    Says(&'static str),
    Matches(&'static str),
    AnyNetwork,
}

/// No answer came. Every set begins with this.
const UNANSWERED: &[Row] = &[("network", &[RowCondition::AnyNetwork], Class::Transient, Blame::Provider)];

/// All of them must hold.
fn all_of(conditions: &[RowCondition]) -> Condition {
    let mut when = Condition::default();
    for condition in conditions {
        match *condition {
            RowCondition::Code(code) => when.code = Some(code.into()),
            RowCondition::Enhanced(code) => when.enhanced = Some(code.into()),
            RowCondition::Status(low, high) => when.status = Some((low, high)),
            RowCondition::Says(words) => when.text = Some(words.into()),
            RowCondition::Matches(pattern) => when.regex = Some(compiled(pattern)),
            RowCondition::AnyNetwork => when.any_network = true,
        }
    }
    when
}

/// An error that a provider names by a word: that word, its class, its blame.
type Named = (&'static str, Class, Blame);

/// Rules for errors by name, which is a worker's code, the first word of an answer, or the value of the
/// member where a JSON body names its error. An answer that merely mentions the name does not count.
fn called(set: &str, names: &[Named]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for &(name, class, blame) in names {
        let body = format!(r#"(?i)(?:^|"(?:code|type|reason)"\s*:\s*"){name}\b"#);
        for when in [
            Condition { code: Some(name.into()), ..Condition::default() },
            Condition { regex: Some(compiled(&body)), ..Condition::default() },
        ] {
            rules.push(rule(set, name, when, class, blame));
        }
    }
    rules
}

fn rule(set: &str, name: &str, when: Condition, class: Class, blame: Blame) -> Rule {
    Rule { name: format!("{set}/{name}").into(), when, class, blame, wait: None }
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a built-in pattern compiles")
}

/// The rows of some tables, one after the other, as rules called `set/row`.
fn set(name: &str, tables: &[&[Row]]) -> Vec<Rule> {
    tables
        .iter()
        .copied()
        .flatten()
        .map(|&(row, when, class, blame)| Rule {
            wait: (row == ses::DAILY_QUOTA).then_some(ses::DAILY_QUOTA_WAIT),
            ..rule(name, row, all_of(when), class, blame)
        })
        .collect()
}
