//! `recado config`, `recado policy`, `recado doctor`: what needs no server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::given::Place;

#[test]
fn e13_config_check_points_at_every_fault_with_its_line() {
    let place =
        Place::with("[server]\nlisten = \"127.0.0.1:7400\"\n\n[routes.emial]\npolicy = { base = 5 }\n");
    let said = place.run(&["config", "check"]).failed_with(1);
    let expected = "\
error: the route does not say how it delivers; write provider = \"…\", transport = \"worker\" (your own code delivers) or transport = \"sandbox\" (nothing is sent); or did you mean [routes.email]?
 --> recado.toml:4:9  routes.emial
  |
4 | [routes.emial]
  |         ^^^^^

error: a duration needs a unit; write \"5s\" or \"5ms\"
 --> recado.toml:5:19  routes.emial.policy.base
  |
5 | policy = { base = 5 }
  |                   ^
";
    assert_eq!(said.trim_end(), expected.trim_end());
}

#[test]
fn f14_config_check_and_a_start_warn_of_anti_patterns_until_a_reason_allows_them() {
    let wrong = "[routes.a]\ntransport = \"worker\"\nclassify = [{ status = \"4xx\", as = \"transient\" }]\n\
                 [routes.b]\ntransport = \"worker\"\npolicy = { base = \"1ms\", factor = 1, max_attempts = 10 }\n\
                 [routes.c]\ntransport = \"worker\"\npolicy = { schedule = [\"0s\", \"1ms\", \"1ms\", \"1ms\"] }\n";
    let names = [("a", "permanent_retried"), ("b", "no_backoff"), ("c", "no_backoff")];
    let place = Place::with(wrong);
    let said = place.run(&["config", "check", "--env", "production"]).done();
    assert!(said.contains("recado.toml: no faults, 3 warnings (production)"), "{said}");
    for (route, name) in names {
        assert!(
            said.contains(&format!("write allow = {{ {name} = \"why\" }} in [routes.{route}]\n")),
            "{route}: {said}"
        );
    }
    let server = place.serve();
    let warned = |server: &super::given::Server| {
        let of_settings = |line: &serde_json::Value| Some(line["setting"].as_str()?.to_owned());
        server.log().iter().filter_map(of_settings).collect::<Vec<_>>()
    };
    assert_eq!(warned(&server), ["routes.a.classify[0]", "routes.b.policy", "routes.c.policy"]);
    server.stop();

    let allowed = names.map(|(route, name)| format!("[routes.{route}.allow]\n{name} = \"for a test\"\n"));
    place.write("recado.toml", &format!("{wrong}{}", allowed.concat()));
    let said = place.run(&["config", "check", "--env", "production"]).done();
    assert!(said.starts_with("recado.toml: no faults (production)"), "{said}");
    let server = place.serve();
    assert_eq!(warned(&server), Vec::<String>::new());
    server.stop();
}

#[test]
fn config_check_looks_at_the_other_environment_too() {
    let place = Place::with(
        "[environments.production.engine]\nlease = \"1 day\"\n[environments.production.server]\ntoken = \"${PROD_TOKEN}\"\n",
    );
    let said = place.run(&["config", "check"]).done();
    assert!(said.starts_with("warning: `1 day` is not a duration"), "{said}");
    assert!(
        said.contains("does not work in production") && said.contains("no faults, 1 warning (development)"),
        "{said}"
    );
    assert!(!said.contains("PROD_TOKEN"), "{said}");
    place.run(&["config", "show"]).done();
    let checked = place.run(&["config", "check", "--env", "development"]).done();
    let note = "note: it does not work in production; see recado config check --env production\n";
    assert!(checked.starts_with(note) && checked.contains("no faults (development)"), "{checked}");
    place.run(&["config", "check", "--env", "production"]).failed_with(1);
}

#[test]
fn config_check_shows_no_secret_of_a_file_that_it_cannot_read() {
    let place = Place::with(
        "[engine]\nlease = 5s # ask Rui, hunter2\n[server]\ntoken = hunter2\n\
         [providers.mail]\nurl = \"smtps://me:hunter2@example.com\npasswrod = \"hunter2\n",
    );
    let said = place.run(&["config", "check"]).failed_with(1);
    assert!(said.matches("this is not TOML").count() >= 4 && said.contains("lease = 5s #"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn commands_that_deliver_nothing_ask_for_no_secret_of_a_delivery() {
    let secrets = "[server]\ntoken = \"${SRV_TOKEN}\"\n[providers.smtp]\nurl = \"smtp://me:${SMTP_PASSWORD}@mail.example.com\"\n\
                   ca_file = \"/nowhere/ca.pem\"\n[notify.ops]\nwebhook = \"https://ops.example.com\"\nsecret = \"${OPS_SECRET}\"\n";
    let place = Place::new();
    place.serve().stop();
    place.write("recado.toml", secrets);
    let said = place.run(&["audit", "verify"]).done();
    assert!(!said.contains("SMTP_PASSWORD"), "{said}");
    place.write("recado.toml", &secrets.replace("ca_file = \"/nowhere/ca.pem\"\n", ""));
    let shown = place.run(&["config", "show"]).done();
    assert!(shown.contains("@mail.example.com"), "{shown}");
    place.run(&["policy", "show", "email"]).done();
    let looked = place.run(&["doctor", "--url", "http://127.0.0.1:9"]).out;
    assert!(looked.contains("SMTP_PASSWORD is not set") && looked.contains("recado-data"), "{looked}");
    place.run(&["config", "check"]).failed_with(1);
    // What they do need is still asked for.
    place.write("recado.toml", "[audit]\ndir = \"${TRAIL_DIR}\"\n");
    assert!(place.run(&["audit", "verify"]).failed_with(1).contains("TRAIL_DIR is not set"));
}

#[test]
fn config_init_writes_a_file_that_works_and_never_replaces_one() {
    let place = Place::new();
    place.run(&["config", "init"]).done();
    assert!(place.read("recado.toml").contains("#listen = \"127.0.0.1:7400\""));
    let file = place.path().join("recado.toml");
    let mode = |file: &std::path::Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600, "it will hold secrets");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let told = place.run(&["doctor", "--url", "http://127.0.0.1:9"]).out;
    assert!(told.contains("can be read by every user"), "{told}");
    place.run(&["config", "init", "--force"]).done();
    assert_eq!(mode(&file), 0o600);
    let checked = place.run(&["config", "check"]).done();
    assert!(checked.starts_with("recado.toml: no faults (development)"), "{checked}");
    let said = place.run(&["config", "init"]).failed_with(1);
    assert!(said.contains("--force"), "{said}");
    place.run(&["config", "init", "--force"]).done();
    let server = place.serve();
    server.stop();
}

#[test]
fn config_show_hides_secrets_and_can_be_read_back() {
    let place = Place::with("[server]\ntoken = \"hunter2-hunter2-hunter2\"\n[engine]\nlease = \"7s\"\n");
    let shown = place.run(&["config", "show"]).done();
    assert!(shown.contains("token = \"***\"") && shown.contains("lease = \"7s\""), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    let said = place.run(&["config", "show", "--config", "nowhere.toml"]).failed_with(1);
    assert!(said.contains("there is no file nowhere.toml") && said.contains("config init"), "{said}");
}

#[test]
fn policy_show_draws_the_curve_without_a_server() {
    let place = Place::new();
    let shown = place.run(&["policy", "show", "email-ses", "--plot", "--env", "production"]).done();
    for expected in ["750ms to 1.25s", "6s to 10s", "█", "░", "└┴"] {
        assert!(shown.contains(expected), "{expected:?} is missing from\n{shown}");
    }
    let steps = place.run(&["policy", "show", "tiss-claims", "--json"]).json();
    assert_eq!(
        (steps["maxAttempts"].as_i64(), steps["attempts"][5]["delayMs"].as_i64()),
        (Some(6), Some(80 * 60_000))
    );
    let said = place.run(&["policy", "show", "emial"]).failed_with(2);
    assert!(said.contains("did you mean `email`?"), "{said}");
}

#[test]
fn doctor_finds_what_is_wrong_and_says_how_to_mend_it() {
    let place = Place::with("[server]\nlisten = \"127.0.0.1:0\"\n");
    let said = place.run(&["doctor", "--url", "http://127.0.0.1:9"]).done();
    // How fast the disk is, is the machine's business.
    for expected in [
        "✓ configuration",
        "✓ data directory",
        "✓ lock",
        "✓ disk",
        " disk speed: ",
        "✓ audit trail",
        "✓ port",
        "✓ clock",
        "! server",
    ] {
        assert!(said.contains(expected), "{expected:?} is missing from\n{said}");
    }
    assert!(said.contains("recado serve"), "{said}");

    place.write("recado-data", "a file");
    place.write("recado.toml", "[engine]\nlease = 5\n");
    let said = place.run(&["doctor", "--url", "http://127.0.0.1:9", "--json"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("a duration needs a unit"), "{}", said.out);
}

#[test]
fn doctor_sees_a_store_that_cannot_be_read() {
    let place = Place::with("[server]\nlisten = \"127.0.0.1:0\"\n");
    std::fs::create_dir(place.path().join("recado-data")).expect("a directory");
    place.write(
        "recado-data/recado.db",
        "no database, but long enough to have the header of one: ".repeat(99).as_str(),
    );
    let said = place.run(&["doctor", "--url", "http://127.0.0.1:9"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("✗ store: cannot use") && said.out.contains("not a database"), "{}", said.out);
}

#[test]
fn doctor_sees_that_the_audit_trail_cannot_be_written() {
    let place = Place::with("[server]\nlisten = \"127.0.0.1:0\"\n[audit]\ndir = \"trail\"\n");
    place.write("trail", "a file where a directory should be");
    let said = place.run(&["doctor", "--url", "http://127.0.0.1:9"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("✗ audit trail: trail cannot be written"), "{}", said.out);
    assert!(said.out.contains("[audit] dir"), "{}", said.out);
}

#[test]
fn doctor_is_content_with_a_server_that_works() {
    let place = Place::new();
    let server = place.serve();
    let said = server.run(&place, &["doctor"]).done();
    for expected in ["✓ lock: process", "✓ server", "✓ ready: it takes jobs"] {
        assert!(said.contains(expected), "{expected:?} is missing from\n{said}");
    }
}

#[test]
fn doctor_asks_the_server_that_the_configuration_starts() {
    let place = Place::new();
    let token = "a-token-of-sixteen-characters";
    let server = place.serve_with(&[], &[("RECADO_TOKEN", token)]);
    let port = server.address.port();
    place.write("recado.toml", &format!("[server]\nlisten = \"0.0.0.0:{port}\"\ntoken = \"{token}\"\n"));
    let said = place.run(&["doctor"]).done();
    let answers = format!("✓ server: http://127.0.0.1:{port} answers");
    for expected in [answers.as_str(), "✓ port", "✓ ready: it takes jobs"] {
        assert!(said.contains(expected), "{expected:?} is missing from\n{said}");
    }
}

#[test]
fn the_configuration_that_the_readme_shows_is_right() {
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown = shown.expect("a block of TOML").replace("${EVOLUTION_API_KEY}", "a-key-of-this-test");
    let checked = Place::with(&shown).run(&["config", "check"]).done();
    for route in ["whatsapp", "partner-hook"] {
        let line = checked.lines().find(|line| line.starts_with(route)).expect("the route is listed");
        assert!(line.contains("takes jobs"), "{line}");
    }
}
