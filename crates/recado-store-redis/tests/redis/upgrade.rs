//! Stores that the code of older formats wrote, opened by this version.
//!
//! `data/format_1.txt` and `data/format_2.txt` are dumps, a command a line: each of the four companies has a job in every
//! state there was. Words are percent-encoded, and an empty one is `%`.

use recado_core::{AuditKind, BodyHash, JobId, NewJob, Payload, Status};
use recado_store::prelude::*;
use recado_store::{
    AuditSpan, Claim, DeadLetterFilter, Enqueued, JobFilter, Namespace, PageRequest, Pick, Retention, Settled,
};
use recado_store_redis::{FORMAT_VERSION, RedisOptions, RedisStore};
use recado_testkit::redis::RedisServer;

use crate::given::{HOUR, T0, claim, delivered, job, random};

const COMPANIES: [&str; 4] = ["acme", "bolt", "cora", "dent"];

/// Part of a job's id, the status that it has at the start, and the kinds of its audit records.
const JOBS: [(&str, Status, &[AuditKind]); 11] = [
    ("sent-1", Status::Sent, &[AuditKind::Delivered]),
    ("sent-2", Status::Sent, &[AuditKind::Delivered]),
    ("retrying", Status::Retrying, &[AuditKind::RetryScheduled]),
    ("dead", Status::Failed, &[AuditKind::Buried]),
    ("discarded", Status::Discarded, &[AuditKind::Buried, AuditKind::Discarded]),
    ("replayed", Status::Scheduled, &[AuditKind::Buried, AuditKind::Replayed]),
    ("held", Status::Delivering, &[]),
    ("extended", Status::Delivering, &[]),
    ("later", Status::Scheduled, &[]),
    ("cancelled", Status::Cancelled, &[AuditKind::Cancelled]),
    ("waiting", Status::Queued, &[]),
];

/// Dumps of older formats.
const OLDER: [&str; 2] = [include_str!("data/format_1.txt"), include_str!("data/format_2.txt")];

/// A server with the data of a dump.
fn server_with(dump: &str) -> (RedisServer, RedisOptions) {
    let server = RedisServer::start();
    for line in dump.lines() {
        let words = line.split(' ').map(|word| match word {
            "%" => Vec::new(),
            word => percent_encoding::percent_decode_str(word).collect(),
        });
        let mut words = words.collect::<Vec<_>>().into_iter();
        let name = String::from_utf8(words.next().unwrap()).unwrap();
        server.send::<redis::Value>(redis::cmd(&name).arg(words.collect::<Vec<_>>()));
    }
    let options = RedisOptions { partitions: 2, ..RedisOptions::new(server.url()) };
    let options = RedisOptions { orphan_grace: std::time::Duration::ZERO, ..options };
    (server, options)
}

fn id(company: &str, what: &str) -> JobId {
    JobId::new(format!("{company}-{what}")).unwrap()
}

#[tokio::test]
async fn a_store_of_an_older_format_is_opened_with_every_job_and_record() {
    for dump in OLDER {
        let (server, options) = server_with(dump);
        let store = RedisStore::open(&options, random()).await.unwrap();
        for root in ["0", "1", "notes"] {
            let format: String = server.ask(&["GET", &format!("recado:{{{root}}}:format")]);
            assert_eq!(format, format!("{FORMAT_VERSION} 2"));
        }
        let left: Vec<String> = server.ask(&["KEYS", "*upgraded*"]);
        assert!(left.is_empty(), "{left:?}");
        let counts = store.counts(T0).await.unwrap();
        assert_eq!((counts.ready, counts.delayed, counts.leased), (4, 12, 8));
        assert_eq!((counts.dead_letters, counts.ended), (8, 16));
        for company in COMPANIES {
            for (what, status, kinds) in JOBS {
                let view = store.job(&id(company, what), T0).await.unwrap().expect(what);
                assert_eq!((view.status, view.job.company.as_str()), (status, company), "{what}");
                let trail = store.audit(&id(company, what)).await.unwrap();
                assert_eq!(trail.iter().map(|event| event.kind).collect::<Vec<_>>(), kinds, "{what}");
            }
            let waiting = NewJob { id: id(company, "waiting"), body_hash: BodyHash(1), ..job("any") };
            let again = store.enqueue(vec![waiting.clone()]).await.unwrap();
            assert_eq!(again, [Enqueued::Duplicate { status: Status::Queued }]);
            let other = store.enqueue(vec![NewJob { body_hash: BodyHash(2), ..waiting }]).await.unwrap();
            assert_eq!(other, [Enqueued::Conflict]);
            let replayed = store.dead_letter(&id(company, "replayed")).await.unwrap().unwrap();
            assert_eq!(replayed.corrected_data, Some(Payload::trusted(r#"{"to":"bia"}"#)));
        }
        let pauses = store.kv_list(Namespace::new("pauses"), T0).await.unwrap();
        assert_eq!(pauses.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["acme"]);
        let page = PageRequest { before: None, limit: 100 };
        assert_eq!(store.jobs(JobFilter::default(), page, T0).await.unwrap().items.len(), 44);
        assert_eq!(store.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items.len(), 8);
        drop(store);
        let again = RedisStore::open(&options, random()).await.unwrap().counts(T0).await.unwrap();
        assert_eq!((again.leased, again.ended), (8, 16), "opened again");
    }
}

#[tokio::test]
async fn jobs_of_an_older_format_go_on_where_they_were() {
    for dump in OLDER {
        let (_server, options) = server_with(dump);
        let store = RedisStore::open(&options, random()).await.unwrap();
        let ready = store.claim(claim(100)).await.unwrap().leases;
        assert_eq!(ready.len(), 4);
        assert_eq!(store.settle(ready.iter().map(delivered).collect()).await.unwrap(), [Settled::Done; 4]);
        // Leases of older formats end by their time: those that were extended an hour later.
        for (hours, what) in [(1, "-held"), (2, "-extended")] {
            let now = T0.plus(HOUR * hours);
            let orphaned = Claim { pick: Pick::Orphaned, now, lease_until: now.plus(HOUR * 9), ..claim(100) };
            let taken = store.claim(orphaned).await.unwrap().leases;
            assert_eq!(taken.len(), 4, "after {hours} hours");
            for lease in &taken {
                assert!(lease.job.id.as_str().ends_with(what), "{}", lease.job.id);
                assert_eq!(lease.lost.as_ref().map(|lost| &*lost.worker), Some("node"));
            }
            assert_eq!(
                store.settle(taken.iter().map(delivered).collect()).await.unwrap(),
                [Settled::Done; 4]
            );
        }
        let now = T0.plus(HOUR * 3);
        let due = Claim { now, lease_until: now.plus(HOUR), ..claim(100) };
        assert_eq!(store.claim(due).await.unwrap().leases.len(), 12, "retries, a replay and those for later");
        assert_eq!(store.counts(T0).await.unwrap().ended, 28);
        let nothing = Retention { ended_max_age: std::time::Duration::ZERO, ended_max_count: 0 };
        while store.prune(nothing.clone(), T0.plus(HOUR * 4)).await.unwrap().more {}
        let counts = store.counts(T0).await.unwrap();
        assert_eq!((counts.ended, counts.leased), (0, 12));
        assert!(store.oldest_due(&Default::default(), now).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_archiver_goes_on_after_the_last_record_that_it_knew_in_an_older_format() {
    for dump in OLDER {
        let (server, options) = server_with(dump);
        let place: String = {
            let entries: Vec<(String, Vec<String>)> = server.ask(&["XRANGE", "recado:{0}:audit", "-", "+"]);
            entries[9].0.clone()
        };
        let (at_ms, nth) = place.split_once('-').unwrap();
        let number = at_ms.parse::<u64>().unwrap() << 16 | nth.parse::<u64>().unwrap();
        let store = RedisStore::open(&options, random()).await.unwrap();
        let read = async |after| {
            let span = AuditSpan { part: 0, after, newest_first: false };
            store.audit_records(span, 1_000).await.unwrap()
        };
        let all = read(0).await;
        assert_eq!(all.len(), 18);
        let rest: Vec<u64> = read(number).await.iter().map(|record| record.number).collect();
        assert_eq!(rest, all[10..].iter().map(|record| record.number).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_at_once_upgrade_together() {
    for dump in OLDER {
        let (_server, options) = server_with(dump);
        let (one, two, three) = tokio::join!(
            RedisStore::open(&options, random()),
            RedisStore::open(&options, random()),
            RedisStore::open(&options, random())
        );
        for store in [one.unwrap(), two.unwrap(), three.unwrap()] {
            let counts = store.counts(T0).await.unwrap();
            assert_eq!((counts.leased, counts.ended), (8, 16));
            for company in COMPANIES {
                assert_eq!(store.audit(&id(company, "replayed")).await.unwrap().len(), 2);
            }
        }
    }
}
