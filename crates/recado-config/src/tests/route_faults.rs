//! Wrong routes, providers, policies and rules.

use super::*;

#[test]
fn a_route_of_ones_own_has_to_say_how_it_delivers() {
    assert_faults(
        "[routes.mine]\ntimeout = \"5s\"\n",
        "
error: the route does not say how it delivers; write provider = \"…\", transport = \"worker\" (your own code delivers) or transport = \"sandbox\" (nothing is sent)
 --> recado.toml:1:9  routes.mine
  |
1 | [routes.mine]
  |         ^^^^
",
    );
}

#[test]
fn a_provider_that_does_not_exist_is_pointed_at() {
    assert_faults(
        "[routes.mine]\nprovider = \"evolutoin\"\n",
        "
error: there is no provider `evolutoin`; write [providers.evolutoin], or did you mean `evolution`?
 --> recado.toml:2:12  routes.mine.provider
  |
2 | provider = \"evolutoin\"
  |            ^^^^^^^^^^^
",
    );
}

#[test]
fn the_sandbox_is_named_as_the_transport_that_it_is() {
    for route in ["email", "mine"] {
        let said = faults_of(&format!("[routes.{route}]\nprovider = \"sandbox\"\n"));
        let words = "the sandbox is a transport and no provider; write transport = \"sandbox\"";
        assert!(said.contains(words) && said.matches("error: ").count() == 1, "{said}");
    }
    load("[routes.sandbox]\nprovider = \"sandbox\"\n");
    load("[routes.email]\nprovider = \"sandbox\"\ntransport = \"sandbox\"\n");
}

#[test]
fn transports_and_classifiers_are_checked_by_name() {
    assert_faults(
        "[routes.email]\ntransport = \"sandobx\"\nclassifier = \"smpt\"\n",
        "
error: there is no transport `sandobx`; did you mean `sandbox`?
 --> recado.toml:2:13  routes.email.transport
  |
2 | transport = \"sandobx\"
  |             ^^^^^^^^^

error: there is no classifier `smpt`; did you mean `smtp`?
 --> recado.toml:3:14  routes.email.classifier
  |
3 | classifier = \"smpt\"
  |              ^^^^^^
",
    );
}

#[test]
#[cfg(not(feature = "ses"))]
fn a_transport_that_is_not_in_this_build_is_refused_with_what_works() {
    assert_faults(
        "[providers.mail]\ntransport = \"ses\"\nregion = \"x\"\n",
        "
error: transport \"ses\" is not in this build; give the route transport = \"worker\" (your own code delivers) or \"sandbox\" (nothing is sent)
 --> recado.toml:2:13  providers.mail.transport
  |
2 | transport = \"ses\"
  |             ^^^^^
",
    );
}

#[test]
fn a_relay_that_cannot_work_is_refused_and_its_password_not_repeated() {
    let text = "[providers.smtp]\nurl = \"smtp://ana:secret-word@mail.example.com?tls=none\"\n\
                [providers.other]\ntransport = \"smtp\"\nurl = \"smtp://mail.example.com\"\nconnections = 0\nregion = \"x\"\n";
    let faults = Config::load(&inputs(text, &[])).unwrap_err().to_string();
    assert!(faults.contains("recado.toml:2:7  providers.smtp.url"), "{faults}");
    assert!(faults.contains("write a whole number from 1 to 1000"), "{faults}");
    assert!(faults.contains("only transport \"ses\" has this; take it out"), "{faults}");
    assert!(!faults.contains("secret-word"), "{faults}");
}

#[test]
fn half_of_a_key_is_no_key() {
    let faults =
        Config::load(&inputs("[providers.ses]\nregion = \"sa-east-1\"\naccess_key_id = \"AKIA\"\n", &[]));
    let faults = faults.unwrap_err().to_string();
    assert!(faults.contains("access_key_id and secret_access_key go together"), "{faults}");
}

#[test]
fn channels_and_fallbacks_are_checked_against_each_other() {
    assert_faults(
        "[notify.ops]\nwebhook = \"http://127.0.0.1/x\"\nsecret = \"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"\n[dlq]\nnotify = \"opps\"\n[routes.sandbox]\nfallback = { do = \"reschedule\", notify = \"nobody\" }\n[webhooks]\nallow = [\"10.0.0\"]\n[providers.webhook]\nsecret = \"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"\n",
        "
error: does not lead to a public address; write one that does, or have the operator add its range to `webhooks.allow`
 --> recado.toml:2:11  notify.ops.webhook
  |
2 | webhook = \"******************\"
  |           ^^^^^^^^^^^^^^^^^^^^

error: there is no channel `opps`; write [notify.opps]; did you mean `ops`?
 --> recado.toml:5:10  dlq.notify
  |
5 | notify = \"opps\"
  |          ^^^^^^

error: does not say when; write after = \"15m\" beside it
 --> recado.toml:7:19  routes.sandbox.fallback.do
  |
7 | fallback = { do = \"reschedule\", notify = \"nobody\" }
  |                   ^^^^^^^^^^^^

error: there is no channel `nobody`; write [notify.nobody]; known ones: ops
 --> recado.toml:7:42  routes.sandbox.fallback.notify
  |
7 | fallback = { do = \"reschedule\", notify = \"nobody\" }
  |                                          ^^^^^^^^

error: is not a range of addresses; write one such as \"10.0.0.0/8\" or \"127.0.0.1\"
 --> recado.toml:9:10  webhooks.allow[0]
  |
9 | allow = [\"10.0.0\"]
  |          ^^^^^^^^
",
    );
}

#[test]
fn a_route_by_http_needs_an_address() {
    assert_faults(
        "[routes.mine]\ntransport = \"http\"\n[providers.idle]\nconcurrency = 3\n[routes.other]\nprovider = \"idle\"\n",
        "
error: the route has no address to send to; write [providers.mine] with url = \"https://…\"
 --> recado.toml:2:13  routes.mine.transport
  |
2 | transport = \"http\"
  |             ^^^^^^

error: provider `idle` has no address; write url = \"https://…\" in [providers.idle]
 --> recado.toml:6:12  routes.other.provider
  |
6 | provider = \"idle\"
  |            ^^^^^^
",
    );
}

#[test]
fn addresses_that_cannot_work_are_refused_where_they_stand() {
    assert_faults(
        "[providers.a]\nurl = \"not an address\"\n[providers.b]\nurl = \"ftp://b.example.com\"\n[providers.c]\nurl = \"https://c.example.com?x=1\"\n",
        "
error: this is not a web address; write one that begins with https:// or http://
 --> recado.toml:2:7  providers.a.url
  |
2 | url = \"not an address\"
  |       ^^^^^^^^^^^^^^^^

error: the URL's scheme is `ftp`; write http:// or https://
 --> recado.toml:4:7  providers.b.url
  |
4 | url = \"ftp://b.example.com\"
  |       ^^^^^^^^^^^^^^^^^^^^^

error: the URL has a query or a fragment; write it without, jobs bring their own query
 --> recado.toml:6:7  providers.c.url
  |
6 | url = \"*************************\"
  |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^
",
    );
}

#[test]
fn a_provider_says_what_its_transport_needs() {
    assert_faults(
        "[providers.evolution]\nurl = \"https://evo.example.com\"\n[providers.x]\nurl = \"https://x.example.com\"\ninstance = \"main\"\n[providers.y]\nheaders = { A = \"b\" }\n",
        "
error: the Evolution API wants a key; write api_key = \"${EVOLUTION_API_KEY}\"
 --> recado.toml:1:12  providers.evolution
  |
1 | [providers.evolution]
  |            ^^^^^^^^^

error: only transport \"whatsapp\" has this; write credentials as headers, such as headers = { Authorization = \"Bearer ${API_TOKEN}\" }
 --> recado.toml:5:12  providers.x.instance
  |
5 | instance = \"main\"
  |            ^^^^^^

error: the provider has no address; write url = \"https://…\"
 --> recado.toml:6:12  providers.y
  |
6 | [providers.y]
  |            ^
",
    );
}

#[test]
fn f14_a_policy_that_never_ends_or_never_backs_off_is_refused() {
    assert_faults(
        "[routes.email]\npolicy = { base = \"0s\", factor = 0.5, max_attempts = 1000000 }\n[routes.whatsapp]\npolicy = { schedule = [\"0s\", \"0s\"] }\n",
        "
error: base is zero, so retries would not back off; write at least \"1ms\"
 --> recado.toml:2:1  routes.email.policy
  |
2 | policy = { base = \"0s\", factor = 0.5, max_attempts = 1000000 }
  | ^^^^^^

error: factor is 0.5; write 1 to 100
 --> recado.toml:2:1  routes.email.policy
  |
2 | policy = { base = \"0s\", factor = 0.5, max_attempts = 1000000 }
  | ^^^^^^

error: write a whole number from 1 to 100
 --> recado.toml:2:54  routes.email.policy.max_attempts
  |
2 | policy = { base = \"0s\", factor = 0.5, max_attempts = 1000000 }
  |                                                      ^^^^^^^

error: schedule retries at once; only the first wait may be zero
 --> recado.toml:4:1  routes.whatsapp.policy
  |
4 | policy = { schedule = [\"0s\", \"0s\"] }
  | ^^^^^^
",
    );
}

#[test]
fn a_schedule_and_a_curve_exclude_each_other() {
    assert_faults(
        "[routes.email]\npolicy = { schedule = [\"0s\", \"5s\"], cap = \"9s\" }\n[routes.whatsapp]\npolicy = { cap_applies = \"after_jitter\" }\n",
        "
error: a schedule cannot be combined with base, factor or cap; write the waits one by one, or the curve, not both
 --> recado.toml:2:23  routes.email.policy.schedule
  |
2 | policy = { schedule = [\"0s\", \"5s\"], cap = \"9s\" }
  |                       ^^^^^^^^^^^^

error: a schedule has no cap; take this out, or write the curve with base, factor and cap
 --> recado.toml:4:26  routes.whatsapp.policy.cap_applies
  |
4 | policy = { cap_applies = \"after_jitter\" }
  |                          ^^^^^^^^^^^^^^
",
    );
}

#[test]
fn rules_have_to_look_for_something_and_to_mean_something() {
    assert_faults(
        "[[routes.email.classify]]\ncode = 550\nas = \"transientt\"\n[[routes.email.classify]]\nas = \"permanent\"\n\
         [[routes.email.classify]]\nstatus = [\"6xx\", 500]\n[[routes.email.classify]]\nregex = \"(\"\nas = \"unknown\"\n",
        "
error: there is no class `transientt`; did you mean `transient`?
 --> recado.toml:3:6  routes.email.classify[0].as
  |
3 | as = \"transientt\"
  |      ^^^^^^^^^^^^

error: the rule would match every failure; give it a code, name, enhanced, status, text, regex or network
 --> recado.toml:4:1  routes.email.classify[1]
  |
4 | [[routes.email.classify]]
  | ^^^^^^^^^^^^^^^^^^^^^^^^^

error: the rule does not say what it means; write as = \"transient\", \"permanent\", \"rate_limit\" or \"unknown\"
 --> recado.toml:6:1  routes.email.classify[2]
  |
6 | [[routes.email.classify]]
  | ^^^^^^^^^^^^^^^^^^^^^^^^^

error: this is not an HTTP status; write 100 to 599, \"50x\" or \"5xx\"
 --> recado.toml:7:11  routes.email.classify[2].status[0]
  |
7 | status = [\"6xx\", 500]
  |           ^^^^^

error: this is not a regular expression: unclosed group
 --> recado.toml:9:9  routes.email.classify[3].regex
  |
9 | regex = \"(\"
  |         ^^^
",
    );
}

#[test]
fn a_rule_is_checked_part_by_part() {
    let faults = faults_of(
        "[routes.email]\nclassify = [\n  { code = \"1\", name = \"a\", as = \"unknown\" },\n  { text = \" \", as = \"unknown\" },\n  \
         { enhanced = \"4.x\", as = \"unknown\" },\n  { network = \"slow\", as = \"unknown\" },\n  { text = \"x\", as = \"unknown\", blame = \"me\" },\n]\n",
    );
    for expected in [
        "`name` is another word for `code`; give one of the two",
        "this is empty and would match every failure",
        "this is not an enhanced code; write three parts",
        "there is no network failure `slow`; known ones: any, dns, connect, tls, timeout, dropped, protocol",
        "there is no blame `me`",
    ] {
        assert!(faults.contains(expected), "{expected:?} is missing from\n{faults}");
    }
}

#[test]
fn production_refuses_a_route_that_would_send_nothing() {
    let text = "[routes.email]\ntransport = \"sandbox\"\n";
    let mut inputs = inputs(text, &[]);
    assert!(Config::load(&inputs).is_ok());
    inputs.flags.environment = Some(Environment::Production);
    let said = Config::load(&inputs).unwrap_err().to_string();
    assert!(said.contains("the sandbox is off in production, and this route would send nothing"), "{said}");
    assert!(said.contains("--> recado.toml:2:13  routes.email.transport"), "{said}");
}

#[test]
fn names_that_no_url_could_hold_are_refused() {
    let said = faults_of("[routes.\"a b\"]\ntransport = \"worker\"\n");
    assert!(said.contains("the name holds ` `; use only letters, digits and . _ : -"), "{said}");
}

#[test]
fn a_name_that_is_nearly_a_built_in_one_is_taken_for_a_slip() {
    assert_faults(
        "[routes.emial]\ntimeout = \"5s\"\n[providers.instgram]\nurl = \"https://graph.example.com\"\n",
        "
error: the route does not say how it delivers; write provider = \"…\", transport = \"worker\" (your own code delivers) or transport = \"sandbox\" (nothing is sent); or did you mean [routes.email]?
 --> recado.toml:1:9  routes.emial
  |
1 | [routes.emial]
  |         ^^^^^

error: no route uses provider `instgram`; did you mean [providers.instagram]?
 --> recado.toml:3:12  providers.instgram
  |
3 | [providers.instgram]
  |            ^^^^^^^^
",
    );
    assert!(try_load("[providers.spare]\nurl = \"https://spare.example.com\"\n").is_ok());
}

#[test]
fn f14_each_anti_pattern_is_refused() {
    let patterns = [
        (
            "retries without end",
            "[routes.email]\npolicy = { max_attempts = 0 }\n",
            "write a whole number from 1 to 100",
        ),
        (
            "retries without back-off",
            "[routes.email]\npolicy = { base = \"0s\" }\n",
            "retries would not back off",
        ),
        (
            "retries of permanent errors",
            "[routes.email]\npolicy = { retry_permanent = true }\n",
            "there is no key `retry_permanent`",
        ),
        ("a breaker for everything", "[breaker]\nfailures = 5\n", "there is no key `breaker`"),
        ("a breaker for all providers", "[providers.breaker]\nfailures = 5\n", "there is no key `failures`"),
        ("a breaker of a route", "[routes.email]\nbreaker = true\n", "there is no key `breaker`"),
        ("silent failures", "[log]\nlevel = \"off\"\n", "there is no level `off`"),
        (
            "a fallback that hides failures",
            "[routes.email]\nfallback = { do = \"ignore\" }\n",
            "no fallback `ignore`",
        ),
        ("a fallback on no occasion", "[routes.email]\nfallback = { on = [] }\n", "names no occasion"),
        ("no dead letter queue", "[dlq]\nenabled = false\n", "there is no key `enabled`"),
        ("dead letters that cannot be replayed", "[dlq]\nttl = \"0s\"\n", "`0s` is out of bounds"),
        (
            "deafness to Retry-After",
            "[routes.email]\npolicy = { ignore_retry_after = true }\n",
            "there is no key `ignore_retry_after`",
        ),
    ];
    for (pattern, file, refusal) in patterns {
        let said = faults_of(file);
        assert!(said.contains(refusal), "{pattern}: {said}");
        assert!(said.contains(" --> recado.toml:"), "{pattern}: {said}");
    }
}
