//! Texts that are read: `Retry-After`, the configuration.

use std::time::Duration;

use recado_config::fault::Source;
use recado_config::{Config, Inputs};
use recado_core::classify::HOLD_MAX_DEFAULT;
use recado_core::{Classifier, Fault, Timestamp, retry_after};

pub const DATE_WORDS: &[&str] = &[
    "Thu, 01 Jan 2026 00:02:00 GMT",
    "Thursday, 01-Jan-26",
    "Dec",
    "9999",
    "1.5",
    " GMT",
    "-",
    "+",
    "24:00:60",
];

pub const CONFIG_WORDS: &[&str] = &[
    "[routes.email]\n",
    "[[routes.email.classify]]\n",
    "classify = [{ code = \"550\", as = \"permanent\" }]\n",
    "policy = { base = \"1s\" }\n",
    "\"5m\"",
    "[providers.smtp]\n",
    "breaker = false\n",
    "${X}",
    "[environments.production]\n",
    "transport = \"sandbox\"\n",
    "regex = '('\n",
    "max_attempts = 0\n",
    "\u{feff}",
    "'''",
    "#",
];

pub fn retry_after(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let now = Timestamp::from_millis(1_767_225_600_000);
    let wait = retry_after::parse(&text, now);
    assert_eq!(retry_after::parse(&format!(" {text}\t"), now), wait, "blanks around it mean nothing");
    let later = retry_after::parse(&text, now.plus(Duration::from_secs(3_600)));
    assert_eq!(wait.is_some(), later.is_some());
    assert!(later <= wait, "it ends no later when it is read later");
    let fault = Fault { retry_after: wait, ..Fault::answer("429", "slow down") };
    let failure = Classifier::default().classify(fault);
    assert!(failure.retry_after.is_none_or(|held| held <= HOLD_MAX_DEFAULT), "no answer holds for longer");
    assert_eq!(failure.asked_wait, wait);
    let _ = retry_after::parse_millis(&text);
}

pub fn config(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let source = Source { name: "fuzz.toml".to_owned(), text, hidden: Vec::new() };
    let inputs = Inputs { file: Some(source), ..Inputs::default() };
    let read =
        |inputs: &Inputs| Config::load_as_written(inputs).map(|config| format!("{:?}", config.route_names()));
    match read(&inputs) {
        Ok(names) => assert_eq!(read(&inputs), Ok(names), "the same text gives the same settings"),
        Err(faults) => {
            assert!(!faults.list.is_empty(), "a refusal says why");
            assert!(faults.list.iter().all(|fault| !fault.message.trim().is_empty()), "{faults}");
            assert!(faults.to_string().contains("fuzz.toml"), "it says where: {faults}");
        }
    }
}
