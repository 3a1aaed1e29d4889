//! The audit trail: its disk goes away under a server that works, and comes back.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::super::given::{Place, between_ms, eventually};
use super::{HASTY, Story, routes};

/// In the place of five minutes, which no test can wait for: far more than files are behind while all is well.
const THRESHOLD_S: i64 = 10;

impl Story {
    /// Delivers one job, which puts it on record.
    fn deliver(&self, id: &str) {
        let job = json!({ "jobId": id, "route": "lane", "companyId": "acme", "data": { "script": ["ok"] } });
        self.scene.enqueue(job);
        self.scene.sent(id);
    }

    /// The job's first record, once it is in the files.
    fn archived(&self, id: &str) -> Value {
        let mut found = Value::Null;
        eventually(|| {
            let page = self.scene.get(&format!("/v1/audit?jobId={id}&order=oldest"));
            found = page["items"][0].clone();
            found["sequence"].is_u64()
        });
        found
    }
}

/// Mounts a directory over the trail.
fn mount(place: &Place, target: &str) {
    let at = |name: &str| place.path().join(name);
    symlink(at(target), at("next")).expect("a link");
    std::fs::rename(at("next"), at("trail")).expect("the link is in place");
}

#[test]
fn audit_files_that_cannot_be_written_ring_everywhere_until_they_have_everything() {
    let rule = format!("audit_late = {{ threshold = {THRESHOLD_S}, {HASTY} }}");
    let story = Story::with(&rule, &(routes(&["lane"], "") + "[audit]\ndir = \"trail\"\n"));
    let place = &story.scene.place;
    story.deliver("first");
    let first = story.archived("first");
    std::fs::rename(place.path().join("trail"), place.path().join("disk")).expect("the trail was begun");
    mount(place, "disk");
    place.write("no disk", "");
    // Archived by a later round, so the files were whole at a later time than the first one's.
    story.deliver("second");
    story.archived("second");
    assert_eq!(story.rings("audit_late", None), None);

    mount(place, "no disk");
    story.deliver("third");
    let item = story.fired("audit_late", None);
    let after_ms = between_ms(&first["timestamp"], &item["since"]);
    assert!(after_ms >= THRESHOLD_S * 1_000, "it was quiet below its threshold: {after_ms} ms");
    let why = "Cannot write the audit trail; its records stay in the store, and it is tried again";
    assert!(!story.scene.logged(why, 1).is_empty());
    // From a directory of its own the doctor sees nothing wrong but what the server says.
    let said = story.scene.run(&Place::new(), &["doctor"]).done();
    let line = said.lines().find(|line| line.starts_with("! audit trail: ")).unwrap_or_default();
    assert!(line.contains("yet the server has an alert: the audit trail's files are "), "{said}");
    assert!(said.contains("alerts.md#audit_late"), "{said}");

    mount(place, "disk");
    story.resolved("audit_late", None);
    story.archived("third");
    story.scene.recado(&["audit", "verify"]).done();
    story.ends(&[("audit_late", None)]);
}
