//! Environments, variables and flags: which layer wins.

use super::*;

const FILE: &str = "[engine]\nlease = \"10s\"\nstop_grace = \"10s\"\njob_ttl = \"10s\"\npoison_after = 7\n\
                    [environments.development.engine]\nstop_grace = \"20s\"\njob_ttl = \"20s\"\n\
                    [environments.production.engine]\nlease = \"99s\"\n";

#[test]
fn later_layers_win_and_leave_the_rest_alone() {
    let mut inputs = inputs(FILE, &[("RECADO_ENGINE__JOB_TTL", "30s"), ("RECADO_LISTEN", "127.0.0.1:1")]);
    inputs.flags.listen = Some("127.0.0.1:2".to_owned());
    let config = Config::load(&inputs).unwrap();
    let seconds = |duration: Duration| duration.as_secs();
    let engine = &config.settings.engine;
    assert_eq!([seconds(engine.lease), seconds(engine.stop_grace), seconds(engine.job_ttl)], [10, 20, 30]);
    assert_eq!(engine.poison_after, 7);
    assert_eq!(config.settings.server.listen.port(), 2);
}

#[test]
fn the_environment_is_chosen_by_flag_then_variable_then_default() {
    let by_variable = inputs(FILE, &[("RECADO_ENV", "production")]);
    let config = Config::load(&by_variable).unwrap();
    assert_eq!(config.environment, Environment::Production);
    assert!(!config.environment_by_default);
    assert_eq!(config.settings.engine.lease, Duration::from_secs(99));
    assert!(!config.sandbox_enabled());

    let flags = Flags { environment: Some(Environment::Development), ..Flags::default() };
    assert_eq!(Config::load(&Inputs { flags, ..by_variable }).unwrap().environment, Environment::Development);

    let said = Config::load(&inputs("", &[("RECADO_ENV", "prod")])).unwrap_err().to_string();
    assert_eq!(said, "error: there is no environment `prod`; did you mean `production`?\n --> $RECADO_ENV\n");
}

#[test]
fn the_sandbox_is_on_in_development_and_off_in_production_unless_said() {
    let on = |text: &str, environment: &str| {
        let config = Config::load(&inputs(text, &[("RECADO_ENV", environment)])).unwrap();
        (config.sandbox_enabled(), config.route("sandbox").unwrap().transport_name().to_owned())
    };
    assert_eq!(on("", "development"), (true, "sandbox".to_owned()));
    assert_eq!(on("", "production"), (false, "none".to_owned()));
    assert_eq!(on("[sandbox]\nenabled = true\n", "production"), (true, "sandbox".to_owned()));
    assert_eq!(on("[sandbox]\nenabled = false\n", "development"), (false, "none".to_owned()));
}

#[test]
fn a_variable_reaches_every_kind_of_key() {
    let variables = [
        ("RECADO_SERVER__MAX_BODY", "2MiB"),
        ("RECADO_RETENTION__ENDED_MAX_COUNT", "12"),
        ("RECADO_SANDBOX__ENABLED", "false"),
        ("RECADO_ROUTES__EMAIL_SES__TIMEOUT", "3s"),
        ("RECADO_ROUTES__WHATSAPP__POLICY__SCHEDULE", "[\"0s\", \"2s\"]"),
        ("RECADO_ROUTES__EMAIL__POLICY", "{ max_attempts = 9, factor = 3 }"),
        ("RECADO_PROVIDERS__OPENAI__URL", "https://openai.example.com"),
        ("RECADO_PROVIDERS__MY_OWN__CONCURRENCY", "5"),
        ("RECADO_TOKEN", "0123456789abcdef"),
        ("RECADO_DATA_DIR", "/var/lib/recado"),
        ("RECADO_LOG_LEVEL", "debug"),
        ("RECADO_SERVER__LISTEN", ""),
    ];
    let config = Config::load(&inputs("", &variables)).unwrap();
    assert_eq!(config.settings.server.max_body_bytes, 2 << 20);
    assert_eq!(config.settings.retention.ended_max_count, 12);
    assert!(!config.sandbox_enabled());
    assert_eq!(config.route("email-ses").unwrap().timeout, Duration::from_secs(3));
    assert_eq!(config.route("whatsapp").unwrap().terms.policy.max_attempts, 2);
    assert_eq!(config.route("email").unwrap().terms.policy.max_attempts, 9);
    assert_eq!(config.route("openai").unwrap().transport_name(), "http");
    assert_eq!(config.protection["my-own"].concurrency, 5);
    assert_eq!(config.settings.server.token.as_ref().unwrap().reveal(), "0123456789abcdef");
    assert_eq!(config.settings.store.data_dir, PathBuf::from("/var/lib/recado"));
    assert_eq!(config.settings.log.level, Level::Debug);
    assert_eq!(config.settings.server.listen.port(), 7400, "an empty variable sets nothing");
}

#[test]
fn a_wrong_variable_is_named_and_strange_ones_are_left_alone() {
    let variables = [
        ("RECADO_SERVER__LISTN", "x"),
        ("RECADO_ENGINE__LEASE", "soon"),
        ("RECADO_PORT", "tcp://10.0.0.1:7400"),
    ];
    let said = Config::load(&inputs("", &variables)).unwrap_err().to_string();
    assert_eq!(
        said,
        "error: `soon` is not a duration; write a number and a unit, such as \"500ms\", \"30s\", \"5m\", \"24h\" or \"7d\"\n \
         --> $RECADO_ENGINE__LEASE  engine.lease\n\n\
         error: there is no key `listn` in [server]; did you mean `listen`?\n --> $RECADO_SERVER__LISTN  server.listn\n"
    );
    let slips = inputs("", &[("RECADO_LISTN", "x"), ("RECADO_PORT", "x"), ("RECADO_TOKEN", "x")]).variables;
    assert_eq!(variables::misspelled(&slips), [("RECADO_LISTN".to_owned(), "RECADO_LISTEN")]);
}

#[test]
fn a_wrong_flag_is_named() {
    let mut inputs = inputs("", &[]);
    inputs.flags.listen = Some("everywhere".to_owned());
    inputs.flags.store = Some("reddis://localhost".to_owned());
    let said = Config::load(&inputs).unwrap_err().to_string();
    assert!(said.contains("`everywhere` is not an address to listen on"), "{said}");
    assert!(said.contains(" --> --listen  server.listen"), "{said}");
    assert!(said.contains(" --> --store  store.url"), "{said}");
}

#[test]
fn variables_are_replaced_in_strings_and_a_doubled_dollar_keeps_one() {
    let text = "[store]\ndata_dir = \"${HERE}/a-$${b}-$c-${HERE}\"\n";
    let config = Config::load(&inputs(text, &[("HERE", "x")])).unwrap();
    assert_eq!(config.settings.store.data_dir, PathBuf::from("x/a-${b}-$c-x"));
}

#[test]
fn the_other_environment_is_checked_as_far_as_it_can_be_from_here() {
    let text = "[environments.production.server]\ntoken = \"${ONLY_THERE}\"\nlisten = \"0.0.0.0:${PORT}\"\n\
                [environments.production.engine]\nlease = \"99 parsecs\"\n";
    let inputs = inputs(text, &[]);
    assert!(Config::load(&inputs).is_ok());
    let said = Config::check_elsewhere(&inputs, Environment::Production).unwrap_err();
    assert_eq!(said.list.len(), 1, "{said}");
    assert_eq!(said.list[0].path, "engine.lease");
}
