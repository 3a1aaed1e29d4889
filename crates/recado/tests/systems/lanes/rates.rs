//! Rates and quiet times: jobs over them wait, spend nothing, and hold back only their own lane.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::given::eventually;
use super::super::scene::Scene;
use super::watched::{Watched, most_within};
use super::{answer, data, enqueue, far_end, is_parked, jobs, killed, lane, page, provider};

#[test]
fn g16_what_is_over_the_rate_waits_and_spends_nothing() {
    let far_end = far_end();
    let scene = Scene::with(&lane("slow", &far_end, "rate = { max = 2, per = \"2h\" }\n"));
    let ids = enqueue(&scene, "slow", "acme", 5);
    far_end.once("", 2);
    eventually(|| jobs(&scene, "slow").iter().filter(|job| job["status"] == "sent").count() == 2);
    let waiting: Vec<_> = ids.iter().filter(|id| scene.job(id)["status"] != "sent").collect();
    for id in &waiting {
        let job = is_parked(&scene, id, "limit");
        assert!(job["waitingFor"]["until"].is_string(), "{job:#}");
    }
    assert_eq!((waiting.len(), far_end.ledger().len()), (3, 2));
}

#[test]
fn f8_a_limit_of_one_credential_holds_back_that_company_alone() {
    let far_end = far_end();
    let rules = "classify = [{ status = 429, as = \"rate_limit\", blame = \"credential\" }]\n";
    let scene = Scene::with(&(lane("shared", &far_end, "") + rules));
    far_end.always("acme-0", page(429).with("retry-after", 3_600));
    let first = enqueue(&scene, "shared", "acme", 1);
    scene.retrying(&first[0], 1);
    let second = scene.enqueue(json!({ "route": "shared", "companyId": "acme", "data": data("again") }));
    is_parked(&scene, &second, "limit");
    for id in enqueue(&scene, "shared", "other", 3) {
        scene.sent(&id);
    }
    far_end.was_asked(&second, 0);
}

#[test]
fn f8_a_provider_that_asks_for_quiet_gets_it_from_all() {
    let far_end = far_end();
    let scene = Scene::with(&lane("shared", &far_end, ""));
    far_end.always("acme-0", page(429).with("retry-after", 3_600));
    let first = enqueue(&scene, "shared", "acme", 1);
    scene.retrying(&first[0], 1);
    let others = enqueue(&scene, "shared", "other", 3);
    for id in &others {
        is_parked(&scene, id, "limit");
    }
    assert_eq!(far_end.ledger().len(), 1);
    assert_eq!(provider(&scene, "shared")["state"], "CLOSED", "a provider that says slower is alive");
}

#[test]
fn g16_no_window_at_the_far_end_has_more_requests_than_the_rate() {
    const MAX: usize = 40;
    const PER: Duration = Duration::from_secs(3);
    let far_end = Watched::start();
    let scene = Scene::with(&lane("slow", &far_end, "rate = { max = 40, per = \"3s\" }\n"));
    enqueue(&scene, "slow", "acme", 3 * MAX);
    let arrivals = far_end.once_come(3 * MAX);
    // A request may be under way for a while, and the next one for less: a quarter of the window is for that.
    // Counting that forgets at the window's edge, or lets a burst through and the even flow after it, has
    // half as many again.
    let most = most_within(&arrivals, PER * 3 / 4);
    assert!(most <= MAX, "{most} in one window");
}

#[test]
fn g16_a_rate_counts_on_over_kill_9() {
    const MAX: usize = 100;
    let far_end = Watched::start();
    let terms = "rate = { max = 100, per = \"2h\" }\nconcurrency = 4\n";
    let scene = Scene::with(&lane("slow", &far_end, terms));
    far_end.holds_after(30);
    enqueue(&scene, "slow", "acme", 150);
    eventually(|| far_end.open() == 4);
    let before = far_end.arrivals().len();
    assert_eq!(before, 34, "four are on their way");
    let server = killed(&scene);
    far_end.lets_go();
    eventually(|| {
        let provider = provider(&server, "slow");
        provider["running"] == 0 && provider["waitingFor"]["reason"] == "limit"
    });
    let came = far_end.arrivals().len();
    assert!((MAX - 4..=MAX).contains(&came), "{came} in a window, {before} of them before it died");
}

#[test]
fn a_companys_own_rate_at_a_provider_holds_from_its_first_job_on() {
    let far_end = Watched::start();
    let scene = Scene::with(&lane("shared", &far_end, "tenant_rate = { max = 2, per = \"2h\" }\n"));
    enqueue(&scene, "shared", "loud", 20);
    for id in enqueue(&scene, "shared", "modest", 2) {
        scene.sent(&id);
    }
    eventually(|| scene.get("/v1/tenants/loud")["delivering"] == 0);
    let arrivals = far_end.arrivals();
    assert_eq!(arrivals.iter().filter(|arrival| arrival.company == "loud").count(), 2);
}

#[test]
fn f8_a_credential_that_is_throttled_stops_its_company_for_that_long_and_no_other() {
    const RETRY_AFTER_S: u64 = 2;
    let far_end = Watched::start();
    let rules = "classify = [{ status = 429, as = \"rate_limit\", blame = \"credential\" }]\n";
    let scene = Scene::with(&(lane("shared", &far_end, "concurrency = 1\n") + rules));
    far_end.answers(|_| page(429).with("retry-after", RETRY_AFTER_S));
    let throttled = enqueue(&scene, "shared", "acme", 5);
    scene.retrying(&throttled[0], 1);
    far_end.answers(|_| answer(200, json!({})));

    let of = |company: &str| {
        let arrivals = far_end.arrivals().into_iter();
        arrivals.filter(|arrival| arrival.company == company).map(|arrival| arrival.at).collect::<Vec<_>>()
    };
    for nth in 0.. {
        let words = data(&format!("other-{nth}"));
        scene.sent(&scene.enqueue(json!({ "route": "shared", "companyId": "other", "data": words })));
        if of("acme").len() > 1 {
            break;
        }
    }
    for id in &throttled {
        scene.sent(id);
    }
    let (acme, others) = (of("acme"), of("other"));
    // The server's clock counts whole milliseconds.
    let quiet = Duration::from_millis(RETRY_AFTER_S * 1_000 - 1);
    let since = |at: &Instant| at.duration_since(acme[0]);
    assert!(since(&acme[1]) >= quiet, "asked again after {:?}", since(&acme[1]));
    assert!(others.iter().any(|at| since(at) < quiet), "others went on meanwhile");
    assert_eq!(acme.len(), 6, "one of the five was refused once");
}
