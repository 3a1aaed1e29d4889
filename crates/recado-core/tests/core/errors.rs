//! Every row of every error table, each a test of its own: the required lists, and what the
//! field knows about their providers. A row asserts the class, the blame and the name of the rule.

/// `fn name() { fault => class, blame, rule }`, for one rule set.
macro_rules! rows {
    ($set:literal: $(fn $name:ident() { $fault:expr => $class:ident, $blame:ident, $rule:expr })*) => {$(
        #[test]
        fn $name() {
            let row = ($fault, recado_core::Class::$class, recado_core::Blame::$blame, $rule);
            crate::given::assert_judged($set, [row]);
        }
    )*};
}

mod evolution;
mod general;
mod http;
mod openai;
mod ses;
mod smtp;
mod social;
mod tiss;

use recado_core::rules;

/// Rules that read the words of an answer are easy to get wrong and have no witness but a row.
#[test]
fn every_rule_that_reads_words_has_a_named_row() {
    let sources = [
        include_str!("errors/evolution.rs"),
        include_str!("errors/general.rs"),
        include_str!("errors/openai.rs"),
        include_str!("errors/ses.rs"),
        include_str!("errors/smtp.rs"),
        include_str!("errors/social.rs"),
        include_str!("errors/tiss.rs"),
    ];
    let proven = |name: &str| sources.iter().any(|source| source.contains(&format!("\"{name}\"")));
    for set in rules::NAMES {
        for rule in rules::named(set).unwrap().rules.iter() {
            let reads_words = rule.when.text.is_some() || rule.when.regex.is_some();
            assert!(!reads_words || proven(&rule.name), "{} stands in no row", rule.name);
        }
    }
}
