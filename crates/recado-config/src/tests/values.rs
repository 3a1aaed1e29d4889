//! Right files: what they come to.

use recado_core::{Class, Fault, Jitter, Verdict};

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn classify(config: &Config, route: &str, fault: Fault) -> (Class, String) {
    let verdict = config.route(route).unwrap().classifier.verdict(recado_core::Outcome::Failed(fault));
    let Verdict::Failed(failure) = verdict else { panic!("a fault was taken for a delivery") };
    (failure.class, failure.rule.to_string())
}

#[test]
fn without_a_file_everything_has_a_default() {
    let config = Config::load(&Inputs::default()).unwrap();
    assert_eq!(config.environment, Environment::Development);
    assert!(config.environment_by_default && config.sandbox_enabled());
    assert_eq!(config.settings.server.listen.to_string(), "127.0.0.1:7400");
    assert_eq!(config.settings.store.data_dir, PathBuf::from("./recado-data"));
    assert_eq!(config.settings.engine.lease, seconds(15));
    assert_eq!(config.settings.engine.stop_grace, seconds(30));
    assert_eq!(config.settings.engine.job_ttl, seconds(86_400));
    assert_eq!(config.settings.dlq.ttl, seconds(7 * 86_400));
    assert_eq!(config.settings.retention.ended_max_count, 1_000_000);
    assert_eq!(config.audit_dir(), PathBuf::from("./recado-data/audit"));
    assert_eq!((config.settings.audit.keep, config.settings.audit.key_file), (seconds(1_827 * 86_400), None));
    assert_eq!(config.routes.len(), crate::catalogue::ROUTES.len());
}

#[test]
fn t18_less_than_five_years_of_the_trail_is_for_development_alone() {
    let short = "[audit]\nkeep = \"90d\"\ndir = \"/srv/audit\"\n";
    let config = load(short);
    assert_eq!(
        (config.settings.audit.keep, config.audit_dir()),
        (seconds(90 * 86_400), PathBuf::from("/srv/audit"))
    );
    let mut inputs = inputs(short, &[]);
    inputs.flags.environment = Some(Environment::Production);
    let said = Config::load(&inputs).unwrap_err().to_string();
    assert!(said.contains("audit.keep") && said.contains("write at least \"1827d\""), "{said}");
}

#[test]
fn a_partial_route_overrides_only_what_it_names() {
    let config = load("[routes.email]\ntransport = \"sandbox\"\npolicy = { base = \"20ms\" }\n");
    let email = config.route("email").unwrap();
    assert_eq!((&email.delivery, email.transport_name()), (&Delivery::Transport, "sandbox"));
    assert_eq!((&*email.provider, email.classifier_name, email.timeout), ("smtp", "smtp", seconds(30)));
    let policy = &email.terms.policy;
    assert_eq!(
        policy.backoff,
        recado_core::Backoff::Exponential { base: Duration::from_millis(20), factor: 2.0, cap: seconds(30) }
    );
    assert_eq!((policy.jitter, policy.max_attempts), (Jitter::Symmetric(0.25), 3));
}

#[test]
fn policy_keys_merge_and_change_the_shape_when_they_have_to() {
    let config = load(
        "[routes.whatsapp]\npolicy = { base = \"2s\" }\n[routes.email]\npolicy = { schedule = [\"0s\", \"1s\"] }\n\
         [routes.openai]\npolicy = { max_attempts = 9 }\n[routes.tiss-claims]\npolicy = { floor = \"1m\" }\n",
    );
    let policy = |name: &str| show::policy(&config.route(name).unwrap().terms.policy);
    assert_eq!(
        policy("whatsapp"),
        r#"{ base = "2s", factor = 2, cap = "1m", jitter = "none", max_attempts = 4 }"#
    );
    assert_eq!(
        policy("email"),
        r#"{ schedule = ["0s", "1s"], jitter = "±25%", cap_applies = "after_jitter", max_attempts = 2 }"#
    );
    assert_eq!(policy("openai"), r#"{ schedule = ["0s", "1m", "5m"], jitter = "+20%", max_attempts = 9 }"#);
    assert_eq!(
        policy("tiss-claims"),
        r#"{ base = "5m", factor = 2, cap = "4h", jitter = "±20%", floor = "1m", ceiling = "4h", max_attempts = 6 }"#
    );
}

#[test]
fn routes_of_ones_own_get_defaults_by_their_transport() {
    let config = load(
        "[routes.a]\ntransport = \"sandbox\"\n[routes.b]\ntransport = \"worker\"\n[routes.c]\nprovider = \"p\"\n\
         [providers.p]\nurl = \"https://p.example.com\"\nconcurrency = 7\n",
    );
    let facts = |name: &str| {
        let config = config.route(name).unwrap();
        (config.classifier_name, &*config.provider, config.transport_name(), config.concurrency)
    };
    assert_eq!(facts("a"), ("general", "a", "sandbox", 64));
    assert_eq!(facts("b"), ("general", "b", "worker", 64));
    assert_eq!(facts("c"), ("http", "p", "http", 7));
    for name in ["a", "b", "c"] {
        let route = config.route(name).unwrap();
        assert_eq!(route.timeout, seconds(30));
        assert_eq!(route.terms.policy, crate::catalogue::default_policy());
    }
}

#[test]
fn an_address_for_its_provider_makes_a_built_in_route_usable() {
    let text = "[providers.evolution]\nurl = \"https://evo.example.com\"\napi_key = \"k\"\ninstance = \"main\"\n\
                [providers.instagram]\nurl = \"https://graph.example.com\"\n[providers.tiss]\nurl = \"https://tiss.example.com\"\n";
    let config = load(text);
    let carried = |name: &str| config.route(name).unwrap().transport_name().to_owned();
    assert_eq!(carried("whatsapp"), "whatsapp");
    assert_eq!(carried("instagram"), "http");
    assert_eq!(carried("tiss-claims"), "http");
    assert_eq!(carried("tiktok"), "none");
    assert_eq!(config.route("tiss-claims").unwrap().classifier_name, "tiss");
}

#[test]
fn the_lines_that_a_missing_carrier_asks_for_make_the_route_usable() {
    let config = Config::load(&Inputs::default()).unwrap();
    let mut checked = 0;
    for route in &config.routes {
        let Delivery::Missing(what) = &route.delivery else { continue };
        let (_, lines) = what.split_once("\n\n").unwrap();
        let variables = [
            ("EVOLUTION_API_KEY", "k"),
            ("INSTAGRAM_TOKEN", "t"),
            ("TIKTOK_TOKEN", "t"),
            ("YOUTUBE_TOKEN", "t"),
            ("OPENAI_API_KEY", "k"),
            ("SMTP_PASSWORD", "p"),
        ];
        let fixed = Config::load(&inputs(lines, &variables)).unwrap();
        let name = route.name.as_str();
        assert!(!matches!(fixed.route(name).unwrap().delivery, Delivery::Missing(_)), "{name}:\n{what}");
        checked += 1;
    }
    assert_eq!(checked, 7);
}

#[test]
fn a_rule_may_say_how_long_what_it_names_takes_to_pass() {
    let text = "[routes.email-ses]\nclassify = [{ text = \"Daily message quota exceeded\", as = \"rate_limit\", wait = \"15m\" }]\n";
    let config = load(text);
    let quota = |retry_after| {
        let fault = Fault { retry_after, ..Fault::answer("Throttling", "Daily message quota exceeded") };
        config.route("email-ses").unwrap().classifier.classify(fault).retry_after
    };
    assert_eq!(quota(None), Some(Duration::from_secs(900)));
    assert_eq!(quota(Some(Duration::from_secs(7))), Some(Duration::from_secs(7)), "its own word comes first");
    let page = show::page(&config, show::Style::Effective);
    assert!(page.contains("blame = \"provider\", wait = \"15m\" }"), "{page}");
}

#[test]
fn f12_only_a_route_that_says_so_falls_back_while_its_breaker_is_open() {
    let config = load(
        "[routes.sandbox]\nfallback = { do = \"mark_failed\" }\n[routes.email]\nfallback = { on = [\"open\", \"dead\"] }\n\
         [routes.email-ses]\nfallback = { on = [\"open\"], do = \"reschedule\", after = \"15m\" }\n",
    );
    let on = |route: &str| {
        let fallback = &config.route(route).unwrap().fallback;
        (fallback.on_open, fallback.on_dead, fallback.acts_on_open())
    };
    assert_eq!((on("sandbox"), on("webhook")), ((false, true, false), (false, true, false)));
    assert_eq!((on("email"), on("email-ses")), ((true, true, true), (true, false, true)));
    let page = show::page(&config, show::Style::Effective);
    assert!(page.contains("fallback = { on = [\"open\", \"dead\"], do = \"mark_failed\" }"), "{page}");
}

#[test]
fn own_rules_come_first_and_leave_their_name() {
    let config = load(
        "[routes.email]\nclassify = [\n  { code = \"550\", text = \"try again later\", as = \"transient\" },\n  \
         { name = \"Throttling\", as = \"rate_limit\" },\n  { status = [500, \"41x\"], as = \"permanent\", blame = \"credential\" },\n  \
         { network = \"any\", as = \"unknown\" },\n]\n",
    );
    let of = |fault: Fault| classify(&config, "email", fault);
    assert_eq!(
        of(Fault::answer("550", "Try Again Later please")),
        (Class::Transient, "config/email/1".to_owned())
    );
    assert_eq!(of(Fault::answer("550", "no such user")).0, Class::Permanent);
    assert_eq!(of(Fault::answer("throttling", "")), (Class::RateLimit, "config/email/2".to_owned()));
    assert_eq!(
        of(Fault { status: Some(418), ..Fault::answer("TEAPOT", "") }),
        (Class::Permanent, "config/email/3".to_owned())
    );
    let dropped = Fault::network(recado_core::NetworkKind::Dropped, "gone");
    assert_eq!(of(dropped), (Class::Unknown, "config/email/4".to_owned()));
}

#[test]
fn what_config_show_prints_reads_back_as_the_same_configuration() {
    let text = "[server]\nmax_body = \"2MiB\"\n[routes.email]\ntransport = \"worker\"\ntimeout = \"7s\"\nhold_max = \"5m\"\n\
                classify = [ { code = \"550\", status = [500, \"5xx\", \"42x\"], regex = '\\d+ \"x\"', as = \"transient\" } ]\n\
                [routes.mine]\nprovider = \"p\"\npolicy = { schedule = [\"0s\", \"9s\"] }\n[providers.p]\nurl = \"https://p.example.com/a\"\nconcurrency = 3\n\
                breaker = { failures = 2, within = \"9s\", slow = \"1s\", ramp = \"0s\" }\nrate = { max = 7, per = \"1s\" }\n\
                tenant_rate = { max = 3, per = \"1s\" }\ntenant_concurrency = 2\nendpoint_concurrency = 1\nadaptive = true\n\
                [providers.q]\nurl = \"https://q.example.com\"\nbreaker = false\n\
                [routes.both]\nproviders = [\"q\", \"p\"]\n[fairness]\nbatch = 4\n";
    let first = load(text);
    let shown = show::page(&first, show::Style::Effective);
    assert_eq!(show::page(&load(&shown), show::Style::Effective), shown);
    assert_eq!((&load(&shown).protection, load(&shown).settings.fairness.batch), (&first.protection, 4));
    for line in
        ["max_body = \"2MiB\"", "hold_max = \"5m\"", "hold_max = \"1h\"", "providers = [\"q\", \"p\"]"]
    {
        assert!(shown.contains(line), "{line} is missing from\n{shown}");
    }
}

#[test]
fn config_show_hides_secrets_and_keeps_variables_by_name() {
    let text = "[server]\ntoken = \"${TOKEN}\"\n[providers.p]\nurl = \"https://p.example.com/${PLACE}\"\nheaders = { X-Key = \"${KEY}\" }\n\
                [providers.evolution]\nurl = \"https://evo.example.com\"\napi_key = \"plain-api-key\"\n";
    let variables = [("TOKEN", "token-0123456789abcdef"), ("PLACE", "hidden-place"), ("KEY", "hidden-key")];
    let config = Config::load(&inputs(text, &variables)).unwrap();
    let shown = show::page(&config, show::Style::Effective) + &format!("{config:?}");
    for secret in ["token-0123456789abcdef", "hidden-key", "plain-api-key"] {
        assert!(!shown.contains(secret), "{secret} is in\n{shown}");
    }
    let page = show::page(&config, show::Style::Effective);
    assert!(page.contains("url = \"https://p.example.com/${PLACE}\""), "{page}");
}

#[test]
fn the_default_file_says_what_the_program_does_in_both_environments() {
    for environment in Environment::ALL {
        let flags = Flags { environment: Some(environment), ..Flags::default() };
        let bare = Config::load(&Inputs { flags: flags.clone(), ..Inputs::default() }).unwrap();
        for text in [template::default_file(), template::starter_file()] {
            let config = Config::load(&Inputs { flags: flags.clone(), ..inputs(&text, &[]) }).unwrap();
            let page = |config: &Config| {
                let page = show::page(config, show::Style::Effective);
                page.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(page(&config), page(&bare));
        }
    }
}

#[test]
fn the_starter_file_works_with_every_line_taken_in() {
    let all: String = template::starter_file()
        .lines()
        .map(|line| {
            line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])).unwrap_or(line).to_owned()
                + "\n"
        })
        .collect();
    let variables = [
        "RECADO_TOKEN",
        "EVOLUTION_API_KEY",
        "INSTAGRAM_TOKEN",
        "TIKTOK_TOKEN",
        "YOUTUBE_TOKEN",
        "OPENAI_API_KEY",
        "SMTP_PASSWORD",
        "OTLP_TOKEN",
    ];
    let secrets = ["WEBHOOK_SECRET", "OPS_WEBHOOK_SECRET"];
    let secrets = secrets.map(|name| (name, "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"));
    let variables: Vec<_> =
        variables.map(|name| (name, "0123456789abcdef")).into_iter().chain(secrets).collect();
    let config = Config::load(&inputs(&all, &variables)).unwrap();
    assert!(config.settings.server.token.is_some());
    assert!(config.routes.iter().all(|route| !matches!(route.delivery, Delivery::Missing(_))));
}

#[test]
fn the_committed_default_file_is_up_to_date() {
    let is_current = include_str!("../../config.default.toml") == template::default_file();
    assert!(is_current, "run: cargo run -- config show --default > crates/recado-config/config.default.toml");
}

#[test]
fn the_committed_reference_page_is_up_to_date() {
    let is_current = include_str!("../../../../docs/configuration.md") == reference::page();
    assert!(is_current, "run: cargo run -- config reference > docs/configuration.md");
}

#[test]
fn every_key_is_explained() {
    fn check(path: &str, rows: &[keys::table::Row]) {
        for row in rows {
            let path = format!("{path}.{}", row.key);
            // Each alert is explained in docs/operating/alerts.md.
            let is_rule = path.starts_with(".alerts.") && !row.rows.is_empty();
            assert!(!row.doc.is_empty() || is_rule, "{path} says nothing of itself");
            check(&path, &row.rows);
        }
    }
    check("", &keys::table::defaults::<Settings>().rows());
}

#[test]
fn every_required_system_can_be_configured() {
    let text = "[providers.smtp]\nurl = \"smtps://ana:${PASSWORD}@mail.example.com\"\nhello = \"out.example.com\"\nconnections = 3\n\
                [providers.ses]\nregion = \"sa-east-1\"\nconfiguration_sets = { acme = \"acme-mail\" }\ntags = { team = \"crm\" }\n\
                [providers.evolution]\nurl = \"https://evo.example.com\"\napi_key = \"k\"\n\
                [providers.tiss]\nurl = \"https://tiss.example.com\"\n[routes.tiss-claims]\ntransport = \"http\"\n\
                [providers.webhook]\nsecret = \"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"\n[webhooks]\nallow = [\"127.0.0.1\", \"10.0.0.0/8\"]\n\
                [notify.ops]\nfrom = \"recado@example.com\"\nto = [\"ops@example.com\"]\n[dlq]\nnotify = \"ops\"\n\
                [routes.comments]\nprovider = \"instagram\"\nfallback = { do = \"reschedule\", after = \"15m\", notify = \"ops\" }\n\
                [providers.instagram]\nurl = \"https://graph.instagram.com\"\n";
    let config = Config::load(&inputs(text, &[("PASSWORD", "hidden-word")])).unwrap();
    for (route, transport) in [
        ("email", "smtp"),
        ("email-ses", "ses"),
        ("whatsapp", "whatsapp"),
        ("tiss-claims", "http"),
        ("webhook", "webhook"),
        ("comments", "http"),
    ] {
        assert_eq!(config.route(route).unwrap().transport_name(), transport, "{route}");
    }
    let comments = config.route("comments").unwrap();
    assert_eq!(comments.terms.start_over_after, Some(Duration::from_secs(900)));
    assert_eq!(comments.fallback.notify.as_deref(), Some("ops"));
    let page = show::page(&config, show::Style::Effective);
    assert!(!format!("{page}{config:?}").contains("hidden-word"), "{page}");
    assert!(page.contains("url = \"smtps://ana:${PASSWORD}@mail.example.com\""), "{page}");
    let again = Config::load(&inputs(
        &page.replace("\"***\"", "\"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\""),
        &[("PASSWORD", "x")],
    ));
    assert_eq!(show::page(&again.unwrap(), show::Style::Effective), page);
}
