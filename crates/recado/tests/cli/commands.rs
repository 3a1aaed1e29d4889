//! The command line itself: help, completions, exit codes, looking at jobs.

use serde_json::json;

use super::given::Place;

const COMMANDS: [&[&str]; 59] = [
    &["serve"],
    &["send"],
    &["jobs"],
    &["jobs", "list"],
    &["jobs", "show"],
    &["jobs", "cancel"],
    &["jobs", "audit"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "show"],
    &["dlq", "stats"],
    &["dlq", "replay"],
    &["dlq", "discard"],
    &["dlq", "bulk"],
    &["dlq", "export"],
    &["dlq", "import"],
    &["top"],
    &["policy", "show"],
    &["simulate"],
    &["decide"],
    &["config", "init"],
    &["config", "check"],
    &["config", "show"],
    &["policy"],
    &["config"],
    &["doctor"],
    &["completions"],
    &["bench"],
    &["camunda"],
    &["call"],
    &["events"],
    &["endpoints"],
    &["endpoints", "list"],
    &["endpoints", "add"],
    &["endpoints", "show"],
    &["endpoints", "set"],
    &["endpoints", "enable"],
    &["endpoints", "test"],
    &["endpoints", "remove"],
    &["accounts"],
    &["accounts", "list"],
    &["accounts", "clear"],
    &["providers"],
    &["providers", "list"],
    &["providers", "show"],
    &["providers", "open"],
    &["providers", "close"],
    &["providers", "pause"],
    &["providers", "resume"],
    &["tenants"],
    &["tenants", "list"],
    &["tenants", "show"],
    &["tenants", "set"],
    &["nodes"],
    &["routes"],
    &["routes", "pause"],
    &["routes", "resume"],
    &["store"],
    &["store", "migrate"],
];

#[test]
fn every_command_has_help_with_examples() {
    let place = Place::new();
    assert!(place.run(&["--help"]).done().contains("EXAMPLES:"));
    for command in COMMANDS {
        let help = place.run(&[command, &["--help"]].concat()).done();
        assert!(help.contains("EXAMPLES:"), "recado {} --help:\n{help}", command.join(" "));
        let wrapped = help.lines().zip(help.lines().skip(1)).find(|(line, next)| {
            let has_description = line.trim_start().contains("   ");
            line.starts_with("  recado ") && !has_description && !next.is_empty() && !next.starts_with("  ")
        });
        assert_eq!(wrapped, None, "an example of recado {} cannot be pasted", command.join(" "));
    }
}

#[test]
fn usage_faults_end_with_two_and_refusals_with_one() {
    let place = Place::new();
    for arguments in [
        &["frobnicate"][..],
        &["send", "sandbox"],
        &["jobs", "list", "--status", "lost"],
        &["send", "a", "--company", "b", "--data", "{"],
    ] {
        assert!(!place.run(arguments).failed_with(2).is_empty(), "{arguments:?}");
    }
    let said = place.run(&["jobs", "list", "--url", "http://127.0.0.1:9"]).failed_with(1);
    assert!(said.contains("is `recado serve` running"), "{said}");
}

#[test]
fn completions_are_written_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).done();
        assert!(script.contains("recado") && script.contains("simulate"), "{shell}");
        for hidden in ["doctor-node", "bench-node"] {
            assert!(!script.contains(hidden), "{hidden} is offered in {shell}");
        }
    }
}

#[test]
fn jobs_are_listed_by_page_and_by_state_and_cancelled_before_they_are_sent() {
    let place = Place::new();
    let server = place.serve();
    for number in 0..3 {
        server.enqueue(json!({"jobId": format!("later-{number}"), "route": "sandbox", "companyId": "acme", "delayMs": 600_000, "correlationId": "c", "data": {}}));
    }
    let first =
        server.run(&place, &["jobs", "list", "--status", "scheduled", "--limit", "2", "--json"]).json();
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = server.run(&place, &["jobs", "list", "--limit", "2", "--cursor", cursor, "--json"]).json();
    assert_eq!(second["items"][0]["jobId"], "later-0");
    let page = server.run(&place, &["jobs", "list", "--limit", "2"]).done();
    assert!(page.contains("There is more: --cursor"), "{page}");

    assert_eq!(server.run(&place, &["jobs", "cancel", "later-1"]).done(), "later-1 cancelled\n");
    let left = server.run(&place, &["jobs", "list", "--status", "scheduled", "--correlation-id", "c"]).done();
    assert!(left.contains("later-0") && !left.contains("later-1"), "{left}");
    let audit = server.run(&place, &["jobs", "audit", "later-1"]).done();
    assert!(audit.contains("cancelled") && audit.contains("tester"), "{audit}");
    assert!(server.run(&place, &["jobs", "show", "unknown"]).failed_with(1).contains("(not_found)"));
}

#[test]
fn a_paused_provider_says_so_and_so_does_the_job_that_waits_for_it() {
    let place = Place::new();
    let server = place.serve();
    let paused = server.run(&place, &["providers", "pause", "sandbox", "--reason", "invoice open"]).done();
    assert!(paused.contains("invoice open") && paused.contains("tester"), "{paused}");
    server.enqueue(json!({"jobId": "held", "route": "sandbox", "companyId": "acme", "data": {}}));
    assert_eq!(server.get("/v1/jobs/held")["nextAttemptAt"], json!(null), "a person decides when");
    let job = server.run(&place, &["jobs", "show", "held"]).done();
    assert!(job.contains("waits for a person: paused: invoice open (by tester)"), "{job}");
    assert!(job.contains("parked") && job.contains("deferrals"), "{job}");
    let parked = server.run(&place, &["jobs", "list", "--status", "parked"]).done();
    assert!(parked.contains("held"), "{parked}");
    let list = server.run(&place, &["providers", "--json"]).json();
    let items = list["items"].as_array().unwrap();
    let sandbox = items.iter().find(|it| it["name"] == "sandbox").unwrap();
    assert_eq!((&sandbox["state"], &sandbox["parked"]), (&json!("CLOSED"), &json!(1)));
    let table = server.run(&place, &["providers"]).done();
    assert!(table.contains("sandbox") && table.contains("paused"), "{table}");
    server.run(&place, &["providers", "resume", "sandbox", "--reason", "paid"]).done();
    assert!(!server.run(&place, &["providers", "show", "sandbox"]).done().contains("invoice open"));
    assert!(server.run(&place, &["providers", "show", "unknown"]).failed_with(1).contains("(not_found)"));
    place.run(&["providers", "open", "sandbox"]).failed_with(2);
}

#[test]
fn a_provider_without_an_address_says_so_instead_of_looking_well() {
    let place = Place::new();
    let server = place.serve();
    let shown = server.run(&place, &["providers", "show", "instagram", "--json"]).json();
    assert_eq!(shown["waitingFor"]["reason"], "route", "{shown}");
    let table = server.run(&place, &["providers"]).done();
    let line = table.lines().find(|line| line.starts_with("instagram")).unwrap_or_default();
    assert!(line.contains("no address") && !line.contains("CLOSED"), "{table}");
}

#[test]
fn a_hold_without_an_id_is_a_mistake_of_usage() {
    let refused = Place::new().run(&["holds", "lift", ""]).failed_with(2);
    assert!(refused.contains("<ID>"), "{refused}");
}

#[test]
fn without_a_name_the_actor_is_the_command_line_of_this_machine() {
    let place = Place::new();
    let server = place.serve();
    let mut command =
        place.command(&["tenants", "set", "acme", "--pause", "--reason", "invoice open", "--json"]);
    let output = command.env_remove("USER").env("RECADO_URL", server.url()).output().unwrap();
    let tenant: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let actor = tenant["pausedBy"].as_str().unwrap();
    assert!(actor.strip_prefix("cli@").is_some_and(|host| !host.is_empty()), "{tenant}");
    let shown = server.run(&place, &["tenants", "show", "acme"]).done();
    assert!(shown.contains("paused by") && shown.contains(actor), "{shown}");
}

#[test]
fn a_server_tells_the_same_policy_of_a_route_as_the_configuration_does() {
    let place = Place::new();
    let server = place.serve();
    let list = server.run(&place, &["routes", "--json"]).json();
    let claims = list["items"].as_array().unwrap().iter().find(|it| it["name"] == "tiss-claims").unwrap();
    let shown = place.run(&["policy", "show", "tiss-claims", "--json"]).json();
    assert_eq!(claims["policy"]["attempts"].as_array().map(Vec::len), Some(6));
    for field in ["attempts", "jitter", "maxAttempts"] {
        assert_eq!(claims["policy"][field], shown[field], "{field}");
    }
    assert_eq!(claims["timeoutMs"], shown["timeoutMs"]);
    let listed = server.run(&place, &["routes"]).done();
    assert!(listed.contains("its provider has no address\n") && !listed.contains('\\'), "{listed}");
}

#[test]
fn a_tenant_is_set_and_shown_and_its_jobs_say_why_they_wait() {
    let place = Place::new();
    let server = place.serve();
    let set = ["tenants", "set", "acme", "--weight", "3", "--max-per-minute", "60", "--pause", "--json"];
    let tenant = server.run(&place, &set).json();
    assert_eq!(
        (&tenant["weight"], &tenant["maxPerMinute"], &tenant["paused"]),
        (&json!(3), &json!(60), &json!(true))
    );
    server.enqueue(json!({"jobId": "held", "route": "sandbox", "companyId": "acme", "data": {}}));
    let shown = server.run(&place, &["tenants", "show", "acme"]).done();
    assert!(shown.contains("waits for a person: tenant paused") && shown.contains("sandbox"), "{shown}");
    let table = server.run(&place, &["tenants"]).done();
    assert!(table.contains("acme") && table.contains("paused"), "{table}");
    let tenant = server
        .run(&place, &["tenants", "set", "acme", "--max-per-minute", "none", "--resume", "--json"])
        .json();
    assert_eq!(
        (tenant.get("maxPerMinute"), &tenant["paused"], &tenant["weight"]),
        (None, &json!(false), &json!(3))
    );
    for wrong in [
        &["tenants", "set", "acme"][..],
        &["tenants", "set", "acme", "--weight", "0"],
        &["tenants", "set", "acme", "--max-per-minute", "0"],
    ] {
        server.run(&place, wrong).failed_with(2);
    }
}

#[test]
fn data_comes_from_the_argument_a_file_or_standard_input() {
    use std::io::Write;
    let place = Place::new();
    let server = place.serve();
    let mut child = place
        .command(&[
            "send",
            "sandbox",
            "--company",
            "acme",
            "--data",
            "-",
            "--wait=10s",
            "--json",
            "--url",
            &server.url(),
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(br#"{"script":["ok"]}"#).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let job: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(job["status"], "sent");
    let missing = server
        .run(&place, &["send", "sandbox", "--company", "acme", "--data", "@nowhere.json"])
        .failed_with(1);
    assert!(missing.contains("cannot read nowhere.json"), "{missing}");
}

#[test]
fn a_reader_that_leaves_early_breaks_no_command() {
    let place = Place::new();
    let mut running = place
        .command(&["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(running.stdout.take());
    let ended = running.wait_with_output().expect("an end");
    assert!(!String::from_utf8_lossy(&ended.stderr).contains("panicked"), "{ended:?}");
}
