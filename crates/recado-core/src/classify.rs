//! Classifies faults by ordered rules, which are data.
//!
//! The first rule that matches wins and its name stays on the attempt. When none does, the failure is
//! [`Class::Unknown`], and that is retried: a wrongly retried message costs a try, a wrongly buried one
//! costs a customer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;

use crate::engine_code::EngineCode;
use crate::outcome::{Fault, FaultKind, NetworkKind, Outcome, enhanced_code};
use crate::rules::RuleSet;
use crate::values::named_enum::named_enum;
use crate::values::payload::Payload;
use crate::values::reason::Reason;

named_enum! {
    pub enum Class {
        Transient = "TRANSIENT",
        Permanent = "PERMANENT",
        RateLimit = "RATE_LIMIT",
        Unknown = "UNKNOWN",
    }
}

impl Class {
    pub fn is_retryable(self) -> bool {
        self != Class::Permanent
    }

    /// Returns the blame of an operator's rule that names none.
    pub fn usual_blame(self) -> Blame {
        if self == Class::Permanent { Blame::Message } else { Blame::Provider }
    }
}

named_enum! {
    /// The party at fault. Only the provider's own failures count towards its breaker.
    pub enum Blame {
        Message = "message",
        Credential = "credential",
        Provider = "provider",
    }
}

/// One line of a classifier: every condition that is given must hold.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: Cow<'static, str>,
    pub when: Condition,
    pub class: Class,
    pub blame: Blame,
    /// Time until the failure passes, where the answer itself does not say.
    pub wait: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub struct Condition {
    /// Equals the fault's code, without regard to case. `x` stands for any digit: `"4xx"`.
    pub code: Option<Cow<'static, str>>,
    /// The SMTP enhanced code; `x` stands for any number: `"4.x.x"`.
    pub enhanced: Option<Cow<'static, str>>,
    /// HTTP status, both ends included.
    pub status: Option<(u16, u16)>,
    /// The text (or the code) contains this, without regard to case.
    pub text: Option<Cow<'static, str>>,
    pub regex: Option<Regex>,
    pub network: Option<NetworkKind>,
    /// Any network failure.
    pub any_network: bool,
}

impl Condition {
    pub fn holds(&self, fault: &Fault) -> bool {
        let network = match fault.kind {
            FaultKind::Network(kind) => Some(kind),
            _ => None,
        };
        self.code.as_ref().is_none_or(|want| fault.code.as_ref().is_some_and(|code| code_is(want, code)))
            && self
                .enhanced
                .as_ref()
                .is_none_or(|want| fault.enhanced.as_ref().is_some_and(|code| enhanced_is(want, code)))
            && self
                .status
                .is_none_or(|(low, high)| fault.status.is_some_and(|status| (low..=high).contains(&status)))
            && self.text.as_ref().is_none_or(|want| {
                contains_ignoring_case(&fault.text, want)
                    || fault.code.as_ref().is_some_and(|code| contains_ignoring_case(code, want))
            })
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(&fault.text))
            && self.network.is_none_or(|want| network == Some(want))
            && (!self.any_network || network.is_some())
    }
}

fn code_is(pattern: &str, code: &str) -> bool {
    pattern.eq_ignore_ascii_case(code)
        || (pattern.len() == code.len()
            && pattern.contains('x')
            && pattern
                .bytes()
                .zip(code.bytes())
                .all(|(p, c)| if p == b'x' { c.is_ascii_digit() } else { p == c }))
}

fn enhanced_is(pattern: &str, code: &str) -> bool {
    let (mut want, mut have) = (pattern.split('.'), code.split('.'));
    loop {
        match (want.next(), have.next()) {
            (None, None) => return true,
            (Some("x"), Some(_)) => {}
            (Some(want), Some(have)) if want == have => {}
            _ => return false,
        }
    }
}

fn contains_ignoring_case(text: &str, want: &str) -> bool {
    want.is_empty()
        || text.as_bytes().windows(want.len()).any(|part| part.eq_ignore_ascii_case(want.as_bytes()))
}

/// Longest wait that an answer from outside can impose, unless the route says otherwise.
pub const HOLD_MAX_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// Stands in an attempt for the rule of a failure that no rule matched.
pub const NO_RULE: &str = "recado/unknown";

/// An ordered list of rules.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// The built-in set that `rules` holds; absent where there is none.
    pub set: Option<RuleSet>,
    /// An operator's own rules, tried before `rules`.
    pub own: Vec<Rule>,
    /// A built-in set, shared by all classifiers that use it.
    pub rules: Arc<Vec<Rule>>,
    /// Longest wait that an answer can impose. A rule's own `wait` is the operator's word and not bounded by it.
    pub hold_max: Duration,
}

impl Default for Classifier {
    fn default() -> Self {
        Classifier { set: None, own: Vec::new(), rules: Arc::default(), hold_max: HOLD_MAX_DEFAULT }
    }
}

/// The meaning of a transport's outcome.
#[derive(Clone, Debug)]
pub enum Verdict {
    Delivered {
        answer: Option<Payload>,
    },
    /// Some recipients took it, or each refused for a reason of its own.
    Partial {
        accepted: Vec<Box<str>>,
        refused: Vec<(Box<str>, Failure)>,
    },
    Failed(Failure),
}

/// A judged failure: what it is, why, whose fault, and which rule says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    pub code: Option<Box<str>>,
    pub reason: Reason,
    pub rule: Box<str>,
    pub blame: Blame,
    pub retry_after: Option<Duration>,
    /// The wait that the answer asked for, before `hold_max` cut it.
    pub asked_wait: Option<Duration>,
    pub uncertain: bool,
    pub invalid_payload: bool,
    pub stack_trace: Option<Box<str>>,
}

impl Failure {
    /// Makes a failure that Recado names itself and that no provider is to blame for.
    pub fn of_engine(class: Class, code: EngineCode, words: &str, rule: &str) -> Self {
        Failure {
            class,
            code: Some(code.as_str().into()),
            reason: Reason::of(words),
            rule: rule.into(),
            blame: Blame::Message,
            retry_after: None,
            asked_wait: None,
            uncertain: false,
            invalid_payload: false,
            stack_trace: None,
        }
    }
}

impl Classifier {
    pub fn verdict(&self, outcome: Outcome) -> Verdict {
        match outcome {
            Outcome::Accepted { answer } => Verdict::Delivered { answer },
            Outcome::Partial(partly) if partly.refused.is_empty() => Verdict::Delivered { answer: None },
            Outcome::Partial(partly) => Verdict::Partial {
                accepted: partly.accepted,
                refused: partly
                    .refused
                    .into_iter()
                    .map(|one| (one.recipient, self.classify(one.fault)))
                    .collect(),
            },
            Outcome::Failed(fault) => Verdict::Failed(self.classify(fault)),
        }
    }

    pub fn classify(&self, fault: Fault) -> Failure {
        let (class, rule, blame, wait) = match fault.kind {
            FaultKind::InvalidPayload => (Class::Permanent, "recado/invalid-payload", Blame::Message, None),
            FaultKind::Panic => (Class::Unknown, "recado/panic", Blame::Message, None),
            FaultKind::Shortage => (Class::Transient, "recado/shortage", Blame::Message, None),
            FaultKind::Answer | FaultKind::Network(_) => {
                match self.all().find(|rule| rule.when.holds(&fault)) {
                    Some(rule) => (rule.class, &*rule.name, rule.blame, rule.wait),
                    None => (Class::Unknown, NO_RULE, Blame::Provider, None),
                }
            }
        };
        Failure {
            class,
            rule: rule.into(),
            blame,
            reason: reason_of(&fault),
            code: code_of(&fault),
            retry_after: fault.retry_after.map(|asked| asked.min(self.hold_max)).or(wait),
            asked_wait: fault.retry_after,
            uncertain: fault.uncertain,
            invalid_payload: fault.kind == FaultKind::InvalidPayload,
            stack_trace: fault.stack_trace,
        }
    }

    /// Returns the longest wait that this classifier can give a failure: `hold_max`, or a rule's longer `wait`.
    pub fn longest_wait(&self) -> Duration {
        self.all().filter_map(|rule| rule.wait).chain([self.hold_max]).max().unwrap_or_default()
    }

    /// Returns true if its failures are those of insurance claims, which logs name by their own terms.
    pub fn judges_claims(&self) -> bool {
        self.set == Some(RuleSet::Tiss)
    }

    /// Puts an operator's own rules in front.
    pub fn preceded_by(self, own: Vec<Rule>) -> Self {
        Classifier { own, ..self }
    }

    /// Every rule in the order in which it is tried.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.own.iter().chain(&*self.rules)
    }
}

/// Rebuilds the fault of a failure on record, so that a classifier can judge it again. `None` where Recado itself named
/// the failure: no rule of an operator is about those. A number is an SMTP code and an HTTP status at once, because
/// the record does not say which it was.
pub fn recall(code: Option<&str>, reason: &str) -> Option<Fault> {
    if code.is_some_and(|code| EngineCode::parse(code).is_some()) {
        return None;
    }
    let status = code.filter(|code| code.len() == 3).and_then(|code| code.parse().ok());
    let unsaid = Fault { code: code.map(Into::into), status, ..Fault::default() };
    if reason_of(&unsaid).as_str() == reason {
        return Some(unsaid);
    }
    Some(Fault { enhanced: enhanced_code(reason).map(Into::into), text: reason.into(), ..unsaid })
}

fn code_of(fault: &Fault) -> Option<Box<str>> {
    let named = fault.code.clone().or_else(|| fault.status.map(|status| status.to_string().into()));
    named.or_else(|| {
        let code = match fault.kind {
            FaultKind::Network(NetworkKind::Timeout) => EngineCode::Timeout,
            FaultKind::Network(NetworkKind::Dns) => EngineCode::DnsError,
            FaultKind::Network(NetworkKind::Tls) => EngineCode::TlsError,
            FaultKind::Network(NetworkKind::Connect) => EngineCode::ConnectionError,
            FaultKind::Network(NetworkKind::Dropped) => EngineCode::ConnectionLost,
            FaultKind::Network(NetworkKind::Protocol) => EngineCode::ProtocolError,
            FaultKind::Panic => EngineCode::Panic,
            FaultKind::Shortage => EngineCode::LocalShortage,
            FaultKind::InvalidPayload => EngineCode::InvalidPayload,
            FaultKind::Answer => return None,
        };
        Some(code.as_str().into())
    })
}

fn reason_of(fault: &Fault) -> Reason {
    let unsaid = || match (&fault.code, fault.kind) {
        (Some(code), _) => format!("the provider answered {code} and nothing more"),
        (None, FaultKind::Network(kind)) => format!("network failure: {}", kind.as_str()),
        (None, FaultKind::Panic) => "the transport panicked".to_owned(),
        (None, FaultKind::Shortage) => "this process lacks a resource".to_owned(),
        (None, FaultKind::InvalidPayload) => "the payload cannot be read".to_owned(),
        (None, FaultKind::Answer) => "the provider refused without saying why".to_owned(),
    };
    Reason::new(&fault.text).unwrap_or_else(|_| Reason::of(&unsaid()))
}
