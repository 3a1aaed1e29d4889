//! A server with sandbox routes, a browser at its dashboard, and jobs that end up where a test wants them.

use std::ops::Deref;

use serde_json::{Value, json};

use super::driver::{Browser, Look};
use super::given::{Place, Server, eventually};

/// Fast, and with a breaker where a test needs one.
const CONFIG: &str = r#"
[routes.sandbox]
policy = { base = "20ms" }
[routes.email]
transport = "sandbox"
[routes.instagram]
transport = "sandbox"
"#;

pub struct Scene {
    pub browser: Browser,
    server: Server,
}

impl Deref for Scene {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    pub fn new() -> Self {
        Scene::looking(Look::default(), |_| {})
    }

    /// With something in the store before the browser opens.
    pub fn looking(look: Look, prepare: impl FnOnce(&Server)) -> Self {
        Scene::configured("", look, prepare)
    }

    /// The same, with more in recado.toml.
    pub fn configured(more: &str, look: Look, prepare: impl FnOnce(&Server)) -> Self {
        let place = Place::with(&format!("{CONFIG}{more}"));
        let server = place.serve();
        prepare(&server);
        let browser = Browser::at(&server.url(), look);
        Scene { browser, server }
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Value {
        post(&self.server, path, body)
    }

    /// Sets the operator's name once, so that acts do not ask.
    pub fn as_operator(&self, name: &str) {
        self.browser.run("localStorage.setItem('recado.actor', arguments[0])", json!([name]));
    }
}

#[track_caller]
pub fn post(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.ask("POST", path, body);
    assert!((200..300).contains(&status), "{path}: {status} {answer}");
    answer
}

/// A job that the provider refuses for good, once it is a dead letter.
#[track_caller]
pub fn bury(server: &Server, company: &str, id: &str, data: &Value) {
    server.enqueue(json!({ "jobId": id, "route": "sandbox", "companyId": company, "data": data }));
    server.job_once(id, "failed");
}

/// The usual data of a dead letter: refused with this answer.
pub fn refused_with(answer: &str) -> Value {
    json!({ "to": "ana@example.com", "script": [answer] })
}

/// A bit of everything: sent, retried, buried, scheduled, parked; companies, an endpoint, a stack trace.
pub fn a_bit_of_everything(server: &Server) {
    let mut jobs = Vec::new();
    for at in 0..60 {
        let company = ["acme", "clinica-norte", "lojas-sul"][at % 3];
        let script = if at % 5 == 0 { json!(["421 try later", "ok"]) } else { json!(["ok"]) };
        let data = json!({ "script": script });
        jobs.push(
            json!({ "jobId": format!("ok-{at}"), "route": "sandbox", "companyId": company, "data": data }),
        );
    }
    for at in 0..12 {
        let data = refused_with("550 5.1.1 mailbox not found");
        let id = format!("invoice-{}", 1042 + at);
        jobs.push(json!({
            "jobId": id, "route": "email", "companyId": "acme", "userId": "ana",
            "correlationId": format!("order-{}", 1042 + at), "data": data,
        }));
    }
    for at in 0..3 {
        let data = refused_with("503 upstream is down");
        jobs.push(json!({ "jobId": format!("post-{at}"), "route": "sandbox", "companyId": "lojas-sul", "data": data }));
    }
    for at in 0..9 {
        let data = refused_with("503 overloaded");
        jobs.push(json!({ "jobId": format!("photo-{at}"), "route": "instagram", "companyId": "lojas-sul", "data": data }));
    }
    let later = json!({ "script": ["ok"] });
    jobs.push(json!({ "jobId": "reminder-1", "route": "sandbox", "companyId": "clinica-norte", "delayMs": 3_600_000, "data": later }));
    post(server, "/v1/jobs/batch", &json!(jobs));
    let endpoint = json!({ "companyId": "clinica-norte", "url": "https://crm.example.com/recado", "events": ["JobExpired"] });
    post(server, "/v1/endpoints", &endpoint);
    eventually(|| {
        let counts = &server.get("/readyz")["counts"];
        let open = server.get("/v1/providers/instagram")["state"] == "OPEN";
        open && counts["deadLetters"] == 15 && counts["ended"] == 60
    });
}
