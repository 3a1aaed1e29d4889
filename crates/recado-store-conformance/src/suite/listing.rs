//! Lists: newest first, by every filter, page by page without gap or repetition.

use std::collections::HashSet;

use recado_core::{NewJob, Status, Timestamp};
use recado_store::{
    Adopted, DataBytes, DeadLetterFilter, Discarded, JobFilter, PAGE_MAX_BYTES, Page, PageRequest, Redriven,
};

use super::snapshot::walk_jobs;
use super::transfer::given_by;
use crate::Home;
use crate::given::{
    HOUR, SECOND, Stage, T0, TestStore, bury, company, deliver, id, job, jobs_of, payload, route,
};

async fn listed(store: &TestStore, filter: JobFilter, now: Timestamp) -> Vec<String> {
    walk_jobs(store, &filter, 3, now).await.iter().map(ToString::to_string).collect()
}

pub async fn jobs_are_listed_newest_first(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("first"), NewJob { due_at: T0.plus(HOUR), ..job("second") }]).await;
    store.accept(vec![NewJob { route: route("sms"), ..job("third") }]).await;
    assert_eq!(listed(&store, JobFilter::default(), T0).await, ["third", "second", "first"]);
}

pub async fn jobs_are_found_by_every_status(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    for stage in Stage::ALL {
        store.bring(&stage.name(), stage).await;
    }
    let mut total = 0;
    for status in Status::ALL {
        let found = listed(&store, JobFilter { status: Some(status), ..JobFilter::default() }, T0).await;
        for name in &found {
            assert_eq!(store.view(name, T0).await.status, status, "{name} is listed as {status}");
        }
        total += found.len();
    }
    assert_eq!(total, Stage::ALL.len(), "each job has one status and is found by it");
}

pub async fn a_filter_by_status_follows_the_time_that_is_asked_about(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![NewJob { due_at: T0.plus(SECOND), ..job("a") }]).await;
    let with = |status| JobFilter { status: Some(status), ..JobFilter::default() };
    assert_eq!(listed(&store, with(Status::Scheduled), T0).await, ["a"]);
    assert_eq!(listed(&store, with(Status::Queued), T0).await.len(), 0);
    assert_eq!(listed(&store, with(Status::Scheduled), T0.plus(SECOND)).await.len(), 0);
    assert_eq!(listed(&store, with(Status::Queued), T0.plus(SECOND)).await, ["a"]);
}

pub async fn jobs_are_found_by_company_route_user_and_correlation(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let made = |name: &str, tenant: &str, way: &str, correlation: Option<&str>| NewJob {
        company: company(tenant),
        route: route(way),
        correlation_id: correlation.map(Into::into),
        ..job(name)
    };
    store
        .accept(vec![
            made("1", "acme", "email", Some("order-1")),
            made("2", "acme", "sms", Some("order-1")),
            made("3", "apex", "email", Some("order-1")),
            made("4", "acme", "email", Some("order-2")),
            made("5", "acme", "email", None),
        ])
        .await;
    let by = |tenant: Option<&str>, way: Option<&str>, correlation: Option<&str>| JobFilter {
        status: None,
        company: tenant.map(company),
        route: way.map(route),
        correlation_id: correlation.map(Into::into),
        user_id: None,
    };
    assert_eq!(listed(&store, by(Some("acme"), None, None), T0).await, ["5", "4", "2", "1"]);
    assert_eq!(listed(&store, by(None, Some("sms"), None), T0).await, ["2"]);
    assert_eq!(listed(&store, by(None, None, Some("order-1")), T0).await, ["3", "2", "1"]);
    assert_eq!(listed(&store, by(Some("acme"), Some("email"), Some("order-1")), T0).await, ["1"]);
    assert_eq!(listed(&store, by(Some("unknown"), None, None), T0).await.len(), 0);
    let queued = JobFilter { status: Some(Status::Queued), ..by(Some("apex"), None, None) };
    assert_eq!(listed(&store, queued, T0).await, ["3"]);
    store.accept(vec![NewJob { user_id: Some("maria".into()), ..made("6", "acme", "email", None) }]).await;
    let of = |user: &str| JobFilter { user_id: Some(user.into()), ..JobFilter::default() };
    assert_eq!(listed(&store, of("maria"), T0).await, ["6"]);
    assert_eq!(listed(&store, of("unknown"), T0).await.len(), 0);
}

pub async fn a_walk_through_all_pages_has_no_gap_and_no_repetition(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 23)).await;
    let whole = walk_jobs(&store, &JobFilter::default(), 1_000, T0).await;
    assert_eq!(whole.len(), 23);
    for limit in [1, 2, 22, 23, 24] {
        assert_eq!(walk_jobs(&store, &JobFilter::default(), limit, T0).await, whole, "pages of {limit}");
    }
}

pub async fn jobs_that_arrive_during_a_walk_do_not_disturb_it(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("old", 20)).await;
    let expected: HashSet<_> = walk_jobs(&store, &JobFilter::default(), 100, T0).await.into_iter().collect();
    let (mut seen, mut before) = (Vec::new(), None);
    for page in 0.. {
        store.accept(jobs_of(&format!("new-{page}"), 3)).await;
        store.ready(2, T0).await;
        let page = store.0.jobs(JobFilter::default(), PageRequest { before, limit: 4 }, T0).await.unwrap();
        seen.extend(page.items.into_iter().map(|view| view.job.id));
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    let old: Vec<_> = seen.iter().filter(|id| expected.contains(*id)).collect();
    assert_eq!(old.len(), 20, "each job that was there is seen once");
    assert_eq!(seen.len(), seen.iter().collect::<HashSet<_>>().len(), "no job is seen twice");
}

pub async fn a_cursor_out_of_this_world_is_answered_and_not_feared(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(vec![job("a")]).await;
    for before in [0, 1, 1 << 63, u64::MAX] {
        let page = PageRequest { before: Some(before), limit: 10 };
        let jobs = store.0.jobs(JobFilter::default(), page, T0).await.unwrap().items.len();
        let dead = store.0.dead_letters(DeadLetterFilter::default(), page).await.unwrap().items.len();
        assert_eq!((jobs, dead), (usize::from(before > 1), 0), "below {before}");
    }
}

/// The names on a page, if it holds no more data than a page may: one item beyond the bound.
fn names_within_bound<T: DataBytes>(page: &Page<T>, name: impl Fn(&T) -> String) -> Vec<String> {
    let bytes: usize = page.items.iter().rev().skip(1).map(DataBytes::data_bytes).sum();
    assert!(bytes < PAGE_MAX_BYTES, "a page of {bytes} bytes");
    page.items.iter().map(name).collect()
}

pub async fn a_page_of_large_data_ends_early_and_a_walk_skips_nothing(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let large = payload(&format!(r#"{{"pad":"{}"}}"#, "x".repeat(1_000_000)));
    let names: Vec<_> = (10..21).map(|n| n.to_string()).collect();
    for name in &names {
        store.accept(vec![NewJob { data: large.clone(), ..job(name) }]).await;
    }
    let (mut jobs, mut pages, mut before) = (Vec::new(), 0, None);
    loop {
        let page = PageRequest { before, limit: 100 };
        let page = store.0.jobs(JobFilter::default(), page, T0).await.unwrap();
        jobs.extend(names_within_bound(&page, |view| view.job.id.to_string()));
        (before, pages) = (page.next, pages + 1);
        if before.is_none() {
            break;
        }
    }
    jobs.sort();
    assert_eq!(jobs, names);
    assert!(pages > 1, "eleven megabytes came on one page");

    for _ in &names {
        let lease = store.ready(1, T0).await.remove(0);
        store.done(&lease, bury(&lease, None, "no", T0), T0).await;
    }
    let (mut dead, mut before) = (Vec::new(), None);
    loop {
        let page = PageRequest { before, limit: 100 };
        let page = store.0.dead_letters(DeadLetterFilter::default(), page).await.unwrap();
        dead.extend(names_within_bound(&page, |entry| entry.job_id.to_string()));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    dead.sort();
    assert_eq!(dead, names);
}

/// Buries jobs with the given reasons and codes, a second apart, each of a company of its own.
async fn bury_all(store: &TestStore, failures: &[(&str, Option<&str>, &str)]) {
    for (nth, (name, code, reason)) in failures.iter().enumerate() {
        store.accept(vec![NewJob { company: company(&format!("c-{name}")), ..job(name) }]).await;
        let lease = store.only(T0).await;
        let now = T0.plus(SECOND * u32::try_from(nth).unwrap());
        store.done(&lease, bury(&lease, *code, reason, now), now).await;
    }
}

async fn dead(store: &TestStore, filter: DeadLetterFilter) -> Vec<String> {
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = store.0.dead_letters(filter.clone(), PageRequest { before, limit: 2 }).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|entry| entry.job_id.to_string()));
        match page.next {
            Some(next) => before = Some(next),
            None => return seen,
        }
    }
}

pub async fn dead_letters_are_found_by_every_filter(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let failures = [
        ("1", Some("550"), "mailbox unknown"),
        ("2", Some("554"), "rejected"),
        ("3", None, "mailbox full"),
        ("4", Some("550"), "mailbox unknown"),
        ("5", Some("550"), "blocked"),
    ];
    bury_all(&store, &failures).await;
    let all = DeadLetterFilter::default;
    assert_eq!(dead(&store, all()).await, ["5", "4", "3", "2", "1"]);
    assert_eq!(dead(&store, DeadLetterFilter { company: Some(company("c-2")), ..all() }).await, ["2"]);
    assert_eq!(dead(&store, DeadLetterFilter { route: Some(route("email")), ..all() }).await.len(), 5);
    assert_eq!(dead(&store, DeadLetterFilter { route: Some(route("sms")), ..all() }).await.len(), 0);
    assert_eq!(
        dead(&store, DeadLetterFilter { last_failure_code: Some("550".into()), ..all() }).await,
        ["5", "4", "1"]
    );
    assert_eq!(
        dead(&store, DeadLetterFilter { reason: Some("mailbox".into()), ..all() }).await,
        ["4", "3", "1"]
    );
    let fingerprint = Some(store.dead_letter("1").await.unwrap().failure.fingerprint);
    assert_eq!(dead(&store, DeadLetterFilter { fingerprint, ..all() }).await, ["4", "1"]);
    let both =
        DeadLetterFilter { last_failure_code: Some("550".into()), reason: Some("unknown".into()), ..all() };
    assert_eq!(dead(&store, both).await, ["4", "1"]);
}

pub async fn dead_letters_are_found_by_the_time_they_were_moved(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    bury_all(&store, &[("1", None, "no"), ("2", None, "no"), ("3", None, "no")]).await;
    let (second, third) = (Some(T0.plus(SECOND)), Some(T0.plus(SECOND * 2)));
    let all = DeadLetterFilter::default;
    assert_eq!(
        dead(&store, DeadLetterFilter { since: second, ..all() }).await,
        ["3", "2"],
        "since is included"
    );
    assert_eq!(dead(&store, DeadLetterFilter { until: third, ..all() }).await, ["2", "1"], "until is not");
    assert_eq!(dead(&store, DeadLetterFilter { since: second, until: third, ..all() }).await, ["2"]);
}

pub async fn a_reason_is_found_without_regard_to_case_in_any_script_and_literally(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let failures = [
        ("1", None, "Endereço NÃO encontrado"),
        ("2", None, "quota at 100% of plan"),
        ("3", None, "quota at 1000 of plan"),
        ("4", None, r"path C:\mail_box"),
        ("5", None, "path C:/mailXbox"),
    ];
    bury_all(&store, &failures).await;
    let with = |text: &str| DeadLetterFilter { reason: Some(text.into()), ..DeadLetterFilter::default() };
    for (asked, expected) in [
        ("não", vec!["1"]),
        ("ENDEREÇO não", vec!["1"]),
        ("100%", vec!["2"]),
        ("QUOTA", vec!["3", "2"]),
        ("mail_box", vec!["4"]),
        (r"C:\", vec!["4"]),
        ("nothing like it", vec![]),
    ] {
        assert_eq!(dead(&store, with(asked)).await, expected, "reason contains {asked:?}");
    }
}

/// Brings a dead letter back and lets it fail again: it never leaves the queue.
async fn fails_again(store: &TestStore, name: &str, now: Timestamp) {
    assert_eq!(store.redrive(name, None, now).await, Redriven::Done, "{name}");
    let lease = store.only(now).await;
    store.done(&lease, bury(&lease, Some("550"), "no such mailbox", now), now).await;
}

pub async fn a_walk_sees_each_dead_letter_once_whatever_is_replayed_meanwhile(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    let names: Vec<String> = (0..12).map(|nth| format!("e-{nth:02}")).collect();
    let failures: Vec<_> = names.iter().map(|name| (&**name, Some("550"), "no such mailbox")).collect();
    bury_all(&store, &failures).await;
    let whole: Vec<String> = names.iter().rev().cloned().collect();
    let filters = [
        DeadLetterFilter::default(),
        DeadLetterFilter { last_failure_code: Some("550".into()), ..DeadLetterFilter::default() },
    ];
    for (filter, hour) in filters.into_iter().zip(1..) {
        let now = T0.plus(HOUR * hour);
        let (mut seen, mut before) = (Vec::new(), None);
        // Between two pages some fail again that were seen and some that were not, and one is on its way meanwhile.
        for (first, second) in names.iter().zip(names.iter().rev()) {
            let page = PageRequest { before, limit: 2 };
            let page = store.0.dead_letters(filter.clone(), page).await.unwrap();
            seen.extend(page.items.into_iter().map(|entry| entry.job_id.to_string()));
            before = page.next;
            if before.is_none() {
                break;
            }
            fails_again(&store, first, now).await;
            fails_again(&store, second, now).await;
        }
        assert_eq!((&seen, before), (&whole, None), "each that was there all along is seen once");
        assert_eq!(dead(&store, filter).await, whole, "and stands where it stood");
    }
    let back = store.0.snapshot(&id("e-05")).await.unwrap().unwrap();
    assert_eq!(store.discard("e-05", T0.plus(HOUR * 3)).await, Discarded::Done);
    assert_eq!(store.0.adopt(vec![back]).await.unwrap(), [Adopted::Done]);
    assert_eq!(
        dead(&store, DeadLetterFilter::default()).await[0],
        "e-05",
        "only what left comes back as the newest"
    );
}

pub async fn what_is_on_its_way_is_in_a_walk_too(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    bury_all(&store, &[("1", None, "no"), ("2", None, "no"), ("3", None, "no")]).await;
    assert_eq!(store.redrive("2", None, T0).await, Redriven::Done);
    assert_eq!(dead(&store, DeadLetterFilter::default()).await, ["3", "2", "1"]);
    store.only(T0).await;
    assert_eq!(dead(&store, DeadLetterFilter::default()).await, ["3", "2", "1"], "and while it is delivered");
}

pub async fn jobs_that_change_during_a_walk_are_seen_once(home: &mut dyn Home) {
    let store = TestStore::at(home).await;
    store.accept(jobs_of("a", 12)).await;
    let whole = walk_jobs(&store, &JobFilter::default(), 100, T0).await;
    let (mut seen, mut before) = (Vec::new(), None);
    for nth in 0.. {
        let page = PageRequest { before, limit: 2 };
        let page = store.0.jobs(JobFilter::default(), page, T0).await.unwrap();
        seen.extend(page.items.into_iter().map(|view| view.job.id));
        before = page.next;
        if before.is_none() {
            break;
        }
        for lease in store.ready(2, T0).await {
            let buried = bury(&lease, None, "no", T0);
            store.done(&lease, if nth % 2 == 0 { buried } else { deliver(&lease, T0) }, T0).await;
        }
        for name in dead(&store, DeadLetterFilter::default()).await {
            store.redrive(&name, None, T0).await;
        }
    }
    assert_eq!(seen, whole);
    let walked: Vec<_> = given_by(&store).await.into_iter().map(|transfer| transfer.job.id).collect();
    assert_eq!(
        walked,
        whole.into_iter().rev().collect::<Vec<_>>(),
        "and by who takes them whole, oldest first"
    );
}
