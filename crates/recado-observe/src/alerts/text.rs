//! The words of an alert, in English and in Portuguese.

use serde::{Deserialize, Serialize};

use crate::alerts::Subject;
use crate::alerts::rule::{Measure, Rule};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Words {
    pub en: Box<str>,
    pub pt: Box<str>,
}

/// Unit of a figure, which says how to write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Share,
    Count,
    Time,
    Times,
    /// It is so or it is not.
    Fact,
}

impl Measure {
    pub fn unit(self) -> Unit {
        match self {
            Measure::FailureRate
            | Measure::DeadLetterRate
            | Measure::PermanentRate
            | Measure::AtCapRate
            | Measure::JitterDeviation
            | Measure::StoreUse => Unit::Share,
            Measure::DeadLetters
            | Measure::DeadLettersOfCompany
            | Measure::RejectedWrites
            | Measure::ArchivedDeadLetters => Unit::Count,
            Measure::ProcessingTime | Measure::QueueAge | Measure::MeanBackoff | Measure::TrailLateness => {
                Unit::Time
            }
            Measure::FailureJump | Measure::CodeJump => Unit::Times,
            Measure::BreakerOpen => Unit::Fact,
        }
    }

    /// The sentence, with `{value}` and `{window}` to fill in.
    pub(crate) fn sentence(self) -> (&'static str, &'static str) {
        match self {
            Measure::FailureRate => (
                "{value} of the attempts failed within {window}",
                "{value} das tentativas falharam em {window}",
            ),
            Measure::DeadLetters => (
                "{value} jobs are in the dead letter queue",
                "há {value} tarefas na fila de mensagens mortas",
            ),
            Measure::DeadLetterRate => (
                "{value} of the jobs that ended within {window} went to the dead letter queue",
                "{value} das tarefas encerradas em {window} foram para a fila de mensagens mortas",
            ),
            Measure::DeadLettersOfCompany => (
                "{value} of its jobs are in the dead letter queue",
                "{value} de suas tarefas estão na fila de mensagens mortas",
            ),
            Measure::ProcessingTime => (
                "one attempt in twenty took {value} or longer from due to done within {window}",
                "uma em cada vinte tentativas levou {value} ou mais para ser concluída em {window}",
            ),
            Measure::QueueAge => {
                ("the oldest job has been due for {value}", "a tarefa mais antiga espera há {value}")
            }
            Measure::PermanentRate => (
                "{value} of the attempts within {window} met a permanent error",
                "{value} das tentativas em {window} tiveram erro permanente",
            ),
            Measure::AtCapRate => (
                "{value} of the retries within {window} wait for as long as the policy allows",
                "{value} dos retries em {window} esperam o máximo que a política permite",
            ),
            Measure::JitterDeviation => (
                "the jitter of the waits within {window} is {value} off an even spread",
                "o jitter das esperas em {window} desvia {value} da distribuição uniforme",
            ),
            Measure::MeanBackoff => (
                "retries within {window} wait {value} on average",
                "os retries em {window} esperam {value} em média",
            ),
            Measure::StoreUse => ("the store is {value} full", "o armazenamento está {value} cheio"),
            Measure::RejectedWrites => (
                "writes that the full store refused within {window}: {value}",
                "gravações que o armazenamento cheio recusou em {window}: {value}",
            ),
            Measure::ArchivedDeadLetters => (
                "dead letters archived within {window} because their queue is over its size: {value}",
                "mensagens mortas arquivadas em {window} porque a fila passou do tamanho: {value}",
            ),
            Measure::TrailLateness => (
                "the audit trail's files are {value} behind",
                "os arquivos da trilha de auditoria estão {value} atrasados",
            ),
            Measure::BreakerOpen => ("its circuit breaker is open", "o circuit breaker está aberto"),
            Measure::FailureJump => (
                "attempts fail {value} as often as over the last day",
                "as tentativas falham {value} o normal do último dia",
            ),
            Measure::CodeJump => (
                "this error comes {value} as often as over the last day",
                "este erro ocorre {value} o normal do último dia",
            ),
        }
    }
}

impl Words {
    pub(crate) fn of(rule: &Rule, subject: &Subject, value: f64) -> Self {
        let unit = rule.measure.unit();
        let window = time(rule.window.as_secs_f64());
        let fill = |sentence: &str, value: &str, window: &str| {
            sentence.replace("{value}", value).replace("{window}", window)
        };
        let (en, pt) = rule.measure.sentence();
        let (about_en, about_pt) = about(subject);
        let mut en = format!("{about_en}{}", fill(en, &figure(unit, value, Language::English), &window));
        let comma = window.replace('.', ",");
        let mut pt = format!("{about_pt}{}", fill(pt, &figure(unit, value, Language::Portuguese), &comma));
        if unit != Unit::Fact {
            en += &format!("; the limit is {}", figure(unit, rule.threshold, Language::English));
            pt += &format!("; o limite é {}", figure(unit, rule.threshold, Language::Portuguese));
        }
        Words { en: en.into(), pt: pt.into() }
    }

    pub(crate) fn resolved(&self) -> Self {
        Words { en: format!("Resolved: {}", self.en).into(), pt: format!("Resolvido: {}", self.pt).into() }
    }
}

fn about(subject: &Subject) -> (String, String) {
    let (en, pt, name) = match subject {
        Subject::All => return Default::default(),
        Subject::Route(name) => ("Route", "Rota", &**name),
        Subject::Company(company) => ("Company", "Empresa", company.as_str()),
        Subject::ErrorCode(code) => ("Error code", "Código de erro", &**code),
        Subject::Provider(provider) => ("Provider", "Provedor", &**provider),
    };
    (format!("{en} {name}: "), format!("{pt} {name}: "))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    English,
    Portuguese,
}

fn figure(unit: Unit, value: f64, tongue: Language) -> String {
    let words = match (unit, tongue) {
        (Unit::Share, _) => format!("{} %", short(value * 100.0)),
        (Unit::Count | Unit::Fact, _) => format!("{value:.0}"),
        (Unit::Time, _) => time(value),
        (Unit::Times, Language::English) => format!("{} times", short(value)),
        (Unit::Times, Language::Portuguese) => format!("{} vezes", short(value)),
    };
    if tongue == Language::Portuguese { words.replace('.', ",") } else { words }
}

/// One decimal at most.
fn short(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    tenths.to_string()
}

/// In the largest unit that it fills.
fn time(seconds: f64) -> String {
    let (unit, word) = match seconds {
        ..60.0 => (1.0, "s"),
        ..3_600.0 => (60.0, "min"),
        ..172_800.0 => (3_600.0, "h"),
        _ => (86_400.0, "d"),
    };
    format!("{} {word}", short(seconds / unit))
}
