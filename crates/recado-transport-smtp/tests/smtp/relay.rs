//! The transport against a real mail server: OpenSMTPD, Debian package `opensmtpd`.
//!
//! It runs in the foreground with a configuration of its own, and hands each message to a command that
//! writes it into a temporary directory. It wants to be started by root, and only once on a machine.
//!
//! Absent on purpose: TLS, which the package in Debian 12 cannot do (its key is kept in another process, in a
//! way that OpenSSL 3 no longer allows).

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mail_parser::{MessageParser, MimeHeaders};
use recado_email::{Email, message_id};
use recado_transport_smtp::{Security, Smtp, SmtpConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, Command};

use super::given::{ANA, BOB, EVA, NOW, PATIENCE, accepted, job, partly, refusals, send, send_job, smtp};

struct Relay {
    port: u16,
    directory: TempDir,
    server: Child,
    log: Lines<BufReader<ChildStderr>>,
    _only_one: File,
}

impl Relay {
    async fn start() -> Relay {
        let only_one = tokio::task::spawn_blocking(|| {
            let file =
                File::create(std::env::temp_dir().join("recado-test-opensmtpd.lock")).expect("a lock file");
            file.lock().expect("the lock");
            file
        });
        let only_one = only_one.await.expect("the lock");
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("permissions");
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            listener.local_addr().expect("an address").port()
        };
        let path = |name: &str| directory.path().join(name);
        fs::write(path("smtpd.conf"), configuration(directory.path(), port)).expect("a configuration");
        fs::set_permissions(path("smtpd.conf"), Permissions::from_mode(0o600)).expect("permissions");
        let mut server = Command::new("smtpd")
            .args(["-d", "-f"])
            .arg(path("smtpd.conf"))
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("OpenSMTPD is missing: apt-get install opensmtpd");
        let log = BufReader::new(server.stderr.take().expect("a log")).lines();
        let mut relay = Relay { port, directory, server, log, _only_one: only_one };
        relay.is_up().await;
        relay
    }

    async fn is_up(&mut self) {
        let answering = async {
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                if let Some(status) = self.server.try_wait().expect("a process") {
                    let mut said = Vec::new();
                    while let Ok(Some(line)) = self.log.next_line().await {
                        said.push(line);
                    }
                    panic!("OpenSMTPD (it has to be started by root) ended with {status}: {said:?}");
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, answering).await.expect("OpenSMTPD does not listen");
    }

    fn smtp(&self) -> Smtp {
        let mut config = SmtpConfig::new("127.0.0.1", Security::None);
        config.port = self.port;
        smtp(config)
    }

    /// Waits for so many deliveries, and brings back the file for each of these recipients.
    async fn delivered(&mut self, recipients: &[&str]) -> Vec<String> {
        let counting = async {
            let mut left = recipients.len();
            while left > 0 {
                let line = self.log.next_line().await.expect("a log").expect("OpenSMTPD ended");
                left -= usize::from(line.contains("stat=Delivered"));
            }
        };
        tokio::time::timeout(PATIENCE, counting).await.expect("nothing arrived");
        let file = |recipient: &&str| self.directory.path().join(recipient);
        let read = |path: PathBuf| fs::read_to_string(path).expect("a delivered message");
        recipients.iter().map(file).map(read).collect()
    }
}

fn configuration(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        r#"listen on 127.0.0.1 port {port} hostname localhost
action store mda "cat > {directory}/%{{rcpt}}" virtual {{ "{ANA}" = nobody, "{BOB}" = nobody }}
match from any for domain "example.com" action store
"#
    )
}

fn mail(attachment: &[u8]) -> Value {
    json!({
        "from": "Clínica São José <acme@acme.example>", "to": [format!("Ana Conceição <{ANA}>"), EVA], "bcc": [BOB],
        "subject": "Sua guia nº 7 — autorização 🎉",
        "text": "Olá, Ana!\n.\n..\nAté já.", "html": "<p>Olá, <b>Ana</b>!</p>",
        "headers": { "X-Campaign": "março" },
        "attachments": [{
            "filename": "relatório médico.pdf", "contentType": "application/pdf",
            "contentBase64": BASE64_STANDARD.encode(attachment),
        }],
    })
}

#[tokio::test]
async fn a_real_server_delivers_every_byte_to_every_recipient_it_takes() {
    let mut relay = Relay::start().await;
    let attachment: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let job = job(&mail(&attachment));

    let smtp = relay.smtp();
    let partly = partly(send_job(&smtp, &job).await);
    assert_eq!(partly.accepted, [ANA, BOB].map(Box::from));
    let [(EVA, code)] = refusals(&partly)[..] else { panic!("{partly:?}, where one refusal was due") };
    assert!(code.starts_with('5'), "{code}");
    let email = Email::read(&job.data).expect("an e-mail");
    let sent = email.message(&message_id(&job.id, "acme.example"), NOW);
    let sent = String::from_utf8(sent).expect("ASCII").replace("\r\n", "\n");
    for delivered in relay.delivered(&[ANA, BOB]).await {
        assert!(delivered.ends_with(&sent), "the message was changed on the way");
        let read = MessageParser::default().parse(delivered.as_bytes()).expect("a message");
        assert_eq!(read.subject(), Some("Sua guia nº 7 — autorização 🎉"));
        assert_eq!(read.body_text(0).as_deref(), Some("Olá, Ana!\n.\n..\nAté já."));
        let file = read.attachment(0).expect("an attachment");
        assert_eq!(file.attachment_name(), Some("relatório médico.pdf"));
        assert!(file.contents() == attachment, "the attachment was changed on the way");
    }

    // A second message over the same connection.
    let again = json!({ "from": "acme@acme.example", "to": [ANA], "subject": "Oi", "text": "outra vez" });
    assert_eq!(accepted(send(&smtp, &again).await)["recipients"], 1);
    assert!(relay.delivered(&[ANA]).await[0].ends_with("\n\noutra vez\n"));
}
