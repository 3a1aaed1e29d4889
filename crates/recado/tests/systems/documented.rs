//! The pages on the systems: a server with a page's configuration takes the page's examples, each as it
//! stands there but for hosts, which become far ends that ask for the right credentials.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::{Captures, Regex};
use serde_json::Value;

use super::far_ends::mail::Relay;
use super::far_ends::{FarEnd, evolution, graph, openai, receiver, ses, tiktok, tiss, youtube};
use super::given::{Place, Server};

/// Pages that have to be there in every language.
const PAGES: [&str; 7] = ["email", "email-ses", "whatsapp", "tiss-claims", "social", "openai", "webhook"];

/// The commands that pages show to people who want to try something.
const EXAMPLES: [&str; 4] = ["recado send ", "recado call ", "recado endpoints ", "recado accounts"];

fn variables() -> [(&'static str, &'static str); 10] {
    [
        ("SMTP_PASSWORD", "not-a-password"),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ("EVOLUTION_API_KEY", evolution::KEY),
        ("TISS_TOKEN", "not-a-token"),
        ("INSTAGRAM_TOKEN", graph::TOKEN),
        ("TIKTOK_TOKEN", tiktok::TOKEN),
        ("YOUTUBE_TOKEN", youtube::TOKEN),
        ("OPENAI_API_KEY", openai::KEY),
        ("WEBHOOK_SECRET", receiver::SECRET),
    ]
}

/// All providers, receivers and servers that a page may name.
struct World {
    /// With a word of the host's name.
    providers: Vec<(&'static str, FarEnd)>,
    relay: Relay,
}

impl World {
    fn new() -> Self {
        let providers = vec![
            ("amazonaws", ses::start()),
            ("evolution", evolution::start()),
            ("tiss", tiss::start()),
            ("instagram", graph::start()),
            ("tiktok", tiktok::start()),
            ("googleapis", youtube::start()),
            ("openai", openai::start()),
            // A host that is no provider is a customer's receiver.
            ("", receiver::start()),
        ];
        World { providers, relay: Relay::start() }
    }

    /// The same text with these far ends instead of the real ones.
    fn moved(&self, text: &str) -> String {
        let web = Regex::new(r#"https?://([^/"'\s?]+)"#).expect("a pattern");
        let mail = Regex::new(r#"smtps?://(?:([^@"\s]+)@)?[^"\s]+"#).expect("a pattern");
        let to_provider = |found: &Captures<'_>| {
            let provider = self.providers.iter().find(|(word, _)| found[1].contains(word));
            provider.map(|(_, far_end)| far_end.url()).expect("the last one takes all")
        };
        let to_relay = |found: &Captures<'_>| {
            let login = found.get(1).map(|login| format!("{}@", login.as_str())).unwrap_or_default();
            format!("smtp://{login}{}?tls=none", self.relay.address())
        };
        mail.replace_all(&web.replace_all(text, to_provider), to_relay).into_owned()
    }

    /// Requests and messages that arrived anywhere.
    fn arrived(&self) -> usize {
        let requests: usize = self.providers.iter().map(|(_, far_end)| far_end.ledger().len()).sum();
        requests + self.relay.taken().len()
    }
}

/// The lines inside fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let parts = page.split(&opening).skip(1);
    parts.filter_map(|part| part.split("```").next()).map(str::to_owned).collect()
}

fn examples(page: &str) -> Vec<String> {
    let lines = blocks(page, "sh").join("\n");
    let is_example = |line: &&str| EXAMPLES.iter().any(|example| line.starts_with(example));
    lines.lines().filter(is_example).map(str::to_owned).collect()
}

fn run(line: &str, place: &Place, server: &Server) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_recado")).parent().expect("a directory");
    Command::new("sh")
        .args(["-c", line])
        .current_dir(place.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
        .env("USER", "tester")
        .env("RECADO_URL", server.url())
        .output()
        .expect("a shell")
}

/// Follows a page: how many examples it has.
fn follow(path: &Path) -> usize {
    let shown = path.display();
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let world = World::new();
    // The first block is the least that is needed; what follows it are variations.
    let mut config = blocks(&page, "toml").first().map(|block| world.moved(block)).unwrap_or_default();
    if !config.contains("[webhooks]") {
        config += receiver::ALLOWED;
    }
    let place = Place::with(&config);
    let server = place.serve_with(&[], &variables());
    let mut delivered = 0;
    let examples = examples(&page);
    for line in &examples {
        let output = run(&world.moved(line), &place, &server);
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
        assert!(output.status.success(), "{shown}: {line}\n{out}{err}");
        if line.starts_with("recado send ") {
            let id = out.split_whitespace().next().unwrap_or_else(|| panic!("{shown}: {line}\n{out}"));
            let tried = ["sent", "failed", "retrying"];
            let job = server.job_when(id, |job| tried.iter().any(|status| job["status"] == *status));
            assert_eq!(job["status"], "sent", "{shown}: {line}\n{job:#}");
            delivered += 1;
        }
        if line.starts_with("recado call ") {
            delivered += 1;
        }
        if line.starts_with("recado endpoints add ") {
            let endpoints = server.get("/v1/endpoints");
            assert!(endpoints["items"].as_array().is_some_and(|items| !items.is_empty()), "{shown}: {line}");
        }
    }
    assert_eq!(world.arrived(), delivered, "{shown}: each example reaches its provider once");
    assert_eq!(server.get("/v1/dlq")["items"], Value::Array(Vec::new()), "{shown}");
    examples.len()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn every_example_of_the_pages_on_the_systems_does_what_the_page_says() {
    for page in PAGES {
        assert_ne!(follow(&docs().join(format!("systems/{page}.md"))), 0, "{page} has no example");
    }
}

#[test]
fn the_portuguese_pages_have_the_same_number_of_examples_and_they_work_too() {
    for page in PAGES {
        let portuguese = docs().join(format!("systems/{page}.pt-BR.md"));
        let english = std::fs::read_to_string(docs().join(format!("systems/{page}.md"))).unwrap();
        assert_eq!(follow(&portuguese), examples(&english).len(), "{page}");
    }
}

#[test]
fn the_examples_around_the_systems_work_as_well() {
    let around = ["events.md", "events.pt-BR.md", "fallbacks.md", "fallbacks.pt-BR.md"];
    for path in around.map(|page| docs().join(page)).iter().filter(|path| path.exists()) {
        assert_ne!(follow(path), 0, "{} has no example", path.display());
    }
}
