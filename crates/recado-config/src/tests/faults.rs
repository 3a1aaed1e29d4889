//! Wrong files: what is said, where it points, and that all of it is said at once.

use super::*;

#[test]
fn an_unknown_key_is_pointed_at_and_the_likely_one_is_named() {
    assert_faults(
        "[server]\nlisten = \"127.0.0.1:7400\"\nmax_bdy = \"1MiB\"\n",
        "
error: there is no key `max_bdy` in [server]; did you mean `max_body`?
 --> recado.toml:3:1  server.max_bdy
  |
3 | max_bdy = \"1MiB\"
  | ^^^^^^^
",
    );
}

#[test]
fn an_unknown_key_that_is_close_to_none_gets_the_list() {
    assert_faults(
        "[dlq]\nautomatic = true\n",
        "
error: there is no key `automatic` in [dlq]; known keys: ttl, max_size, notify, allow
 --> recado.toml:2:1  dlq.automatic
  |
2 | automatic = true
  | ^^^^^^^^^
",
    );
}

#[test]
fn an_unknown_section_is_pointed_at() {
    assert_faults(
        "[sevrer]\nlisten = \"127.0.0.1:7400\"\n",
        "
error: there is no key `sevrer`; did you mean `server`?
 --> recado.toml:1:2  sevrer
  |
1 | [sevrer]
  |  ^^^^^^
",
    );
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    assert_faults(
        "[server]\nlisten = 7400\n\n[engine]\nlease = 15\njob_ttl = \"5 parsecs\"\npoison_after = 0\n",
        "
error: a number stands here; write a string, such as \"127.0.0.1:7400\"
 --> recado.toml:2:10  server.listen
  |
2 | listen = 7400
  |          ^^^^

error: a duration needs a unit; write \"15s\" or \"15ms\"
 --> recado.toml:5:9  engine.lease
  |
5 | lease = 15
  |         ^^

error: `5 parsecs` is not a duration; write a number and a unit, such as \"500ms\", \"30s\", \"5m\", \"24h\" or \"7d\"
 --> recado.toml:6:11  engine.job_ttl
  |
6 | job_ttl = \"5 parsecs\"
  |           ^^^^^^^^^^^

error: write a whole number from 1 to 100
 --> recado.toml:7:16  engine.poison_after
  |
7 | poison_after = 0
  |                ^
",
    );
}

#[test]
fn broken_toml_is_pointed_at_once_a_line() {
    assert_faults(
        "[server\nlisten = 1\n\nx = = 2\n",
        "
error: this is not TOML: unclosed table, expected `]`
 --> recado.toml:1:8
  |
1 | [server
  |        ^

error: this is not TOML: extra `=`, expected nothing
 --> recado.toml:4:5
  |
4 | x = = 2
  |     ^
",
    );
}

#[test]
fn sizes_and_durations_say_their_bounds() {
    assert_faults(
        "[server]\nmax_body = \"9TB\"\n[store]\nreserve = 64\n[engine]\nlease = \"2h\"\n",
        "
error: `9TB` is out of bounds; write \"1KiB\" to \"1GiB\"
 --> recado.toml:2:12  server.max_body
  |
2 | max_body = \"9TB\"
  |            ^^^^^

error: a size needs a unit; write \"64B\" or \"64MiB\"
 --> recado.toml:4:11  store.reserve
  |
4 | reserve = 64
  |           ^^

error: `2h` is out of bounds; write \"1s\" to \"1h\"
 --> recado.toml:6:9  engine.lease
  |
6 | lease = \"2h\"
  |         ^^^^
",
    );
}

#[test]
fn a_reserve_that_a_batch_could_use_up_is_refused_with_the_least_that_is_enough() {
    for (text, least) in [
        ("[store]\nreserve = \"1MiB\"\n", "write at least \"64MiB\": a batch of up to 32MiB"),
        (
            "[server]\nmax_body = \"48MiB\"\n[store]\nreserve = \"64MiB\"\n",
            "write at least \"96MiB\": a batch of up to 48MiB",
        ),
    ] {
        let said = faults_of(text);
        assert!(said.contains(least), "{said}");
    }
    assert_eq!(load("[store]\nreserve = \"64MiB\"\n").reserve_bytes(), 64 << 20);
    assert_eq!(load("[server]\nmax_body = \"48MiB\"\n").reserve_bytes(), 96 << 20);
}

#[test]
fn words_from_a_list_are_checked_against_it() {
    assert_faults(
        "[log]\nlevel = \"verbose\"\nformat = \"jsn\"\n[sandbox]\nenabled = \"yes\"\n",
        "
error: there is no level `verbose`; known ones: info, error, warn, debug, trace
 --> recado.toml:2:9  log.level
  |
2 | level = \"verbose\"
  |         ^^^^^^^^^

error: there is no format `jsn`; did you mean `json`?
 --> recado.toml:3:10  log.format
  |
3 | format = \"jsn\"
  |          ^^^^^

error: write true or false, without quotes
 --> recado.toml:5:11  sandbox.enabled
  |
5 | enabled = \"yes\"
  |           ^^^^^
",
    );
}

#[test]
fn a_store_that_cannot_be_is_refused_at_its_line_and_without_its_password() {
    assert_faults(
        "[store]\nurl = \"redis://ana:hunter2@a,b\"\n",
        "
error: the store's URL names several hosts; write redis+cluster://… for a Cluster or redis+sentinel://…/service for Sentinel
 --> recado.toml:2:7  store.url
  |
2 | url = \"***********************\"
  |       ^^^^^^^^^^^^^^^^^^^^^^^^^
",
    );
    assert_faults(
        "[store]\nurl = \"rediss://a\"\nprefix = \"{x}\"\npartitions = 0\nca_file = \"/nowhere\"\n",
        "
error: write 1 to 64 letters, digits, hyphens, dots, colons or underscores, such as \"recado\"
 --> recado.toml:3:10  store.prefix
  |
3 | prefix = \"{x}\"
  |          ^^^^^

error: write a whole number from 1 to 256
 --> recado.toml:4:14  store.partitions
  |
4 | partitions = 0
  |              ^

error: cannot be read (No such file or directory (os error 2)); give a file with PEM certificates
 --> recado.toml:5:11  store.ca_file
  |
5 | ca_file = \"/nowhere\"
  |           ^^^^^^^^^^
",
    );
}

#[test]
fn an_open_address_without_a_token_is_refused_with_the_way_out() {
    assert_faults(
        "[server]\n\tlisten = \"0.0.0.0:7400\"\n",
        "
error: this address can be reached from other machines, and there is no token, so any machine that reaches it could send jobs; set one with RECADO_TOKEN or [server] token = \"${RECADO_TOKEN}\", or listen on 127.0.0.1
 --> recado.toml:2:11  server.listen
  |
2 |  listen = \"0.0.0.0:7400\"
  |           ^^^^^^^^^^^^^^
",
    );
    assert!(try_load("[server]\nlisten = \"0.0.0.0:7400\"\ntoken = \"0123456789abcdef\"\n").is_ok());
    assert!(try_load("[server]\nlisten = \"[::1]:7400\"\n").is_ok());
    assert!(try_load("[server]\nlisten = \"localhost:7400\"\n").is_ok());
    assert!(try_load("[server]\nlisten = \"[::]:7400\"\n").is_err());
}

#[test]
fn a_missing_variable_is_named_where_it_is_used() {
    assert_faults(
        "[server]\ntoken = \"${NOPE_TOKEN}\"\n",
        "
error: the environment variable NOPE_TOKEN is not set; set it, or write the value here
 --> recado.toml:2:9  server.token
  |
2 | token = \"${NOPE_TOKEN}\"
  |         ^^^^^^^^^^^^^^^
",
    );
    assert!(faults_of("[server]\ntoken = \"${oops\"\n").contains("`${` begins a variable"));
}

#[test]
fn secrets_are_not_repeated_in_what_is_said_about_them() {
    let said = faults_of(
        "[server]\ntoken = \"hunter2\"\ntokn = \"hunter3\"\n[providers.x]\nurl = \"https://me:hunter4@h\"\n\
         api_key = \"hunter5\"\nheders = { a = \"hunter6\" }\nheaders = { host = \"hunter7\" }\n",
    );
    assert!(!said.contains("hunter"), "{said}");
    assert!(said.contains("2 | token = \"*******\""), "{said}");
}

#[test]
fn environments_are_the_two_that_exist() {
    assert_faults(
        "[environments.prod.engine]\nlease = \"1s\"\n",
        "
error: there is no environment `prod`; did you mean `production`?
 --> recado.toml:1:15  environments.prod
  |
1 | [environments.prod.engine]
  |               ^^^^
",
    );
}

#[test]
fn an_environment_has_no_environments_of_its_own() {
    let nested = "[environments.development.environments.development.server]\nlisten = \"127.0.0.1:1\"\n";
    assert_faults(
        nested,
        "
error: an environment has no environments of its own; write its sections as [environments.development.…]
 --> recado.toml:1:27  environments.development.environments
  |
1 | [environments.development.environments.development.server]
  |                           ^^^^^^^^^^^^
",
    );
    let elsewhere = nested.replacen("development", "production", 1);
    assert!(try_load(&elsewhere).is_ok(), "a fault of the other environment stops no start");
    let said = Config::check_elsewhere(&inputs(&elsewhere, &[]), Environment::Production).unwrap_err();
    assert!(said.to_string().contains("[environments.production.…]"), "{said}");
    let by_variable = inputs("", &[("RECADO_ENVIRONMENTS__DEVELOPMENT__SERVER__LISTEN", "127.0.0.1:1")]);
    let said = Config::load(&by_variable).unwrap_err().to_string();
    assert!(said.contains("take ENVIRONMENTS__ and the environment out of its name"), "{said}");
}

#[test]
fn text_beyond_ascii_does_not_shift_the_caret() {
    assert_faults(
        "[routes.email]\npolicy = { jitter = \"±250%\", base = \"é\" }\n",
        "
error: `±250%` is not a jitter; write \"±25%\", \"+20%\", \"full\", \"equal\", \"decorrelated\" or \"none\"
 --> recado.toml:2:21  routes.email.policy.jitter
  |
2 | policy = { jitter = \"±250%\", base = \"é\" }
  |                     ^^^^^^^

error: `é` is not a duration; write a number and a unit, such as \"500ms\", \"30s\", \"5m\", \"24h\" or \"7d\"
 --> recado.toml:2:37  routes.email.policy.base
  |
2 | policy = { jitter = \"±250%\", base = \"é\" }
  |                                     ^^^
",
    );
}

#[test]
fn no_file_however_odd_makes_the_reader_panic() {
    let odd = [
        "",
        "\u{feff}[server]\n",
        "server = 1",
        "server = []",
        "routes = [1]",
        "[routes]\nemail = 3",
        "[routes.\"\"]",
        "[routes.\"a b\"]\ntransport = \"worker\"",
        "[routes.email]\npolicy = []",
        "[routes.email]\npolicy = { schedule = [1, \"x\", {}] }",
        "[routes.email]\nclassify = 3",
        "[routes.email]\nclassify = [3, []]",
        "[engine]\npoison_after = 99999999999999999999999999",
        "[engine]\npoison_after = 1.5",
        "[engine]\nlease = 1979-05-27",
        "[providers]\nx = \"y\"",
        "[providers.x]\nheaders = 5",
        "[providers.x]\nheaders = { a = 5 }",
        "[environments]\ndevelopment = 5",
        "x = \"\\uD800\"",
        "x = \"\"\"\n${A",
        "[routes.email]\npolicy = { factor = nan, base = \"0s\", cap = \"0s\" }",
    ];
    for text in odd {
        let _ = try_load(text).map_err(|faults| assert!(!faults.to_string().is_empty(), "{text}"));
    }
}

#[test]
fn a_negative_duration_is_refused_without_being_offered_again() {
    assert_faults(
        "[routes.email]\nhold_max = -5\n",
        "
error: a duration is not negative and needs a unit; write one such as \"30s\"
 --> recado.toml:2:12  routes.email.hold_max
  |
2 | hold_max = -5
  |            ^^
",
    );
}
