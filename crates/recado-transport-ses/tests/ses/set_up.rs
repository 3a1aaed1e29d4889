//! Configurations that cannot work, data that SES would not take, and what must not be seen.

use recado_core::{CompanyId, FaultKind, Payload};
use recado_testkit::far_end::FarEnd;
use recado_transport::Transport;
use recado_transport_ses::{ConfigError, Content, Ses, SesConfig, SesCredentials};
use serde_json::{Value, json};

use super::given::{config, fault, plain, with_file};

fn account() -> SesConfig {
    config("https://ses.example".parse().expect("a URL"))
}

fn refused(change: impl FnOnce(&mut SesConfig)) -> ConfigError {
    let mut config = account();
    change(&mut config);
    let error = Ses::new(config).expect_err("a configuration that cannot work");
    assert!(error.to_string().contains("; "), "no advice in {error}");
    assert!(!format!("{error} {error:?}").contains("SECRET"), "{error:?}");
    error
}

fn faults(content: Content, data: &Value) -> Vec<String> {
    let ses = Ses::new(SesConfig { content, ..account() }).expect("a Ses");
    let data = Payload::new(&data.to_string()).expect("JSON");
    let faults = ses.check(&data).err().unwrap_or_default();
    assert!(faults.iter().all(|fault| fault.message.contains("; ")), "no advice in {faults:?}");
    faults.into_iter().map(|fault| fault.pointer).collect()
}

#[test]
fn construction_opens_no_connection() {
    // Without a runtime, a connection attempt would panic.
    assert_eq!(Ses::new(SesConfig::default()).unwrap().kind().as_str(), "ses");
    assert_eq!(Ses::new(account()).unwrap().kind().as_str(), "ses");
}

#[test]
fn an_endpoint_is_a_web_address_without_secrets() {
    let with = |url: &str| refused(|config| config.endpoint_url = Some(url.parse().unwrap()));
    assert!(matches!(with("ftp://ses.example"), ConfigError::Scheme(_)));
    assert!(matches!(with("https://user:SECRET@ses.example"), ConfigError::UserInfo));
    assert!(matches!(with("https://ses.example?key=SECRET"), ConfigError::QueryOrFragment));
}

#[test]
fn keys_are_whole_and_from_one_place_and_a_region_is_a_name() {
    let with = |id: &str, key: &str, token: Option<&str>| {
        refused(|config| {
            config.credentials = Some(SesCredentials {
                access_key_id: id.into(),
                secret_access_key: key.into(),
                session_token: token.map(Into::into),
            });
        })
    };
    assert!(matches!(with("", "SECRET", None), ConfigError::Credentials("access key id")));
    assert!(matches!(with("AKID", "SECRET\n", None), ConfigError::Credentials("secret access key")));
    assert!(matches!(with("AKID", "SECRET", Some("")), ConfigError::Credentials("session token")));
    let two = refused(|config| config.profile = Some("work".into()));
    assert!(matches!(two, ConfigError::TwoCredentials));
    for region in ["", " ", "sa-east-1/..", "são paulo"] {
        assert!(matches!(refused(|config| config.region = Some(region.into())), ConfigError::Region));
    }
}

#[test]
fn tags_and_configuration_sets_are_what_ses_takes() {
    for (name, value) in [("", "x"), ("a b", "x"), ("a", ""), ("a", "é"), ("companyId", "x"), ("jobId", "x")]
    {
        let error = refused(|config| drop(config.tags.insert(name.into(), value.into())));
        assert!(matches!(error, ConfigError::Tag { .. }), "{name}={value}");
    }
    let long = "x".repeat(65);
    for set in ["", "a b", "a.b", &long] {
        let error = refused(|config| config.configuration_set = Some(set.into()));
        assert!(matches!(error, ConfigError::ConfigurationSet(_)), "{set}");
        let company = CompanyId::new("acme").unwrap();
        let error = refused(|config| drop(config.configuration_sets.insert(company, set.into())));
        assert!(matches!(error, ConfigError::ConfigurationSet(_)), "{set}");
    }
}

#[test]
fn what_ses_would_not_take_is_refused_at_the_door() {
    let none: [String; 0] = [];
    assert_eq!(faults(Content::Auto, &with_file()), none);
    assert_eq!(faults(Content::Simple, &plain()), none);
    assert_eq!(faults(Content::Simple, &with_file()), [""]);
    assert!(faults(Content::Auto, &json!({})).contains(&"/from".to_owned()));

    let crowd = |count: usize| {
        let mut data = plain();
        data["to"] = (0..count).map(|n| format!("a{n}@example.com")).collect();
        data
    };
    assert_eq!(faults(Content::Auto, &crowd(50)), none);
    assert_eq!(faults(Content::Auto, &crowd(51)), ["/to"]);

    let mut headed = plain();
    headed["headers"] = json!({ "x-recado-job": "mine" });
    assert_eq!(faults(Content::Auto, &headed), ["/headers/x-recado-job"]);
}

#[tokio::test]
async fn data_that_turns_out_unusable_is_never_sent() {
    let far_end = FarEnd::scripted([]);
    let ses = super::given::ses(far_end.url_of(""));
    let fault = fault(&ses, &json!({ "to": "SECRET" })).await;
    assert_eq!(fault.kind, FaultKind::InvalidPayload);
    assert!(fault.text.contains("data/from"), "{}", fault.text);
    assert_eq!(far_end.connections(), 0);
}

#[test]
fn no_key_is_ever_shown() {
    let config = account();
    let shown = format!("{config:?} {:?} {:?}", config.credentials, Ses::new(config.clone()).unwrap());
    assert!(!shown.contains("SECRET") && !shown.contains("AKID"), "{shown}");
    assert!(shown.contains("sa-east-1") && shown.contains("ses.example"), "{shown}");
}
