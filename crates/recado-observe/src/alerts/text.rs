//! The words of an alert, in English and in Portuguese.

use serde::{Deserialize, Serialize};

use crate::alerts::{Rule, Subject, Unit};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AlertText {
    pub en: Box<str>,
    pub pt: Box<str>,
}

impl AlertText {
    pub(crate) fn new(rule: &Rule, subject: &Subject, value_now: f64) -> Self {
        let unit = rule.measure.unit();
        let (en, pt) = rule.measure.row().sentence;
        let (about_en, about_pt) = describe_subject(subject);
        let window = format_seconds(rule.window.as_secs_f64());
        let write = |language, about: String, sentence: &str, window: &str, limit: &str| {
            let value = |value| format_value(unit, value, language);
            let text = about + &sentence.replace("{value}", &value(value_now)).replace("{window}", window);
            let limit = format!("; {limit} {}", value(rule.threshold));
            if unit == Unit::Fact { text.into() } else { (text + &limit).into() }
        };
        AlertText {
            en: write(Language::English, about_en, en, &window, "the limit is"),
            pt: write(Language::Portuguese, about_pt, pt, &window.replace('.', ","), "o limite é"),
        }
    }

    pub(crate) fn resolved(&self) -> Self {
        AlertText {
            en: format!("Resolved: {}", self.en).into(),
            pt: format!("Resolvido: {}", self.pt).into(),
        }
    }
}

fn describe_subject(subject: &Subject) -> (String, String) {
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

fn format_value(unit: Unit, value: f64, language: Language) -> String {
    let words = match (unit, language) {
        (Unit::Share, _) => format!("{} %", format_number(value * 100.0)),
        (Unit::Count | Unit::Fact, _) => format!("{value:.0}"),
        (Unit::Time, _) => format_seconds(value),
        (Unit::Times, Language::English) => format!("{} times", format_number(value)),
        (Unit::Times, Language::Portuguese) => format!("{} vezes", format_number(value)),
    };
    if language == Language::Portuguese { words.replace('.', ",") } else { words }
}

/// One decimal at most.
fn format_number(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    tenths.to_string()
}

/// In the largest unit that it fills.
fn format_seconds(seconds: f64) -> String {
    let (unit, word) = match seconds {
        ..60.0 => (1.0, "s"),
        ..3_600.0 => (60.0, "min"),
        ..172_800.0 => (3_600.0, "h"),
        _ => (86_400.0, "d"),
    };
    format!("{} {word}", format_number(seconds / unit))
}
