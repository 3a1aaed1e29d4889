//! The first minute, and every reason not to start.

use serde_json::json;

use super::given::Place;

#[test]
fn the_first_minute_works_without_any_configuration() {
    let place = Place::new();
    let server = place.serve();
    let environment =
        server.log().iter().filter(|line| line["message"].as_str().unwrap().contains("development")).count();
    assert_eq!(environment, 1, "start-up says in one line that this is development");
    assert!(place.path().join("recado-data").is_dir());

    let sent = server
        .run(&place, &["send", "sandbox", "--company", "acme", "--data", r#"{"script":["ok"]}"#, "--wait"])
        .done();
    assert!(sent.contains("status    sent") && sent.contains("attempt 1  sent"), "{sent}");

    place.write("bad.json", r#"{"script": ["550 no such user", "ok"]}"#);
    let failed = server.run(
        &place,
        &["send", "sandbox", "--company", "acme", "--data", "@bad.json", "--job-id", "mine", "--wait"],
    );
    assert!(failed.failed_with(1).contains("recado dlq show mine"));
    assert!(server.run(&place, &["dlq", "list"]).done().contains("no such user"));
    server.run(&place, &["dlq", "replay", "mine"]).done();
    server.job_once("mine", "sent");
    let left = server.run(&place, &["dlq", "list", "--json"]).json();
    assert_eq!(left["items"], json!([]));
    let listed = server.run(&place, &["jobs", "list", "--company", "acme", "--json"]).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    server.stop();
}

#[test]
fn routes_that_cannot_deliver_refuse_jobs_and_say_which_lines_to_write() {
    let place = Place::new();
    let server = place.serve();
    let send = |route: &str| {
        server.run(&place, &["send", route, "--company", "acme", "--data", "{}"]).failed_with(1)
    };
    assert!(send("whatsapp").contains("[providers.evolution]\nurl = "), "{}", send("whatsapp"));
    assert!(send("email").contains("[providers.smtp]\nurl = \"smtp://"), "{}", send("email"));
    let unknown = send("emial");
    assert!(unknown.contains("there is no route `emial`") && unknown.contains("email"), "{unknown}");
}

#[test]
fn production_refuses_the_sandbox_unless_it_is_enabled() {
    let place = Place::new();
    let server = place.serve_with(&["--env", "production"], &[]);
    let said = server.run(&place, &["send", "sandbox", "--company", "acme", "--data", "{}"]).failed_with(1);
    assert!(
        said.contains("the sandbox is off in production") && said.contains("[sandbox]\nenabled = true"),
        "{said}"
    );
    drop(server);

    place.write("recado.toml", "[sandbox]\nenabled = true\n");
    let server = place.serve_with(&["--env", "production"], &[]);
    server.run(&place, &["send", "sandbox", "--company", "acme", "--data", "{}", "--wait"]).done();
    drop(server);

    place.write("recado.toml", "[routes.email]\ntransport = \"sandbox\"\n");
    let said = place.run(&["serve", "--env", "production"]).failed_with(1);
    assert!(said.contains("this route would send nothing") && said.contains("recado.toml:2:13"), "{said}");
}

#[test]
fn e2_e3_the_environment_chooses_the_policy_that_a_server_runs_with() {
    let place = Place::with(
        "[sandbox]\nenabled = true\n[routes.email]\ntransport = \"sandbox\"\npolicy = { base = \"10ms\" }\n",
    );
    for (environment, attempts) in [("production", 5), ("development", 3)] {
        let server = place.serve_with(&[], &[("RECADO_ENV", environment)]);
        let id = server.enqueue(json!({"route": "email", "companyId": "acme", "data": {"script": ["421"]}}));
        let job = server.job_once(&id, "failed");
        assert_eq!(job["attempts"].as_array().unwrap().len(), attempts, "{environment}");
        server.stop();
    }
}

#[test]
fn an_address_that_other_machines_reach_needs_a_token() {
    let place = Place::new();
    let said = place.run(&["serve", "--listen", "0.0.0.0:0"]).failed_with(1);
    assert!(
        said.contains("there is no token") && said.contains("RECADO_TOKEN") && said.contains("--> --listen"),
        "{said}"
    );
}

#[test]
fn with_a_token_only_those_who_have_it_come_in() {
    let place = Place::new();
    let token = "a-token-of-24-characters";
    let server = place.serve_with(&[], &[("RECADO_TOKEN", token)]);
    let said = server.run(&place, &["jobs", "list"]).failed_with(1);
    assert!(said.contains("--token or RECADO_TOKEN"), "{said}");
    let listed = server.run(&place, &["jobs", "list", "--token", token, "--json"]).json();
    assert_eq!(listed["items"], json!([]));
    let log = server.log();
    assert!(log.iter().all(|line| !line.to_string().contains(token)));
}

#[test]
fn a_data_directory_has_one_process() {
    let place = Place::new();
    let server = place.serve();
    let said = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed_with(1);
    assert!(said.contains("is in use by process") && said.contains("--data-dir"), "{said}");
    let address = server.address.to_string();
    let said = place.run(&["serve", "--data-dir", "elsewhere", "--listen", &address]).failed_with(1);
    assert!(said.contains("another process does") && said.contains("--listen"), "{said}");
}

#[test]
fn a_directory_that_cannot_be_written_is_explained() {
    let place = Place::new();
    place.write("recado-data", "a file, not a directory");
    let said = place.run(&["serve", "--listen", "127.0.0.1:0"]).failed_with(1);
    assert!(said.contains("cannot open the store") && said.contains("recado-data"), "{said}");
}

#[test]
fn a_store_of_another_kind_is_refused() {
    let said = Place::new().run(&["serve", "--store", "mysql://127.0.0.1:3306"]).failed_with(1);
    assert!(said.contains("unknown scheme") && said.contains("--> --store"), "{said}");
}
