//! `recado doctor --chaos`: kills on the user's own disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::given::{FAST, Place, eventually};

/// Names and lengths of everything in a directory.
fn listing(dir: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| (name(&entry), entry.metadata().expect("its length").len())).collect()
}

#[test]
fn kills_on_the_users_disk_lose_nothing_and_leave_nothing_behind() {
    let place = Place::with(FAST);
    let server = place.serve_with(&["--data-dir", "data"], &[]);
    server.enqueue(
        json!({"jobId": "mine", "route": "sandbox", "companyId": "acme", "data": {"script": ["ok"]}}),
    );
    server.job_once("mine", "sent");
    server.stop();
    let before = (listing(place.path()), listing(&place.path().join("data")));
    let said = place.run(&["doctor", "--chaos", "--kills", "3", "--data-dir", "data", "--json"]);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    // Where tests have their directories in memory the disk is bad, and all else is well.
    let is_bad = report["fsync"]["judgement"] == "too_fast_to_be_true";
    assert_eq!(said.code, i32::from(is_bad), "{said:?}");
    assert_eq!((&report["kills"], &report["lost"]), (&json!(3), &json!([])), "{report}");
    assert!(report["acknowledged"].as_u64() > Some(0) && report["unanswered"].as_u64() > Some(0), "{report}");
    assert!(report["delivered"].as_u64() >= report["acknowledged"].as_u64(), "{report}");
    assert_eq!(
        (&report["unexplainedDuplicates"], &report["isAuditTrailWhole"]),
        (&json!([]), &json!(true)),
        "{report}"
    );
    assert_eq!(report["auditFaults"], json!([]), "{report}");
    let beside = Path::new(report["directory"].as_str().expect("a path")).parent();
    assert_eq!(
        beside,
        place.path().canonicalize().ok().as_deref(),
        "it is on the disk of the data directory"
    );
    assert_eq!(
        (listing(place.path()), listing(&place.path().join("data"))),
        before,
        "existing data was touched"
    );
}

#[test]
fn kills_are_for_chaos_alone_and_bounded() {
    let place = Place::new();
    let said = place.run(&["doctor", "--kills", "3"]).failed_with(2);
    assert!(said.contains("--chaos"), "{said}");
    place.run(&["doctor", "--chaos", "--kills", "0"]).failed_with(2);
}

#[test]
fn it_refuses_what_is_no_directory_and_says_what_to_do() {
    let place = Place::new();
    place.write("file", "");
    for (data_dir, why) in [("", "is empty"), ("missing", "does not exist"), ("file", "is not a directory")] {
        let said = place.run(&["doctor", "--chaos", "--data-dir", data_dir]).failed_with(2);
        assert!(said.contains(why) && said.contains("--data-dir"), "{said}");
    }
    assert_eq!(listing(place.path()).len(), 1, "nothing was made");
}

#[test]
fn it_does_not_test_redis_and_says_so() {
    let place = Place::new();
    let by_flag = place.run(&["doctor", "--chaos", "--store", "redis://127.0.0.1:1"]).failed_with(2);
    place.write("recado.toml", "[store]\nurl = \"redis://127.0.0.1:1\"\n");
    let by_file = place.run(&["doctor", "--chaos"]).failed_with(2);
    for said in [by_flag, by_file] {
        assert!(said.contains("does not test Redis") && said.contains("recado doctor --store"), "{said}");
    }
}

/// A doctor that goes on for as long as the test.
struct Doctor {
    child: Child,
    place: Place,
}

impl Doctor {
    fn start() -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path().join("data")).expect("a directory");
        let mut command = place.command(&["doctor", "--chaos", "--kills", "10000", "--data-dir", "data"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the doctor starts");
        Doctor { child, place }
    }

    fn directories(&self) -> Vec<String> {
        listing(self.place.path()).into_keys().filter(|name| name.starts_with("recado-chaos-")).collect()
    }

    /// Its servers: processes that work in its directory.
    fn servers(&self) -> Vec<PathBuf> {
        let place = self.place.path().canonicalize().expect("a directory");
        let is_below = |dir: &Path| dir.starts_with(&place) && dir != place;
        let processes = std::fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
        let works_below =
            |path: &PathBuf| std::fs::read_link(path.join("cwd")).is_ok_and(|dir| is_below(&dir));
        processes.map(|process| process.path()).filter(works_below).collect()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill").success());
    }
}

impl Drop for Doctor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_signal_ends_its_server_and_removes_its_directory() {
    for name in ["HUP", "TERM", "INT"] {
        // As soon as there is something to remove, and with a server.
        for has_server in [false, true] {
            let mut doctor = Doctor::start();
            eventually(|| match has_server {
                true => !doctor.servers().is_empty(),
                false => !doctor.directories().is_empty(),
            });
            doctor.signal(name);
            let status = doctor.child.wait().expect("a child");
            assert_eq!(status.code(), Some(1), "{name}: it ends by itself");
            assert_eq!(doctor.directories(), Vec::<String>::new(), "{name}");
            eventually(|| doctor.servers().is_empty());
        }
    }
}

#[test]
fn its_server_ends_with_it_when_it_is_killed() {
    let mut doctor = Doctor::start();
    eventually(|| !doctor.servers().is_empty());
    doctor.signal("KILL");
    doctor.child.wait().expect("a child");
    eventually(|| doctor.servers().is_empty());
}
