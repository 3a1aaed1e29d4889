//! AWS's chain: what it finds, and what it means when it finds nothing.
//!
//! The chain reads the environment, which a test must not change for its neighbours. So each of these
//! starts this very binary again, in an environment of its own, to make [`deliveries_of_a_child`] there.

use std::path::Path;
use std::process::{Command, Output};

use recado_core::{Blame, Class, Fault, Outcome};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::raw;
use recado_transport_ses::{Ses, SesConfig};
use tempfile::TempDir;

use super::far_end::{no, yes};
use super::given::{job, judged, plain, send};

const ENDPOINT: &str = "CHAIN_ENDPOINT";
const PROFILE: &str = "CHAIN_PROFILE";
/// Names a file to write a region into after the first delivery, and asks for a second one.
const THEN_REGION: &str = "CHAIN_THEN_REGION";
const MARK: &str = "outcome: ";

/// Delivers with nothing but an endpoint, and tells how it went.
#[tokio::test]
#[ignore = "the other tests of this module start it, in an environment of its own"]
async fn deliveries_of_a_child() {
    let given = |name: &str| std::env::var(name).ok();
    let endpoint_url = given(ENDPOINT).map(|url| url.parse().expect("a URL"));
    assert!(endpoint_url.is_some(), "not started by a test of this module");
    let config = SesConfig { endpoint_url, profile: given(PROFILE), ..SesConfig::default() };
    let ses = Ses::new(config).expect("a Ses");
    println!("{MARK}{}", in_words(&send(&ses, &plain()).await));
    if let Some(file) = given(THEN_REGION) {
        std::fs::write(file, "[default]\nregion = us-east-2\n").expect("a file");
        println!("{MARK}{}", in_words(&super::given::deliver(&ses, &job(&plain())).await));
    }
}

fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted { .. } => "accepted".into(),
        Outcome::Failed(fault) => {
            format!("{}|{}", fault.code.as_deref().unwrap_or_default(), fault.text.escape_debug())
        }
        Outcome::Partial(_) => "partly".into(),
    }
}

struct Child {
    home: TempDir,
    command: Command,
}

impl Child {
    fn of(far_end: &FarEnd) -> Child {
        let home = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["--exact", "ses::chain::deliveries_of_a_child", "--ignored", "--nocapture"])
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            // No instance answers here, and waiting for one takes seconds.
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env(ENDPOINT, far_end.url());
        Child { home, command }
    }

    fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    fn file(self, name: &str, variable: &str, content: &str) -> Self {
        let path = self.home.path().join(name);
        std::fs::write(&path, content).expect("a file");
        self.env(variable, path)
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    async fn outcomes(mut self) -> Vec<String> {
        let running = tokio::task::spawn_blocking(move || self.command.output());
        let Output { stdout, stderr, status } = running.await.expect("a thread").expect("a process");
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{stdout}{stderr}");
        let told = stdout.lines().filter_map(|line| line.split_once(MARK));
        told.map(|(_, outcome)| outcome.to_owned()).collect()
    }

    /// The fault of the only delivery, as far as it was told.
    async fn fault(self) -> Fault {
        let outcomes = self.outcomes().await;
        let (code, text) = outcomes[0].split_once('|').unwrap_or_else(|| panic!("{outcomes:?}"));
        assert!(!text.contains("SECRET"), "{text}");
        Fault::answer(code, text)
    }
}

fn signer(far_end: &FarEnd) -> String {
    far_end.only("").header_values("authorization").expect("a signature")
}

#[tokio::test]
async fn credentials_and_region_come_from_the_environment() {
    let far_end = FarEnd::scripted([yes()]);
    let child = Child::of(&far_end)
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "AKIDENV")
        .env("AWS_SECRET_ACCESS_KEY", "SECRET");
    assert_eq!(child.outcomes().await, ["accepted"]);
    let signer = signer(&far_end);
    assert!(signer.contains("Credential=AKIDENV/") && signer.contains("/eu-west-1/ses/"), "{signer}");
}

#[tokio::test]
async fn a_profile_that_was_asked_for_comes_before_the_environment() {
    let far_end = FarEnd::scripted([yes()]);
    let keys = "aws_access_key_id = AKIDFILE\naws_secret_access_key = SECRET\n";
    let child = Child::of(&far_end)
        .env("AWS_ACCESS_KEY_ID", "AKIDENV")
        .env("AWS_SECRET_ACCESS_KEY", "SECRET")
        .file("config", "AWS_CONFIG_FILE", &format!("[profile mail]\nregion = us-west-2\n{keys}"))
        .env(PROFILE, "mail");
    assert_eq!(child.outcomes().await, ["accepted"]);
    let signer = signer(&far_end);
    assert!(signer.contains("Credential=AKIDFILE/") && signer.contains("/us-west-2/ses/"), "{signer}");
}

#[tokio::test]
async fn keys_that_the_chain_found_are_masked_where_an_error_repeats_them() {
    let far_end = FarEnd::scripted([no(403, "Denied", "AKIDENV, SECRET-key and SECRET-token are no use")]);
    let fault = Child::of(&far_end)
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "AKIDENV")
        .env("AWS_SECRET_ACCESS_KEY", "SECRET-key")
        .env("AWS_SESSION_TOKEN", "SECRET-token")
        .fault()
        .await;
    assert_eq!((fault.code.as_deref(), &*fault.text), (Some("Denied"), "***, *** and *** are no use"));
    assert!(signer(&far_end).contains("Credential=AKIDENV/"));
}

#[tokio::test]
async fn a_chain_that_finds_no_credentials_blames_the_credential() {
    let far_end = FarEnd::scripted([yes()]);
    let fault = Child::of(&far_end).env("AWS_REGION", "eu-west-1").fault().await;
    assert_eq!(fault.code.as_deref(), Some("CredentialsNotFound"), "{}", fault.text);
    assert_eq!(judged(&fault), (Class::Permanent, Blame::Credential));
    assert_eq!(far_end.connections(), 0);
}

#[tokio::test]
async fn a_profile_that_does_not_exist_blames_the_credential() {
    let far_end = FarEnd::scripted([yes()]);
    let fault = Child::of(&far_end).env("AWS_REGION", "eu-west-1").env(PROFILE, "nobodys").fault().await;
    assert_eq!(fault.code.as_deref(), Some("CredentialsNotFound"), "{}", fault.text);
    assert_eq!(far_end.connections(), 0);
}

#[tokio::test]
async fn credentials_that_cannot_be_loaded_now_are_worth_another_try() {
    let far_end = FarEnd::scripted([yes()]);
    let process = "credential_process = echo SECRET >&2; exit 7";
    let fault = Child::of(&far_end)
        .file("config", "AWS_CONFIG_FILE", &format!("[default]\nregion = eu-west-1\n{process}\n"))
        .fault()
        .await;
    assert_eq!(fault.code.as_deref(), Some("CredentialsUnavailable"), "{}", fault.text);
    assert!(fault.text.contains("exit status: 7"), "{}", fault.text);
    assert_eq!(judged(&fault), (Class::Transient, Blame::Credential));
    assert_eq!(far_end.connections(), 0);
}

#[tokio::test]
async fn a_missing_region_is_named_and_looked_for_again() {
    let far_end = FarEnd::scripted([yes()]);
    let child =
        Child::of(&far_end).env("AWS_ACCESS_KEY_ID", "AKIDENV").env("AWS_SECRET_ACCESS_KEY", "SECRET");
    let file = child.home().join("config");
    let child = child.env("AWS_CONFIG_FILE", &file).env(THEN_REGION, &file);
    let outcomes = child.outcomes().await;
    assert!(outcomes[0].starts_with("RegionNotFound|"), "{outcomes:?}");
    assert_eq!(outcomes[1], "accepted");
    assert!(signer(&far_end).contains("/us-east-2/ses/"));
}

/// Delivers with the keys of a service of the chain, which answers with these bodies.
async fn signed_by_keys_of(services: &FarEnd, variables: &[(&str, &str)]) {
    let far_end = FarEnd::scripted([yes()]);
    let mut child = Child::of(&far_end).env("AWS_REGION", "eu-west-1");
    for (name, value) in variables {
        child = child.env(name, value);
    }
    assert_eq!(child.outcomes().await, ["accepted"], "{:?}", services.ledger());
    let seen = far_end.only("");
    let signer = signer(&far_end);
    assert!(signer.contains("Credential=AKIDSERVICE/"), "{signer}");
    assert_eq!(seen.header("x-amz-security-token"), "SECRET-token");
}

fn keys_of_a_service() -> String {
    let keys = r#""AccessKeyId":"AKIDSERVICE","SecretAccessKey":"SECRET","Token":"SECRET-token""#;
    format!(r#"{{"Code":"Success",{keys},"Expiration":"2099-01-01T00:00:00Z"}}"#)
}

#[tokio::test]
async fn keys_of_the_container_sign() {
    let services = FarEnd::scripted([raw("200 OK", "", &keys_of_a_service())]);
    let address: String = services.url_of("/keys");
    signed_by_keys_of(&services, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*address)]).await;
    assert_eq!(services.only("").line, "GET /keys HTTP/1.1");
}

#[tokio::test]
async fn keys_of_the_instance_sign() {
    let services = FarEnd::scripted([
        raw("200 OK", "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n", "token-of-the-session"),
        raw("200 OK", "", "role"),
        raw("200 OK", "", &keys_of_a_service()),
    ]);
    let address = services.url().to_string();
    signed_by_keys_of(
        &services,
        &[("AWS_EC2_METADATA_DISABLED", "false"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*address)],
    )
    .await;
    assert_eq!(services.ledger()[2].header("x-aws-ec2-metadata-token"), "token-of-the-session");
}

#[tokio::test]
async fn keys_of_a_role_sign_that_a_web_identity_may_take() {
    let keys = "<AccessKeyId>AKIDSERVICE</AccessKeyId><SecretAccessKey>SECRET</SecretAccessKey>\
                <SessionToken>SECRET-token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>";
    let answer = format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><Credentials>{keys}</Credentials></AssumeRoleWithWebIdentityResult>\
         </AssumeRoleWithWebIdentityResponse>"
    );
    let services = FarEnd::scripted([raw("200 OK", "Content-Type: text/xml\r\n", &answer)]);
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "token-of-the-cluster").expect("a file");
    let (address, token) = (services.url().to_string(), token.path().to_str().expect("a path"));
    signed_by_keys_of(
        &services,
        &[
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/mail"),
            ("AWS_ENDPOINT_URL_STS", &*address),
        ],
    )
    .await;
    assert_eq!(services.only("").line, "POST / HTTP/1.1");
}
