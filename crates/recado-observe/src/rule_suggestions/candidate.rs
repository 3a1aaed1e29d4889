//! An error whose jobs ended differently from what its class predicts, and the rule for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use recado_core::classify::{Condition, Rule, recall};
use recado_core::{Blame, Class, Classifier, RouteName};

use super::{ARRIVED_MAX_PERCENT, COMPANIES_MIN, CONFIDENCE_MIN, ErrorCounts, JOBS_MIN, Skeleton};

/// The name of a rule while it is tried: no attempt keeps it.
pub(super) const TRIAL_NAME: &str = "suggested";

/// The standard normal deviate of a one-sided error of 2.5 %: the usual interval of 95 %.
const Z: f64 = 1.96;

/// An error that deserves a rule, and the class that its history suggests.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub error: ErrorCounts,
    pub today: Class,
    pub suggested: Class,
    /// The lower bound of Wilson's interval (95 %) of the share of jobs that speak for `suggested`.
    pub confidence: f64,
}

impl Candidate {
    pub(super) fn of(error: &ErrorCounts, today: Class) -> Option<Self> {
        let (suggested, confidence) = judge(error, today)?;
        let is_sure = confidence >= CONFIDENCE_MIN;
        is_sure.then(|| Candidate { error: error.clone(), today, suggested, confidence })
    }

    /// The rule for it, of what may be shown, on a route that has this classifier today. `None` where neither code nor
    /// words are left, and where the code alone would give up too much.
    pub fn rule(&self, skeleton: &Skeleton, today: &Classifier) -> Option<RuleText> {
        let Skeleton { code, text, .. } = skeleton.clone();
        // One word stands in answers about other things, too: it may narrow a code that is retried, and no more.
        let is_retried = self.suggested != Class::Permanent;
        let text = text.filter(|text| text.contains(' ') || (code.is_some() && is_retried));
        let gives_up_all = text.is_none() && !is_retried;
        if gives_up_all && !(skeleton.is_of_several && self.may_give_up_all(code.as_deref()?, today)) {
            return None;
        }
        let (route, class, blame) = (self.error.route.clone(), self.suggested, self.blame(today));
        let built_in =
            code.as_deref().filter(|_| text.is_none()).and_then(|code| built_in_class(code, "", today));
        let retries_permanent = is_retried && built_in == Some(Class::Permanent);
        (code.is_some() || text.is_some()).then_some(RuleText {
            route,
            code,
            text,
            class,
            blame,
            retries_permanent,
        })
    }

    /// Returns true if all jobs with the code may be given up, whatever the answer says: those of several companies died
    /// of it, and no built-in rule has the code tried again.
    fn may_give_up_all(&self, code: &str, today: &Classifier) -> bool {
        let is_retried = |reason: &str| built_in_class(code, reason, today).is_some_and(Class::is_retryable);
        let reasons = self.error.examples.iter().map(|example| example.reason.as_str());
        self.error.companies_in_vain.len() >= COMPANIES_MIN && !reasons.chain([""]).any(is_retried)
    }

    /// The blame of today, because how the jobs ended says nothing about it. What no retry mends, though, is not the
    /// provider's fault.
    fn blame(&self, today: &Classifier) -> Blame {
        match (self.suggested, self.error.blame_by(today)) {
            (Class::Permanent, Blame::Provider) => Blame::Message,
            (_, blame) => blame,
        }
    }
}

/// The class that the history suggests instead of today's, and its confidence.
fn judge(error: &ErrorCounts, today: Class) -> Option<(Class, f64)> {
    let arrived = error.retried_to_success;
    // A permanent error looks like an outage, unless the route delivers other jobs meanwhile. An error that
    // no rule knows is not an announced outage and needs no such evidence.
    let in_vain = match today {
        Class::Transient => error.in_vain_amid_deliveries,
        _ => error.retried_in_vain,
    };
    let jobs = arrived + in_vain;
    if jobs < JOBS_MIN {
        return None;
    }
    let is_hopeless = arrived * 100 <= jobs * ARRIVED_MAX_PERCENT;
    match today {
        Class::Unknown | Class::Transient if is_hopeless => {
            Some((Class::Permanent, wilson_lower_bound(in_vain, jobs)))
        }
        Class::Unknown | Class::Permanent => Some((Class::Transient, wilson_lower_bound(arrived, jobs))),
        Class::Transient | Class::RateLimit => None,
    }
}

/// The class that the built-in rules give to an answer.
fn built_in_class(code: &str, reason: &str, today: &Classifier) -> Option<Class> {
    let fault = recall(Some(code), reason)?;
    today.rules.iter().find(|rule| rule.when.holds(&fault)).map(|rule| rule.class)
}

/// The lower bound of Wilson's score interval for a share: low while there are few, whatever they say.
fn wilson_lower_bound(hits: u64, of: u64) -> f64 {
    let (n, share) = (of as f64, hits as f64 / of as f64);
    let margin = Z * ((share * (1.0 - share) + Z * Z / (4.0 * n)) / n).sqrt();
    (share + Z * Z / (2.0 * n) - margin) / (1.0 + Z * Z / n)
}

/// One entry of a route's `classify`, as text and as a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    pub route: RouteName,
    pub code: Option<Box<str>>,
    pub text: Option<Box<str>>,
    pub class: Class,
    pub blame: Blame,
    /// True if it retries all jobs with a code that the built-in rules call permanent: `recado config check` may warn of that.
    pub retries_permanent: bool,
}

impl RuleText {
    /// The line for the route's table in the configuration.
    pub fn toml(&self) -> String {
        format!("classify = [{}]", self.entry())
    }

    /// A comment above the entry that says what `recado config check` may warn of, and what to do.
    fn comment(&self, indent: &str) -> String {
        let Some(code) = self.code.as_deref().filter(|_| self.retries_permanent) else {
            return String::new();
        };
        let code = code.escape_default();
        format!(
            "{indent}# Retries every {code}, which the built-in rules call permanent: recado config check may warn of it.\n\
             {indent}# Narrow it with text, or add to the route: allow = {{ permanent_retried = \"why\" }}\n"
        )
    }

    fn entry(&self) -> String {
        let mut keys = String::new();
        for (key, value) in [("code", &self.code), ("text", &self.text)] {
            if let Some(value) = value {
                let _ = write!(keys, "{key} = {}, ", quote(value));
            }
        }
        let class = self.class.as_str().to_lowercase();
        let blame = match self.blame == self.class.usual_blame() {
            true => String::new(),
            false => format!(", blame = {}", quote(self.blame.as_str())),
        };
        format!("{{ {keys}as = \"{class}\"{blame} }}")
    }

    /// Makes a rule of the classifier.
    pub fn compile(&self) -> Rule {
        let (code, text) = (self.code.clone(), self.text.clone());
        Rule {
            name: TRIAL_NAME.into(),
            when: Condition {
                code: code.map(|code| code.into_string().into()),
                text: text.map(|text| text.into_string().into()),
                ..Condition::default()
            },
            class: self.class,
            blame: self.blame,
            wait: None,
        }
    }
}

/// The tables of all routes that have a rule here, as one text. Rules with words stand before those of a code alone,
/// which match more: the first that matches decides.
pub fn route_tables(rules: &[&RuleText]) -> String {
    let mut by_route: BTreeMap<&RouteName, Vec<&RuleText>> = BTreeMap::new();
    for rule in rules {
        by_route.entry(&rule.route).or_default().push(rule);
    }
    let mut tables = Vec::new();
    for (route, mut rules) in by_route {
        rules.sort_by_key(|rule| rule.text.is_none());
        let lines = match &rules[..] {
            [only] => only.comment("") + &only.toml(),
            _ => {
                let entry = |rule: &&RuleText| format!("{}  {},\n", rule.comment("  "), rule.entry());
                let entries: String = rules.iter().map(entry).collect();
                format!("classify = [\n{entries}]")
            }
        };
        tables.push(format!("[routes.{}]\n{lines}\n", key(route.as_str())));
    }
    tables.join("\n")
}

/// A TOML key.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
    if is_bare { name.to_owned() } else { quote(name) }
}

/// A TOML string.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_control() => drop(write!(quoted, "\\u{:04x}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bound_is_wilsons() {
        // Reference values of the score interval at z = 1.96.
        for (hits, of, expected) in [(5, 5, 0.5655), (10, 10, 0.7225), (95, 100, 0.8882), (0, 7, 0.0)] {
            let bound = wilson_lower_bound(hits, of);
            assert!((bound - expected).abs() < 0.001, "{hits} of {of}: {bound}");
        }
    }

    proptest! {
        #[test]
        fn confidence_rises_with_the_count_and_never_reaches_certainty(jobs in 1_u64..1_000_000) {
            let (few, more) = (wilson_lower_bound(jobs, jobs), wilson_lower_bound(jobs + 1, jobs + 1));
            prop_assert!(few < more && more < 1.0);
        }
    }

    #[test]
    fn a_single_word_only_narrows_a_code_that_is_retried() {
        let error = ErrorCounts {
            route: RouteName::new("email").unwrap(),
            fingerprint: "f".into(),
            code: None,
            class: Class::Unknown,
            rule: "general/unknown".into(),
            count: 9,
            retried_to_success: 0,
            retried_in_vain: 9,
            in_vain_amid_deliveries: 9,
            companies_in_vain: Vec::new(),
            examples: Vec::new(),
        };
        let candidate = Candidate::of(&error, Class::Unknown).unwrap();
        let text_of = |suggested: Class, code: Option<&str>, text: &str| {
            let (code, text) = (code.map(Into::into), Some(text.into()));
            let skeleton = Skeleton { code, text, ..Skeleton::default() };
            let candidate = Candidate { suggested, ..candidate.clone() };
            candidate.rule(&skeleton, &Classifier::default()).and_then(|rule| rule.text)
        };
        for (suggested, code, text, is_kept) in [
            (Class::Permanent, None, "said", false),
            (Class::Transient, None, "said", false),
            (Class::Permanent, None, "mailbox is full", true),
            (Class::Permanent, Some("500"), "gateway", false),
            (Class::Permanent, Some("500"), "gateway closed", true),
            (Class::Transient, Some("404"), "propagating", true),
        ] {
            let expected = is_kept.then_some(text);
            assert_eq!(text_of(suggested, code, text).as_deref(), expected, "{suggested:?} {code:?} {text}");
        }
    }

    #[test]
    fn an_entry_quotes_what_toml_would_misread() {
        let rule = RuleText {
            route: RouteName::new("email").unwrap(),
            code: Some("a\"b\\".into()),
            text: Some("x\u{7f}".into()),
            class: Class::Permanent,
            blame: Blame::Message,
            retries_permanent: false,
        };
        assert_eq!(rule.toml(), r#"classify = [{ code = "a\"b\\", text = "x\u007f", as = "permanent" }]"#);
    }
}
