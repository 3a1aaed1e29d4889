//! Every alert from end to end: it rings above its threshold, once, in the list, in the log and at every ear there
//! is; says when it is over; and is quiet at its threshold and on too little.
//!
//! Thresholds and volumes are those that Recado comes with, unless a test says why not; only patience is shortened.
//! Where a figure belongs to a route, three routes are measured at the same moments: `quiet` is exactly at the
//! threshold, `few` far above it on one event less than it takes, and both are counted before `loud` rings.

mod ears;
mod jumps;
mod queues;
mod room;
mod shares;
mod trail;
mod waits;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::ears::Ears;
use super::given::eventually;
use super::observing::{fetch, samples};
use super::scene::Scene;

/// Rings at the first look, and is over at the first that is calm.
const HASTY: &str = "pending = \"0s\", clear = \"0s\"";

/// For what only time ends: the shortest window that a rule may have.
const SHORT: &str = "window = \"20s\", pending = \"0s\", clear = \"0s\"";

/// Routes that open no connection, each with a provider of its own.
fn routes(names: &[&str], terms: &str) -> String {
    let route = |name: &&str| {
        format!(
            "[routes.{name}]\ntransport = \"sandbox\"\nprovider = \"{name}\"\n{terms}\n[providers.{name}]\n"
        )
    };
    names.iter().map(route).collect()
}

/// A server, and those who hear of its alerts.
struct Story {
    scene: Scene,
    ears: Ears,
}

impl Story {
    fn with(rules: &str, routes: &str) -> Self {
        let ears = Ears::start();
        let scene = Scene::with(&(routes.to_owned() + &ears.config(rules)));
        Story { scene, ears }
    }

    /// Takes in jobs with these scripts, of a company that is called like its route.
    #[track_caller]
    fn send(&self, route: &str, count: usize, script: &[&str]) {
        self.send_data(route, route, count, &json!({ "script": script }));
    }

    #[track_caller]
    fn send_data(&self, route: &str, company: &str, count: usize, data: &Value) {
        let job = json!({ "route": route, "companyId": company, "data": data });
        let (status, answer) = self.scene.ask("POST", "/v1/jobs/batch", &Value::Array(vec![job; count]));
        assert_eq!((status, &answer["accepted"]), (200, &json!(count)), "{answer}");
    }

    /// Waits until a figure is counted.
    #[track_caller]
    fn counted(&self, sample: &str, expected: usize) {
        let value = || samples(&fetch(self.scene.address, "/metrics")).get(sample).copied();
        eventually(|| value() == Some(expected as f64));
    }

    fn rings(&self, alert: &str, subject: Option<&str>) -> Option<Value> {
        let list = self.scene.get("/v1/alerts");
        let mut items = list["items"].as_array().expect("items").iter();
        items.find(|item| item["name"] == alert && item["subject"].as_str() == subject).cloned()
    }

    /// It rings: in the list, on the command line, in the log, and at every ear.
    #[track_caller]
    fn fired(&self, alert: &str, about: Option<(&str, &str)>) -> Value {
        self.ears.hear("AlertFired", alert, about);
        let subject = about.map(|(_, name)| name);
        let item = self.rings(alert, subject).unwrap_or_else(|| panic!("{alert} is not in the list"));
        assert!(item["value"].as_f64() > item["threshold"].as_f64(), "{item}");
        let table = self.scene.recado(&["alerts"]).done();
        let row = |line: &&str| line.starts_with(alert) && line.contains(subject.unwrap_or("all"));
        assert!(table.lines().any(|line| row(&line)), "{alert} is not in the table:\n{table}");
        self.logged("AlertFired", alert, subject);
        item
    }

    /// Asserts that the alert is resolved everywhere.
    #[track_caller]
    fn resolved(&self, alert: &str, about: Option<(&str, &str)>) {
        self.ears.hear("AlertResolved", alert, about);
        let subject = about.map(|(_, name)| name);
        assert_eq!(self.rings(alert, subject), None);
        self.logged("AlertResolved", alert, subject);
    }

    #[track_caller]
    fn logged(&self, event: &str, alert: &str, subject: Option<&str>) {
        let fits = |line: &Value| {
            line["event"] == event && line["alert"] == alert && line["subject"].as_str() == subject
        };
        eventually(|| self.scene.log().iter().any(fits));
    }

    /// Of all that was told, each ear heard exactly this, each once: nothing rang that has not been mentioned.
    #[track_caller]
    fn ends(self, alerts: &[(&str, Option<(&str, &str)>)]) {
        self.ears.heard_only(alerts);
    }
}

#[test]
fn e10_every_alert_there_is_has_its_story() {
    let stories = [
        include_str!("alerts/jumps.rs"),
        include_str!("alerts/queues.rs"),
        include_str!("alerts/room.rs"),
        include_str!("alerts/shares.rs"),
        include_str!("alerts/trail.rs"),
        include_str!("alerts/waits.rs"),
    ];
    let scene = Scene::with("");
    let list = scene.get("/v1/alerts");
    let rules = list["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), 18);
    for rule in rules {
        let quoted = rule["name"].to_string();
        assert!(stories.iter().any(|story| story.contains(&quoted)), "{quoted} has no story");
    }
}

/// The same for what takes longer than anything else here.
#[track_caller]
fn after_long(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(120), "it did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}
