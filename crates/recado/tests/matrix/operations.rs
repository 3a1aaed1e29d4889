//! The operations that the matrix strikes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::far_end::REFUSED;
use super::given::{Server, eventually};
use super::scene::{DATA, Scene, job};

pub struct Operation {
    pub name: &'static str,
    /// More configuration, from the time that it is struck.
    pub config: &'static str,
    /// Fills the store before; without it there is no directory.
    pub prepare: Option<fn(&Scene, &Server)>,
    /// The server was stopped before; otherwise it was killed.
    pub is_at_rest: bool,
    /// The start of the server is struck, too.
    pub is_armed_from_start: bool,
    /// The operation, on a server that may die at any time.
    pub act: fn(&Scene, &mut Server),
    /// Whatever a caller does after the restart: it repeats what was not answered.
    pub finish: fn(&Scene, &mut Server),
}

const PLAIN: Operation = Operation {
    name: "",
    config: "",
    prepare: Some(|_, _| ()),
    is_at_rest: true,
    is_armed_from_start: false,
    act: |_, _| (),
    finish: |_, _| (),
};

pub const ENQUEUE: Operation = Operation {
    name: "enqueue",
    act: |scene, _| {
        scene.far_end.holds();
        for nth in 0..3 {
            scene.enqueue(&format!("one-{nth}"), "deliver", &Value::Null);
        }
        scene.enqueue("bad", "../escape", &Value::Null);
        let ids: Vec<_> = (0..5).map(|nth| format!("batch-{nth}")).collect();
        let jobs: Vec<_> = ids.iter().map(|id| job(id, "deliver")).collect();
        if let Some((200, _)) = scene.ask("POST", "/v1/jobs/batch", &json!(jobs)) {
            scene.ledger.lock().acknowledged.extend(ids);
        }
    },
    ..PLAIN
};

pub const CLAIM: Operation = Operation {
    name: "claim",
    prepare: Some(|scene, server| wait_behind_a_pause(scene, server, "deliver")),
    act: |scene, server| {
        scene.far_end.holds();
        resume(scene, server);
        scene.until(server, || Some(scene.far_end.arrivals().len() >= WAITING));
    },
    finish: |scene, server| resume(scene, server),
    ..PLAIN
};

pub const SETTLE: Operation = Operation {
    name: "settle",
    prepare: Some(|scene, server| wait_behind_a_pause(scene, server, "deliver")),
    act: |scene, server| {
        resume(scene, server);
        until_all(scene, server, "sent");
    },
    finish: |scene, server| resume(scene, server),
    ..PLAIN
};

pub const BURY: Operation = Operation {
    name: "bury",
    prepare: Some(|scene, server| wait_behind_a_pause(scene, server, REFUSED)),
    act: |scene, server| {
        resume(scene, server);
        until_all(scene, server, "failed");
    },
    finish: |scene, server| resume(scene, server),
    ..PLAIN
};

pub const CANCEL: Operation = Operation {
    name: "cancel",
    prepare: Some(|scene, server| wait_behind_a_pause(scene, server, "deliver")),
    act: |scene, _| {
        for id in waiting().take(4) {
            if let Some((200, _)) = scene.ask("DELETE", &format!("/v1/jobs/{id}"), &Value::Null) {
                scene.ledger.lock().cancelled.insert(id);
            }
        }
    },
    finish: |scene, server| resume(scene, server),
    ..PLAIN
};

pub const REPLAY: Operation = Operation {
    name: "replay",
    prepare: Some(bury_all),
    act: |scene, server| {
        scene.far_end.agrees();
        for id in waiting().take(4) {
            scene.insist(server, &format!("/v1/dlq/{id}/replay"), &json!({}));
        }
        scene.until(server, || {
            let sent = waiting().take(4).map(|id| scene.status(&id)).collect::<Option<Vec<_>>>()?;
            Some(sent.iter().all(|status| status == "sent"))
        });
    },
    ..PLAIN
};

pub const DISCARD: Operation = Operation {
    name: "discard",
    prepare: Some(bury_all),
    act: |scene, _| {
        for id in waiting().take(4) {
            let answer =
                scene.ask("POST", &format!("/v1/dlq/{id}/discard"), &json!({ "reason": "customer left" }));
            if let Some((200, _)) = answer {
                scene.ledger.lock().cancelled.insert(id);
            }
        }
    },
    // A discarded one does not come back with the others.
    finish: |scene, server| {
        scene.far_end.agrees();
        replay_all(scene, server, None);
    },
    ..PLAIN
};

pub const BULK: Operation = Operation {
    name: "bulk replay",
    prepare: Some(bury_all),
    act: |scene, server| {
        scene.far_end.agrees();
        let Some((202, bulk)) = scene.ask("POST", "/v1/dlq/replay", &json!({ "filter": {} })) else { return };
        let path = format!("/v1/replays/{}", bulk["id"].as_str().expect("an id"));
        scene.place.write("bulk", &path);
        scene.until(server, || Some(scene.ask("GET", &path, &Value::Null)?.1["state"] == "done"));
    },
    finish: |scene, server| {
        let acknowledged = std::fs::read_to_string(scene.place.path().join("bulk")).ok();
        replay_all(scene, server, acknowledged);
        for id in waiting() {
            server.job_once(&id, "sent");
        }
    },
    ..PLAIN
};

pub const ERASE: Operation = Operation {
    name: "erase",
    prepare: Some(|scene, _| {
        for (id, user, path) in
            [("maria-1", MARIA, REFUSED), ("maria-2", MARIA, "deliver"), ("jose-1", "u-82", REFUSED)]
        {
            let delay_ms = if path == REFUSED { 0 } else { 600_000 };
            scene.enqueue(id, path, &json!({ "userId": user, "delayMs": delay_ms }));
        }
        eventually(|| scene.status("maria-1").as_deref() == Some("failed"));
        eventually(|| scene.status("jose-1").as_deref() == Some("failed"));
    }),
    act: |scene, _| drop(scene.ask("POST", "/v1/audit/erasures", &erasure())),
    finish: |scene, server| {
        // Whether or not it was answered, it can be asked for again, and then nothing is left.
        let (status, done) = server.ask("POST", "/v1/audit/erasures", &erasure());
        let log: Vec<_> = server.log().into_iter().filter(|line| line["level"] != "INFO").collect();
        assert_eq!(status, 200, "{done}: {log:?}");
        for id in ["maria-1", "maria-2"] {
            assert_eq!(server.ask("GET", &format!("/v1/jobs/{id}"), &Value::Null).0, 404, "{id}");
            scene.ledger.lock().removed.insert(id.to_owned());
        }
        let entries = std::fs::read_dir(scene.data().join("audit")).expect("the trail");
        for path in entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
            let text = std::fs::read(&path).expect("a file");
            assert!(!String::from_utf8_lossy(&text).contains("maria-"), "{} names her", path.display());
        }
    },
    ..PLAIN
};

pub const DLQ_ARCHIVE: Operation = Operation {
    name: "dead letters' archive",
    config: "[dlq]\nmax_size = 2\n",
    prepare: Some(bury_all),
    act: |scene, server| scene.until(server, || Some(dead_letters(scene)? <= 2)),
    finish: |scene, _| {
        eventually(|| dead_letters(scene) <= Some(2));
        // Each entry that left is in a line of the archive.
        let files = std::fs::read_dir(scene.data().join("dlq-archive")).expect("the archive");
        let text: String =
            files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("text")).collect();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let archived: Vec<_> = lines.filter_map(|line| Some(line["jobId"].as_str()?.to_owned())).collect();
        assert!(archived.len() >= WAITING - 2, "{archived:?}");
        let gone = |id: &String| {
            scene.ask("GET", &format!("/v1/dlq/{id}"), &Value::Null).is_some_and(|it| it.0 == 404)
        };
        for id in waiting().filter(gone) {
            assert!(
                archived.contains(&id),
                "{id} left the queue and is not in {DATA}/dlq-archive: {archived:?}"
            );
            scene.ledger.lock().removed.insert(id);
        }
    },
    is_armed_from_start: true,
    ..PLAIN
};

pub const AUDIT_FILES: Operation = Operation {
    name: "audit files",
    prepare: Some(|scene, server| wait_behind_a_pause(scene, server, REFUSED)),
    act: |scene, server| {
        resume(scene, server);
        until_all(scene, server, "failed");
        scene.until(server, || all_is_archived(scene));
    },
    finish: |scene, server| {
        resume(scene, server);
        eventually(|| waiting().all(|id| scene.status(&id).as_deref() == Some("failed")));
        eventually(|| all_is_archived(scene) == Some(true));
        // One record of each death is in the files, and not two.
        let out = scene.place.run(&["audit", "export", "--dir", "recado-data/audit"]).done();
        for id in waiting() {
            let steps = out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let deaths = steps.filter(|it| it["jobId"] == *id && it["kind"] == "BURIED");
            let records: BTreeSet<_> = deaths.map(|step| step["sequence"].as_u64()).collect();
            assert_eq!(records.len(), 1, "{id} in {out}");
        }
    },
    ..PLAIN
};

pub const FIRST_START: Operation = Operation {
    name: "first start",
    prepare: None,
    is_armed_from_start: true,
    act: |scene, _| {
        for nth in 0..2 {
            scene.enqueue(&format!("one-{nth}"), "deliver", &Value::Null);
        }
    },
    ..PLAIN
};

pub const RECOVERY: Operation = Operation {
    name: "start after a crash",
    prepare: Some(|scene, _| {
        scene.far_end.holds();
        for nth in 0..4 {
            scene.enqueue(&format!("one-{nth}"), "deliver", &Value::Null);
        }
    }),
    is_at_rest: false,
    is_armed_from_start: true,
    act: |scene, server| until(scene, server, (0..4).map(|nth| format!("one-{nth}")).collect(), "sent"),
    ..PLAIN
};

pub const STOP: Operation = Operation {
    name: "stop",
    act: |scene, server| {
        for nth in 0..4 {
            scene.enqueue(&format!("one-{nth}"), "deliver", &Value::Null);
        }
        server.signal("TERM");
        scene.until(server, || None);
    },
    ..PLAIN
};

/// The table of operations: a test of each by `$strike`, so that they run side by side. `any_store` are those whose state
/// is all in the store; the others work on files of the data directory, which a node on Redis does not have.
macro_rules! for_each_operation {
    (any_store: $strike:path) => {
        for_each_operation! { @tests $strike:
            enqueue: ENQUEUE,
            claim: CLAIM,
            settle: SETTLE,
            bury: BURY,
            cancel: CANCEL,
            replay: REPLAY,
            discard: DISCARD,
            bulk_replay: BULK,
        }
    };
    (embedded_store: $strike:path) => {
        for_each_operation! { any_store: $strike }
        for_each_operation! { @tests $strike:
            erase: ERASE,
            dead_letters_archive: DLQ_ARCHIVE,
            audit_files: AUDIT_FILES,
            first_start: FIRST_START,
            start_after_a_crash: RECOVERY,
            stop: STOP,
        }
    };
    (@tests $strike:path: $($name:ident: $operation:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            $strike(&super::operations::$operation);
        }
    )*};
}
pub(crate) use for_each_operation;

/// Jobs that wait behind a pause before an operation lets them go.
const WAITING: usize = 6;

/// A person who asks for her data to be erased.
const MARIA: &str = "u-81";

fn waiting() -> impl Iterator<Item = String> {
    (0..WAITING).map(|nth| format!("waits-{nth}"))
}

fn wait_behind_a_pause(scene: &Scene, server: &Server, path: &str) {
    let (status, body) = server.ask("POST", "/v1/providers/sink/pause", &json!({ "reason": "the test" }));
    assert_eq!(status, 200, "{body}");
    for id in waiting() {
        scene.enqueue(&id, path, &Value::Null);
    }
}

fn bury_all(scene: &Scene, _: &Server) {
    for id in waiting() {
        scene.enqueue(&id, REFUSED, &Value::Null);
    }
    eventually(|| waiting().all(|id| scene.status(&id).as_deref() == Some("failed")));
}

fn resume(scene: &Scene, server: &mut Server) {
    scene.insist(server, "/v1/providers/sink/resume", &Value::Null);
}

fn until_all(scene: &Scene, server: &mut Server, status: &str) {
    until(scene, server, waiting().collect(), status);
}

fn until(scene: &Scene, server: &mut Server, ids: Vec<String>, status: &str) {
    scene.until(server, || {
        let now = ids.iter().map(|id| scene.status(id)).collect::<Option<Vec<_>>>()?;
        Some(now.iter().all(|now| now == status))
    });
}

/// Replays everything that is dead: by the act that was acknowledged, which goes on, or else by a new one.
fn replay_all(_: &Scene, server: &Server, acknowledged: Option<String>) {
    let path = acknowledged.unwrap_or_else(|| {
        let (status, bulk) = server.ask("POST", "/v1/dlq/replay", &json!({ "filter": {} }));
        assert_eq!(status, 202, "{bulk}");
        format!("/v1/replays/{}", bulk["id"].as_str().expect("an id"))
    });
    eventually(|| server.get(&path)["state"] == "done");
}

fn erasure() -> Value {
    json!({ "subject": { "userId": MARIA }, "reason": "LGPD 17", "withJobs": true })
}

fn dead_letters(scene: &Scene) -> Option<usize> {
    let (_, list) = scene.ask("GET", "/v1/dlq?limit=100", &Value::Null)?;
    Some(list["items"].as_array()?.len())
}

/// Everything on record is in the files.
fn all_is_archived(scene: &Scene) -> Option<bool> {
    let (_, found) = scene.ask("GET", "/v1/audit?limit=1000", &Value::Null)?;
    Some(found["items"].as_array()?.iter().all(|item| item["sequence"].is_u64()))
}
