//! `docs/classification.md` shows the built-in rules as they are.
//!
//! Its prose is written by hand; the table that ends each set's section is written by
//! `RECADO_WRITE_DOCS=1 cargo test -p recado-core --test core documented`.

use std::path::PathBuf;

use recado_core::classify::Condition;
use recado_core::time::show_duration;
use recado_core::{Classifier, rules};

use crate::given::set;

/// A long pattern that many rules share, and a rule that has it. The page explains it once.
const SAYS_TEMPORARY: &str = "smtp/55x-temporary";

const HEAD: &str = "| rule | when | class | blame |\n|---|---|---|---|\n";

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn table(set: &Classifier) -> String {
    let mut table = HEAD.to_owned();
    for rule in set.rules.iter() {
        let blame = format!("{:?}", rule.blame).to_lowercase();
        let (name, when, class) = (&rule.name, shown(&rule.when), rule.class.as_str());
        let wait = rule.wait.map(|wait| format!(", waits {}", show_duration(wait))).unwrap_or_default();
        table.push_str(&format!("| `{name}` | {when} | {class}{wait} | {blame} |\n"));
    }
    table
}

/// Every condition there is, in words. One that is not shown here would be missing from the page.
fn shown(when: &Condition) -> String {
    let Condition { code, enhanced, status, text, regex, network, any_network } = when;
    let mut parts = Vec::new();
    parts.extend(any_network.then(|| "no answer came".to_owned()));
    parts.extend(network.map(|kind| format!("network failure `{}`", kind.as_str())));
    parts.extend(code.as_ref().map(|code| format!("code `{code}`")));
    parts.extend(enhanced.as_ref().map(|code| format!("enhanced code `{code}`")));
    parts.extend(status.map(|(low, high)| match low == high {
        true => format!("status {low}"),
        false => format!("status {low} to {high}"),
    }));
    parts.extend(text.as_ref().map(|words| format!("contains `{words}`")));
    parts.extend(regex.as_ref().map(|regex| match regex.as_str() == says_temporary() {
        true => "says temporary".to_owned(),
        false => format!("matches `{}`", regex.as_str().replace('|', r"\|")),
    }));
    parts.join(", ")
}

fn says_temporary() -> &'static str {
    let rule = set("smtp").rules.iter().find(|rule| rule.name == SAYS_TEMPORARY).unwrap();
    rule.when.regex.as_ref().unwrap().as_str()
}

/// The page with the table of every set written anew.
fn rewritten(page: &str) -> String {
    let mut fresh = String::new();
    for (at, section) in page.split("\n### `").enumerate() {
        if at == 0 {
            fresh.push_str(section);
            continue;
        }
        let set = section.split('`').next().and_then(rules::named).expect("a section is called after a set");
        let prose = section.split("\n| ").next().unwrap_or_default().trim_end();
        fresh.push_str(&format!("\n### `{prose}\n\n{}", table(&set)));
    }
    fresh
}

#[test]
fn e13_the_page_about_classification_shows_every_rule_of_every_set_as_it_is() {
    let path = page("classification.md");
    let kept = std::fs::read_to_string(&path).unwrap();
    let fresh = rewritten(&kept);
    if std::env::var_os("RECADO_WRITE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
        return;
    }
    let sections: Vec<_> =
        kept.split("\n### `").skip(1).filter_map(|section| section.split('`').next()).collect();
    assert_eq!(sections, rules::NAMES, "one section for each set");
    for (kept, fresh) in kept.lines().zip(fresh.lines()) {
        assert_eq!(kept, fresh, "write the tables anew as the head of this file says");
    }
    assert_eq!(kept.len(), fresh.len(), "write the tables anew as the head of this file says");
}

#[test]
fn e13_the_page_explains_which_words_say_temporary() {
    let page = std::fs::read_to_string(page("classification.md")).unwrap();
    let explained = format!("*Says temporary* means that the answer matches `{}`.", says_temporary());
    assert!(page.contains(&explained), "write: {explained}");
}

#[test]
fn e13_rules_that_the_pages_mention_exist() {
    let known: Vec<_> = rules::NAMES
        .into_iter()
        .flat_map(|set| rules::named(set).unwrap().rules.to_vec())
        .map(|rule| rule.name)
        .collect();
    for name in ["classification.md", "classification.pt-BR.md"] {
        let page = std::fs::read_to_string(page(name)).unwrap();
        let mentioned: Vec<_> = page.split('`').filter(|word| word.starts_with("smtp/")).collect();
        assert!(mentioned.contains(&"smtp/550"), "{name}");
        for rule in mentioned {
            assert!(known.iter().any(|known| known == rule), "{name} mentions {rule}");
        }
    }
}
