//! SES as moto plays it: an independent far end.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use recado_core::{Blame, Class};
use recado_transport::Url;
use serde_json::{Value, json};

use super::given::{answer, fault, judged, plain, ses, with_file};

struct Moto {
    process: Child,
    url: Url,
}

impl Moto {
    /// Starts a server of its own for each test, on a port that it finds by itself.
    fn start() -> Moto {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let program = root.join("target/peers/venv/bin/moto_server");
        assert!(program.exists(), "moto is missing; run `cargo xtask setup`, which installs it");
        let mut process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains("Running on http://"));
        let line = line.expect("moto says where it listens");
        let url = line.split("Running on ").nth(1).expect("an address").trim().parse().expect("a URL");
        // It writes a line for each request, and stops if they are not read.
        std::thread::spawn(move || lines.for_each(drop));
        Moto { process, url }
    }

    async fn verify(&self, domain: &str) {
        let url = self.url.join("/v2/email/identities").expect("a URL");
        // moto reads the region out of the signature, and checks no more of it.
        let signature = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/sa-east-1/ses/aws4_request, \
                         SignedHeaders=host, Signature=0";
        let creating = reqwest::Client::new().post(url).header("authorization", signature);
        let answer = creating.json(&json!({ "EmailIdentity": domain })).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }

    /// All messages of a kind that moto holds.
    async fn messages(&self, kind: &str) -> Vec<Value> {
        let url = self.url.join("/moto-api/data.json").expect("a URL");
        let data = reqwest::get(url).await.expect("an answer").bytes().await.expect("a body");
        let data: Value = serde_json::from_slice(&data).expect("JSON");
        data["ses"][kind].as_array().expect("a list").clone()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn moto_takes_a_message_that_it_composes() {
    let moto = Moto::start();
    moto.verify("acme.example").await;
    let answer = answer(&ses(moto.url.clone()), &plain()).await.expect("a message id");
    let messages = moto.messages("Message").await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["id"], answer["messageId"]);
    assert_eq!(messages[0]["subject"], "Sua consulta é amanhã");
    assert_eq!(messages[0]["body"], "Olá, Ana! SECRET-text");
    assert_eq!(messages[0]["destinations"]["ToAddresses"][0], "Ana <ana@example.com>");
}

#[tokio::test]
async fn moto_takes_a_message_with_a_file_and_a_blind_copy() {
    let moto = Moto::start();
    moto.verify("acme.example").await;
    let answer = answer(&ses(moto.url.clone()), &with_file()).await.expect("a message id");
    let messages = moto.messages("RawMessage").await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["id"], answer["messageId"]);
    let recipients = messages[0]["destinations"].to_string();
    for address in ["ana@example.com", "caio@example.com", "bia@example.com"] {
        assert!(recipients.contains(address), "{recipients}");
    }
    let raw = messages[0]["raw_data"].as_str().expect("a message");
    assert!(raw.contains("Message-ID: <outbox=3A7f3a.1@acme.example>"), "{raw}");
    assert!(raw.contains("guia.bin") && raw.contains("AAECA/8="), "{raw}");
    assert!(!raw.contains("bia@example.com"), "{raw}");
}

#[tokio::test]
async fn g9_moto_rejects_an_unverified_sender() {
    let moto = Moto::start();
    let fault = fault(&ses(moto.url.clone()), &plain()).await;
    assert_eq!((fault.code.as_deref(), fault.status), (Some("MessageRejected"), Some(400)), "{fault:?}");
    assert_eq!(judged(&fault), (Class::Permanent, Blame::Message));
}
