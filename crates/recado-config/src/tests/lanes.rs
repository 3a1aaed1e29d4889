//! Breakers, rates, slots, turns and routes with several providers.

use std::time::Duration;

use recado_core::breaker::BreakerTerms;
use recado_core::limit::Rate;
use recado_engine::admission::provider::{CompanySlots, ProviderTerms};

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const MAIL: &str = "[providers.relay]\ntransport = \"smtp\"\nurl = \"smtp://mail.example.com\"\n\
                    [providers.spare]\ntransport = \"smtp\"\nurl = \"smtp://spare.example.com\"\n\
                    [providers.web]\nurl = \"https://web.example.com\"\n";

fn legs<'a>(config: &'a Config, route: &str) -> Vec<&'a str> {
    config.route(route).unwrap().provider_names().collect()
}

#[test]
fn a_provider_is_protected_as_it_says() {
    let config = load(
        "[providers.p]\nurl = \"https://p.example.com\"\nconcurrency = 7\ntenant_concurrency = 2\nadaptive = true\n\
         breaker = { failures = 2, within = \"10s\", reset = \"20s\", slow = \"3s\", ramp = \"0s\" }\n\
         rate = { max = 9, per = \"1s\" }\ntenant_rate = { max = 4, per = \"5s\" }\n\
         [routes.mine]\nprovider = \"p\"\n[fairness]\nbatch = 5\n",
    );
    let expected = ProviderTerms {
        breaker: Some(BreakerTerms {
            slow: Some(seconds(3)),
            ramp: Duration::ZERO,
            // Its route's timeout and a little.
            probe: seconds(35),
            ..BreakerTerms::new(2, seconds(10), seconds(20))
        }),
        rate: Some(Rate { max: 9, per: seconds(1) }),
        company_rate: Some(Rate { max: 4, per: seconds(5) }),
        concurrency: 7,
        company_slots: CompanySlots::AtMost(2),
        receiver_concurrency: None,
        adaptive: true,
    };
    assert_eq!(config.protection["p"], expected);
    assert_eq!(config.settings.fairness.batch, 5);
}

#[test]
fn f3_a_permit_without_a_report_is_given_up_after_what_counts_as_slow_or_half_a_minute() {
    let config =
        load("[providers.billing]\nbreaker = true\n[providers.search]\nbreaker = { slow = \"3s\" }\n");
    let probe = |name: &str| config.protection[name].breaker.unwrap().probe;
    assert_eq!((probe("billing"), probe("search")), (seconds(35), seconds(8)));
}

#[test]
fn a_provider_that_says_nothing_has_neither_breaker_nor_rate() {
    let config = load("[providers.p]\nurl = \"https://p.example.com\"\n[routes.mine]\nprovider = \"p\"\n");
    assert_eq!(config.protection["p"], ProviderTerms::plain(64));
}

#[test]
fn webhooks_share_their_slots_unless_told_and_other_providers_do_not() {
    let terms = |text: &str, name: &str| load(text).protection[name];
    let webhook = terms("", "webhook");
    assert_eq!(webhook.company_slots, CompanySlots::AsManyAsFree);
    assert_eq!((webhook.company_slots_max(), webhook.receiver_slots_max()), (Some(32), 16));
    let told = terms("[providers.webhook]\ntenant_concurrency = 64\nendpoint_concurrency = 5\n", "webhook");
    assert_eq!((told.company_slots, told.receiver_slots_max()), (CompanySlots::AtMost(64), 5));
    assert_eq!(terms("", "smtp").company_slots, CompanySlots::All);
}

#[test]
fn a_route_bounds_the_waits_that_answers_impose_by_an_hour_unless_told() {
    let config = load("[routes.email]\ntransport = \"worker\"\nhold_max = \"5m\"\n");
    let hold_max = |route: &str| config.route(route).unwrap().classifier.hold_max;
    assert_eq!((hold_max("email"), hold_max("webhook")), (seconds(300), seconds(3_600)));
}

#[test]
fn what_a_breaker_does_not_say_stays_as_it_was() {
    let config = load(
        "[providers.openai]\nbreaker = { failures = 9 }\n[providers.smtp]\nbreaker = true\n[providers.instagram]\nbreaker = false\n",
    );
    let breaker = |name: &str| config.protection[name].breaker;
    let terms = |failures, reset| BreakerTerms {
        probe: seconds(35),
        ..BreakerTerms::new(failures, seconds(60), seconds(reset))
    };
    assert_eq!(breaker("openai").unwrap(), terms(9, 180));
    assert_eq!(breaker("smtp").unwrap(), terms(5, 120));
    assert_eq!(breaker("instagram"), None);
}

#[test]
fn workers_and_sandboxed_routes_keep_their_providers_terms() {
    let config = load(
        "[routes.email-ses]\ntransport = \"sandbox\"\n[routes.instagram]\ntransport = \"sandbox\"\n\
         [providers.tiss]\nbreaker = { failures = 4 }\nrate = { max = 1, per = \"1s\" }\n\
         [routes.mine]\ntransport = \"worker\"\n[providers.mine]\nconcurrency = 3\nbreaker = true\n",
    );
    let ses = config.protection["ses"];
    assert_eq!((ses.rate.unwrap().max, config.route("email-ses").unwrap().concurrency), (100, 5));
    assert_eq!(config.protection["instagram"].breaker.unwrap().failures, 5);
    let tiss = config.protection["tiss"];
    assert_eq!((tiss.breaker.unwrap().failures, tiss.rate.unwrap().max), (4, 1));
    let mine = config.protection["mine"];
    assert_eq!((mine.breaker.is_some(), mine.concurrency), (true, 3));
}

#[test]
fn a_built_in_route_brings_its_terms_to_a_provider_of_another_name() {
    let config = load(
        "[providers.eu]\nurl = \"https://eu.example.com\"\n[providers.us]\nurl = \"https://us.example.com\"\n\
         [routes.openai]\nproviders = [\"eu\", \"us\"]\n",
    );
    for name in ["eu", "us"] {
        assert_eq!(config.protection[name].breaker.unwrap().failures, 3, "{name}");
    }
}

#[test]
fn g24_a_route_may_name_providers_that_take_over_in_order() {
    let config = load(&format!("{MAIL}[routes.email]\nproviders = [\"spare\", \"relay\"]\n"));
    assert_eq!(legs(&config, "email"), ["spare", "relay"]);
    let route = &config.route("email").unwrap();
    assert_eq!((&*route.provider, route.others.len(), route.transport_name()), ("spare", 1, "smtp"));
    let alone = load(&format!("{MAIL}[routes.email]\nproviders = [\"spare\"]\n"));
    assert_eq!(legs(&alone, "email"), ["spare"]);
    let sandboxed = load("[routes.email]\ntransport = \"sandbox\"\nproviders = [\"smtp\", \"ses\"]\n");
    assert_eq!(legs(&sandboxed, "email"), ["smtp", "ses"]);
}

#[test]
#[cfg(feature = "ses")]
fn g24_mail_may_go_by_smtp_and_by_ses_under_rules_that_know_both() {
    let both = format!(
        "{MAIL}[providers.ses]\nregion = \"sa-east-1\"\n[routes.email]\nproviders = [\"relay\", \"ses\"]\n"
    );
    let config = load(&both);
    assert_eq!(
        (legs(&config, "email"), config.route("email").unwrap().classifier_name),
        (vec!["relay", "ses"], "ses")
    );
    let chosen = load(&format!("{both}classifier = \"smtp\"\n"));
    assert_eq!(chosen.route("email").unwrap().classifier_name, "smtp");
}

#[test]
fn g24_a_provider_that_takes_over_must_be_reachable_and_take_the_same_data() {
    let file = format!(
        "{MAIL}[routes.email]\nproviders = [\"relay\", \"web\"]\n[routes.a]\nproviders = [\"web\", \"evolution\", \"wbe\"]\n\
         [routes.b]\nprovider = \"web\"\nproviders = [\"web\", \"web\"]\n[routes.c]\nproviders = [\"web\", \"web\"]\n\
         [routes.d]\nproviders = []\n[routes.tiss-claims]\nproviders = [\"tiss\", \"evolution\"]\n[routes.instagram]\nproviders = [\"instagram\", \"web\"]\n\
         [routes.e]\nproviders = [\"web\", \"evolution\"]\n"
    );
    let said = faults_of(&file);
    for expected in [
        "it is reached by \"http\" and `relay` by \"smtp\", and they do not take the same data; name providers of one transport, or of \"smtp\" and \"ses\"\n  --> recado.toml:10:23  routes.email.providers[1]",
        "there is no provider `wbe`; write [providers.wbe], or did you mean `web`?\n  --> recado.toml:12:34  routes.a.providers[2]",
        "provider and providers stand side by side; write one of the two\n  --> recado.toml:15:13  routes.b.providers",
        "stands here for the second time; write each provider once\n  --> recado.toml:17:21  routes.c.providers[1]",
        "names no provider; write [\"first\", \"second\"], or take it out\n  --> recado.toml:19:13  routes.d.providers",
        "workers choose their provider themselves; write one provider\n  --> recado.toml:21:14  routes.tiss-claims.providers[0]",
        "provider `instagram` has no address; write url = \"https://…\" in [providers.instagram]\n  --> recado.toml:23:14  routes.instagram.providers[0]",
        "provider `evolution` has no address; write url = \"https://…\" in [providers.evolution]\n  --> recado.toml:25:21  routes.e.providers[1]",
    ] {
        assert!(said.contains(expected), "{expected}\nis missing from\n{said}");
    }
}

#[test]
fn bounds_that_would_let_nothing_through_are_pointed_at() {
    assert_faults(
        "[fairness]\nbatch = 0\n[providers.smtp]\nbreaker = { failures = 0, reset = \"0s\", opens = 3 }\nrate = { max = 0, per = \"1s\" }\n\
         tenant_rate = { max = 5 }\ntenant_concurrency = 0\n[providers.tiss]\nbreaker = \"off\"\n",
        "
error: write a whole number from 1 to 1000
 --> recado.toml:2:9  fairness.batch
  |
2 | batch = 0
  |         ^

error: write a whole number from 1 to 10000
 --> recado.toml:4:24  providers.smtp.breaker.failures
  |
4 | breaker = { failures = 0, reset = \"0s\", opens = 3 }
  |                        ^

error: `0s` is out of bounds; write \"1ms\" to \"1d\"
 --> recado.toml:4:35  providers.smtp.breaker.reset
  |
4 | breaker = { failures = 0, reset = \"0s\", opens = 3 }
  |                                   ^^^^

error: there is no key `opens` in [providers.smtp.breaker]; known keys: failures, within, reset, slow, ramp
 --> recado.toml:4:41  providers.smtp.breaker.opens
  |
4 | breaker = { failures = 0, reset = \"0s\", opens = 3 }
  |                                         ^^^^^

error: write a whole number from 1 to 10000000
 --> recado.toml:5:16  providers.smtp.rate.max
  |
5 | rate = { max = 0, per = \"1s\" }
  |                ^

error: does not say how many in what time; write { max = 100, per = \"60s\" }
 --> recado.toml:6:1  providers.smtp.tenant_rate
  |
6 | tenant_rate = { max = 5 }
  | ^^^^^^^^^^^

error: write a whole number from 1 to 100000
 --> recado.toml:7:22  providers.smtp.tenant_concurrency
  |
7 | tenant_concurrency = 0
  |                      ^

error: write true or false, without quotes
 --> recado.toml:9:11  providers.tiss.breaker
  |
9 | breaker = \"off\"
  |           ^^^^^
",
    );
}

#[test]
fn g24_a_routes_dead_letters_are_replayed_by_themselves_only_where_it_says_so() {
    use recado_core::Cause;
    use recado_engine::dlq::auto_replay::AutoReplay;

    let config = load(
        "[dlq]\nmax_size = 50\n[routes.sandbox]\nauto_replay = { after = \"1h\" }\n\
         [routes.tiss-claims]\nauto_replay = { after = \"5m\", max = 1, only = [\"EXPIRED\", \"EXHAUSTED\"] }\n",
    );
    let replays = |config: &Config| config.routes.iter().filter(|route| route.auto_replay.is_some()).count();
    let of = |route: &str| config.route(route).unwrap().auto_replay.clone().unwrap();
    assert_eq!((config.settings.dlq.max_size, replays(&config)), (50, 2));
    assert_eq!(of("sandbox"), AutoReplay { after: seconds(3_600), max: 3, only: vec![Cause::Exhausted] });
    let own = AutoReplay { after: seconds(300), max: 1, only: vec![Cause::Expired, Cause::Exhausted] };
    assert_eq!(of("tiss-claims"), own);
    let default = load("");
    assert_eq!(
        (default.settings.dlq.max_size, replays(&default)),
        (10_000, 0),
        "the required bound, and nothing by itself"
    );
}

#[test]
fn an_auto_replay_that_says_too_little_is_pointed_at() {
    assert_faults(
        "[routes.sandbox]\nauto_replay = { max = 3, only = [\"LOST\"] }\n",
        "
error: does not say how long an entry rests first; write { after = \"1h\" }
 --> recado.toml:2:1  routes.sandbox.auto_replay
  |
2 | auto_replay = { max = 3, only = [\"LOST\"] }
  | ^^^^^^^^^^^

error: there is no cause `LOST`; known ones: EXHAUSTED, PERMANENT, EXPIRED, INVALID_PAYLOAD, FALLBACK
 --> recado.toml:2:34  routes.sandbox.auto_replay.only[0]
  |
2 | auto_replay = { max = 3, only = [\"LOST\"] }
  |                                  ^^^^^^
",
    );
}
