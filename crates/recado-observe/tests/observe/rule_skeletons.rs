//! Words of an error that are shown: nothing that a payload says reaches them, however the provider spells it.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use recado_core::redact::Speaker;
use recado_core::{Blame, Class, Payload, RouteName};
use recado_observe::rule_suggestions::{Answer, RuleText, Skeleton};
use serde_json::{Value, json};

/// Reads what is shown of answers about jobs: company, payload, words.
fn shown(code: Option<&str>, jobs: &[(String, Value, String)]) -> Skeleton {
    let payloads: Vec<_> = jobs.iter().map(|(_, data, _)| Payload::new(&data.to_string()).unwrap()).collect();
    let answers: Vec<_> = jobs
        .iter()
        .zip(&payloads)
        .map(|((company, _, text), data)| Answer {
            company,
            user_id: Some("fulano"),
            correlation_id: Some("exame-hemograma-17"),
            data,
            speaker: Speaker::Provider,
            text,
        })
        .collect();
    Skeleton::of(code, &answers)
}

/// Answers about six jobs, each of a company and a recipient of its own; `*` is the number of the job.
fn six(data: &Value, text: &str) -> Vec<(String, Value, String)> {
    (0..6)
        .map(|nth| {
            let mut data = data.clone();
            data["to"] = json!(format!("person{nth}@example.com"));
            (format!("company-1{nth}"), data, text.replace('*', &nth.to_string()))
        })
        .collect()
}

#[test]
fn words_about_the_error_are_shown_and_the_rest_is_left_out() {
    for (said, text, example) in [
        (
            "5.1.1 <person*@example.com>: mailbox is disabled",
            Some("mailbox is disabled"),
            Some("… mailbox is disabled"),
        ),
        (
            "order * not billable yet, see https://example.com/ana/souza.",
            Some("not billable yet"),
            Some("order … not billable yet …"),
        ),
        (
            r#"{"error":{"message":"Invalid parameter","code":100*}}"#,
            Some("Invalid parameter"),
            Some("… error … message … Invalid parameter … code …"),
        ),
        ("call (11) 98765-4321 or +55 11 98765 4321", Some("call"), Some("call … or …")),
        ("cannot reach db.internal.corp, try later.", Some("cannot reach"), Some("cannot reach … try later")),
        ("XXX 12 @x", None, None),
        ("", None, None),
    ] {
        let skeleton = shown(Some("550"), &six(&json!({}), said));
        assert_eq!((skeleton.text.as_deref(), skeleton.example.as_deref()), (text, example), "{said}");
    }
}

#[test]
fn one_recipient_or_one_company_shows_the_code_alone() {
    let said = "account was closed by its owner";
    let code_alone = Skeleton { code: Some("E_GONE".into()), ..Skeleton::default() };
    let same = |data: Value, company: fn(usize) -> String| -> Vec<_> {
        (0..6).map(|nth| (company(nth), data.clone(), said.to_owned())).collect()
    };
    let one_recipient = same(json!({"to": ["Ana@example.com"]}), |nth| format!("company-{nth}"));
    assert_eq!(shown(Some("E_GONE"), &one_recipient), code_alone, "one person at six companies");
    assert_eq!(shown(Some("E_GONE"), &same(json!({"x": 1}), |_| "acme".to_owned())), code_alone);
    assert_eq!(shown(Some("E_GONE"), &six(&json!({}), said)[..2]), code_alone, "two are too few");
    assert_eq!(shown(Some("E_GONE"), &[]), Skeleton::default(), "no payload tells what is personal");
    let delivered: Vec<_> = (0..6).map(|nth| (nth.to_string(), Value::Null, said.to_owned())).collect();
    assert_eq!(shown(Some("E_GONE"), &delivered), code_alone, "payloads are gone");
    assert_eq!(shown(Some("E_GONE"), &six(&json!({}), said)).text.as_deref(), Some(said));
}

#[test]
fn g24_the_user_the_company_and_the_correlation_id_are_left_out() {
    for (said, text, example) in [
        ("account of fulano closed by user", Some("closed by user"), Some("account of … closed by user")),
        ("tenant company over limit", Some("over limit"), Some("tenant … over limit")),
        ("duplicate of HEMOGRAMA, later", Some("duplicate of"), Some("duplicate of … later")),
    ] {
        let skeleton = shown(Some("FULANO_BLOCKED"), &six(&json!({}), said));
        assert_eq!(
            (skeleton.code, skeleton.text.as_deref(), skeleton.example.as_deref()),
            (None, text, example),
            "{said}"
        );
    }
}

#[test]
fn a_code_is_shown_unless_it_looks_like_data() {
    let data = json!({"name": "Wilhelmina", "note": "user not found in the mailbox", "account": "PT4411"});
    for code in ["550", "XQ85", "USER_NOT_FOUND", "MailboxFull", "E_PLAN", "4.7.28"] {
        assert_eq!(shown(Some(code), &six(&data, "")).code.as_deref(), Some(code));
    }
    for code in [
        "Wilhelmina",
        "USER_WILHELMINA",
        "UserVilhelmina",
        "PT4411",
        "pt-4411",
        "5511987654321",
        "a@b.c",
        "x y",
    ] {
        assert_eq!(shown(Some(code), &six(&data, "")).code, None, "{code}");
    }
}

/// Values as payloads have them.
fn value() -> impl Strategy<Value = String> {
    let name = "[A-Z][a-zãéíôúç]{3,9}";
    prop_oneof![
        name.prop_map(String::from),
        (name, name).prop_map(|(first, last)| format!("{first} {last}")),
        "\\(1[1-9]\\) 9[0-9]{4}-[0-9]{4}",
        "\\+55 1[1-9] 9[0-9]{4} [0-9]{4}",
        "[0-9]{3}\\.[0-9]{3}\\.[0-9]{3}-[0-9]{2}",
        "[0-9]{2}\\.[0-9]{3}\\.[0-9]{3}/0001-[0-9]{2}",
        "[0-9]{4} [0-9]{4} [0-9]{4} [0-9]{4}",
        "[a-z]{4,9}\\.[a-z]{4,9}@[a-z]{5,9}\\.com\\.br",
        "https://[a-z]{5,9}\\.com/[a-z]{5,9}/[a-z]{5,9}\\?id=[0-9]{5}",
    ]
}

fn without_accents(text: &str) -> String {
    let plain = [('ã', 'a'), ('é', 'e'), ('í', 'i'), ('ô', 'o'), ('ú', 'u'), ('ç', 'c')];
    text.chars()
        .map(|letter| {
            plain.iter().find(|(accented, _)| *accented == letter).map_or(letter, |(_, plain)| *plain)
        })
        .collect()
}

/// The value as a provider may repeat it.
fn spelled(value: &str, spelling: usize, at: Index) -> String {
    match spelling {
        0 => value.to_owned(),
        1 => value.to_uppercase(),
        2 => value.to_lowercase(),
        3 => without_accents(&value.to_lowercase()),
        4 => value.split(' ').rev().collect::<Vec<_>>().join(", "),
        5 => value.chars().filter(|letter| letter.is_alphanumeric()).collect(),
        6 => value.replace('@', "%40").replace(' ', "%20"),
        7 => value
            .split_once('@')
            .map_or(format!("\"{value}\""), |(user, host)| format!("\"{user} x\"@{host}")),
        8 => value
            .split(' ')
            .flat_map(|word| word.chars().next())
            .map(|letter| format!("{letter}. "))
            .collect(),
        9 => value.replace(' ', "_").to_lowercase(),
        _ => {
            // One letter is another.
            let mut letters: Vec<char> = value.to_lowercase().chars().collect();
            let at = at.index(letters.len());
            if letters[at].is_alphabetic() {
                letters[at] = 'w';
            }
            letters.into_iter().collect()
        }
    }
}

const SPELLINGS: usize = 11;

/// Parts of four letters or digits and more, as they would be recognised.
fn parts(text: &str) -> Vec<String> {
    let folded = without_accents(&text.to_lowercase());
    let words = folded.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| word.len() >= 4).map(str::to_owned).collect()
}

const AROUND: [(&str, &str); 4] = [
    ("the mailbox of ", " was closed by its owner"),
    ("", " is not a user here"),
    ("conta de <", "> encerrada"),
    ("{\"message\":\"cannot bill\",\"who\":\"", "\"}"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn g24_no_value_of_a_payload_is_shown_in_any_spelling(
        values in prop::collection::vec(value(), 1..4),
        spelling in 0..SPELLINGS,
        at in any::<Index>(),
        (before, after) in select(&AROUND[..]),
        is_shared in any::<bool>(),
    ) {
        let said: Vec<_> = values.iter().map(|value| spelled(value, spelling, at)).collect();
        let text = format!("{before}{}{after}", said.join(" "));
        // Either the same recipient again and again, or others whose payloads all hold the values.
        let data = json!({"to": values[0], "person": {"values": values}, "note": format!("about {}", values[0])});
        let jobs = if is_shared { six(&data, &text) } else { vec![("acme".to_owned(), data, text.clone()); 6] };
        for code in [Some("E_PLAN"), Some(&*said[0]), Some(&*text), None] {
            let Skeleton { code, text, example, .. } = shown(code, &jobs);
            let (class, blame) = (Class::Permanent, Blame::Message);
            let rule = RuleText { route: RouteName::new("r").unwrap(), code, text, class, blame, retries_permanent: false };
            let all = without_accents(&format!("{} {example:?}", rule.toml()).to_lowercase());
            let known = format!("{before} {after} classify code text permanent some e_plan");
            for part in values.iter().chain(&said).flat_map(|value| parts(value)) {
                prop_assert!(known.contains(&part) || !all.contains(&part), "{part} of {values:?} in {all}");
            }
        }
    }

    #[test]
    fn words_for_a_rule_stand_in_every_answer(texts in prop::collection::vec(".{0,120}", 3..6)) {
        let jobs: Vec<_> =
            texts.iter().enumerate().map(|(nth, text)| (nth.to_string(), json!({}), text.clone())).collect();
        let skeleton = shown(None, &jobs);
        for words in skeleton.text.iter() {
            prop_assert!(words.len() <= 80 && words.trim() == &**words && !words.contains(char::is_numeric));
            for text in &texts {
                prop_assert!(text.to_ascii_lowercase().contains(&words.to_ascii_lowercase()));
            }
        }
    }
}
