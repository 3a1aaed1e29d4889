//! `recado rules suggest`: what real traffic teaches, pasted into the configuration.

use serde_json::{Value, json};

use super::given::{FAST, Place, Server};

/// Sends jobs of three companies that follow a script, each to a recipient of its own, until each has this status.
fn send(server: &Server, name: &str, count: u32, script: &[&str], status: &str) {
    for nth in 0..count {
        let data =
            json!({"script": script, "name": "Wilhelmina", "to": format!("ana.souza.{nth}@example.com")});
        let company = ["acme", "beta", "gama"][nth as usize % 3];
        server.enqueue(
            json!({"jobId": format!("{name}-{nth}"), "route": "sandbox", "companyId": company, "data": data}),
        );
    }
    for nth in 0..count {
        server.job_once(&format!("{name}-{nth}"), status);
    }
}

fn suggestions(server: &Server, place: &Place) -> Vec<Value> {
    let list =
        server.run(place, &["rules", "suggest", "--route", "sandbox", "--since", "1h", "--json"]).json();
    list["items"].as_array().expect("a list").clone()
}

#[test]
fn g24_a_suggested_line_pasted_into_the_route_decides_from_then_on() {
    let place = Place::with(FAST);
    let server = place.serve();
    assert_eq!(suggestions(&server, &place), Vec::<Value>::new());
    let empty = server.run(&place, &["rules", "suggest"]).done();
    assert!(empty.starts_with("Nothing to suggest"), "{empty}");

    let gone =
        "ACCOUNT_GONE Wilhelmina <ana.souza@example.com> +55 11 98765-4321: account was closed by its owner";
    send(&server, "gone", 8, &[gone], "failed");
    send(&server, "slow", 8, &["WARMING the cache is warming up", "ok"], "sent");
    send(&server, "seldom", 3, &["ODDITY seldom seen"], "failed");
    send(&server, "bare", 7, &["XQ85"], "failed");
    send(&server, "early", 6, &["550 no such user in the directory yet", "ok"], "failed");
    let replay = ["dlq", "replay", "--code", "550", "--rate", "100", "--yes", "--json"];
    assert_eq!(server.run(&place, &replay).json()["done"], 6);
    for nth in 0..6 {
        server.job_once(&format!("early-{nth}"), "sent");
    }

    let found = suggestions(&server, &place);
    let rows: Vec<_> = found
        .iter()
        .map(|row| (row["toml"].as_str().expect("TOML"), &row["today"], &row["wouldHaveChanged"]))
        .collect();
    let [gone_line, bare_line, early_line, slow_line] = [
        r#"classify = [{ code = "ACCOUNT_GONE", text = "account was closed by its owner", as = "permanent" }]"#,
        r#"classify = [{ code = "XQ85", as = "permanent" }]"#,
        r#"classify = [{ code = "550", as = "transient", blame = "message" }]"#,
        r#"classify = [{ code = "WARMING", as = "transient" }]"#,
    ];
    assert_eq!(
        rows,
        [
            (gone_line, &json!("UNKNOWN"), &json!(8 * 4)),
            (bare_line, &json!("UNKNOWN"), &json!(7 * 4)),
            (early_line, &json!("PERMANENT"), &json!(6)),
            (slow_line, &json!("UNKNOWN"), &json!(0)),
        ]
    );
    let of_gone = &found[0];
    assert_eq!((&of_gone["count"], &of_gone["retriedInVain"]), (&json!(8 * 5), &json!(8)));
    assert_eq!((&of_gone["suggested"], &of_gone["wouldHaveLost"]), (&json!("PERMANENT"), &json!(0)));
    for personal in ["Wilhelmina", "ana.souza", "98765"] {
        assert!(!json!(found).to_string().contains(personal), "{personal} is shown: {found:#?}");
    }
    let printed = server.run(&place, &["rules", "suggest"]).done();
    let at = printed.find("[routes.sandbox]").expect("a table");
    let pasted = &printed[at..];
    assert_eq!(pasted.matches("[routes.sandbox]").count(), 1, "{printed}");
    assert!(FAST.trim_end().contains("[routes.sandbox]"), "the test replaces this table's head: {FAST}");
    place.write("recado.toml", &FAST.replacen("[routes.sandbox]\n", pasted, 1));
    let checked = place.run(&["config", "check", "--env", "development"]).done();
    // A code alone is a wide rule where it makes a permanent error transient, and the check says so.
    let warned_of =
        "# Retries every 550, which the built-in rules call permanent: recado config check may warn of it.";
    assert_eq!(pasted.matches("config check").count(), 1, "{pasted}");
    assert!(pasted.contains(warned_of), "{pasted}");
    assert!(checked.contains("no faults") && checked.matches("warning: has ").count() == 1, "{checked}");
    server.stop();
    let server = place.serve();
    let shown = suggestions(&server, &place);
    assert!(shown.iter().all(|row| row["errorCode"] != "ACCOUNT_GONE"), "it is there already: {shown:#?}");
    server.enqueue(
        json!({"jobId": "after", "route": "sandbox", "companyId": "acme", "data": {"script": [gone, "ok"]}}),
    );
    let after = server.job_once("after", "failed");
    let attempts = after["attempts"].as_array().expect("attempts");
    assert_eq!((attempts.len(), &attempts[0]["rule"]), (1, &json!("config/sandbox/1")), "{after:#}");
    assert_eq!(attempts[0]["errorClassification"], "PERMANENT");
}
