//! The pages for operators: each command is run as it stands there, in the order of its page, and answers
//! what the page shows. `…` stands for anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::json;

use super::given::{Place, Server};

const PAGES: [&str; 5] = ["dlq-growing", "storage", "tenants", "review", "breaker"];

/// Every route keeps its own rules and opens no connection.
const CONFIG: &str = "[routes.email-ses]\ntransport = \"sandbox\"\npolicy = { base = \"20ms\", max_attempts = 2 }\n\
                      [routes.whatsapp]\ntransport = \"sandbox\"\n[routes.instagram]\ntransport = \"sandbox\"\n";

/// The scene of every page: three of one company that failed alike, two others, and a company that floods.
fn scene(server: &Server) {
    let unverified = "MailFromDomainNotVerified domain acme.example is not verified";
    for job in ["order-1042", "order-1043", "order-1044"] {
        bury(server, job, "email-ses", "acme", json!([unverified, "ok"]));
    }
    bury(server, "order-77", "email-ses", "bolt", json!(["554 transaction failed"]));
    bury(server, "wa-9", "whatsapp", "acme", json!(["404 number does not exist", "ok"]));
    // What moved to the queue at the very moment of a replay would not count as before it.
    std::thread::sleep(std::time::Duration::from_millis(2));
}

fn bury(server: &Server, job: &str, route: &str, company: &str, script: serde_json::Value) {
    server.enqueue(json!({"jobId": job, "route": route, "companyId": company, "data": {"script": script}}));
    server.job_once(job, "failed");
}

/// The commands of a block, and what the page says they answer.
fn steps(page: &str) -> Vec<(Vec<String>, String)> {
    let blocks = Regex::new(r"(?s)```sh\n(.*?)```\n```text\n(.*?)```").expect("a pattern");
    let lines = |block: &str| block.lines().map(str::to_owned).collect();
    blocks.captures_iter(page).map(|found| (lines(&found[1]), found[2].to_owned())).collect()
}

fn run(line: &str, place: &Place, server: &Server) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_recado")).parent().expect("a directory");
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(place.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
        .env("USER", "ana")
        .env("RECADO_URL", server.url())
        .output()
        .expect("a shell");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    assert!(output.status.success(), "{line}\n{out}{err}");
    out
}

/// Checks that the lines shown come in the answer in this order, however wide its columns are.
fn holds(shown: &str, answer: &str) -> Result<(), String> {
    let narrow = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let answer: Vec<String> = answer.lines().map(narrow).collect();
    let mut rest = answer.iter();
    for line in shown.lines().map(narrow).filter(|line| !line.is_empty() && line != "…") {
        let parts: Vec<_> = line.split('…').map(|part| regex::escape(part.trim())).collect();
        let pattern = Regex::new(&format!("^{}$", parts.join(".*"))).map_err(|error| error.to_string())?;
        if !rest.any(|said| pattern.is_match(said)) {
            return Err(line);
        }
    }
    Ok(())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating")
}

/// Follows a page: its commands.
fn follow(name: &str) -> Vec<String> {
    let page = std::fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let place = Place::with(CONFIG);
    let server = place.serve();
    scene(&server);
    if name.starts_with("tenants") {
        for n in 0..20 {
            let data = json!({"latencyMs": 50});
            server.enqueue(
                json!({"jobId": format!("n-{n}"), "route": "email-ses", "companyId": "noisy", "data": data}),
            );
        }
    }
    let mut commands = Vec::new();
    for (lines, shown) in steps(&page) {
        let answer: String = lines.iter().map(|line| run(line, &place, &server)).collect();
        if let Err(line) = holds(&shown, &answer) {
            panic!("{name}: {lines:?} does not answer\n{line}\nbut\n{answer}");
        }
        commands.extend(lines);
    }
    commands
}

#[test]
fn g20_g21_g22_every_command_of_the_pages_for_operators_answers_what_the_page_shows() {
    for page in PAGES {
        assert!(follow(&format!("{page}.md")).len() >= 3, "{page} shows too little");
    }
}

#[test]
fn the_portuguese_pages_for_operators_have_the_same_commands_and_they_work_too() {
    for page in PAGES {
        let english = std::fs::read_to_string(docs().join(format!("{page}.md"))).unwrap();
        let english: Vec<_> = steps(&english).into_iter().flat_map(|(lines, _)| lines).collect();
        assert_eq!(follow(&format!("{page}.pt-BR.md")), english, "{page}");
    }
}

#[test]
fn what_a_page_shows_is_compared_line_by_line() {
    let answer = "job  state\na    dead\nb    sent\n";
    assert_eq!(holds("job state\nb …\n", answer), Ok(()));
    assert_eq!(holds("b …\njob state\n", answer), Err("job state".to_owned()), "in order");
    assert_eq!(holds("a sent\n", answer), Err("a sent".to_owned()));
}
