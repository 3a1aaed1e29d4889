//! A store that fills up until it refuses everything: alerts still go out.

use recado_testkit::redis::{DURABLE, RedisServer};
use serde_json::{Value, json};

use super::super::given::eventually;
use super::super::observing::{fetch, samples};
use super::super::scene::Scene;
use super::{Ears, HASTY, SHORT, Story, after_long, routes};

/// Bytes of one job's payload.
const JOB_BYTES: usize = 12_000;

fn rules() -> String {
    format!("store_80 = {{ {HASTY} }}\nstore_90 = {{ {HASTY} }}\nrejected_writes = {{ {SHORT} }}")
}

impl Story {
    /// Nothing leaves the route, so that what comes stays.
    fn pause(&self, route: &str) {
        let (status, told) =
            self.scene.ask("POST", &format!("/v1/routes/{route}/pause"), &json!({ "reason": "to fill up" }));
        assert_eq!(status, 200, "{told}");
    }

    /// One more job, or the status of its refusal.
    fn fill(&self) -> Result<String, (u16, Value)> {
        let data = json!({ "script": ["ok"], "ballast": "x".repeat(JOB_BYTES) });
        let job = json!({ "route": "lane", "companyId": "acme", "data": data });
        match self.scene.ask("POST", "/v1/jobs", &job) {
            (202, accepted) => Ok(accepted["jobId"].as_str().expect("an id").to_owned()),
            refused => Err(refused),
        }
    }

    /// Bytes that the store has taken, and its limit, as last measured.
    fn room(&self) -> (f64, f64) {
        let page = fetch(self.scene.address, "/metrics");
        let samples = samples(&page);
        (samples["recado_store_size_bytes"], samples["recado_store_max_bytes"])
    }

    fn share(&self) -> f64 {
        let (used, max) = self.room();
        used / max
    }

    /// Fills the store up to this share, by half of what is missing at a time.
    fn fill_to(&self, share: f64, jobs: &mut Vec<String>) {
        loop {
            let (used, max) = self.room();
            let missing = share * max - used;
            if missing < 0.0 {
                return;
            }
            for _ in 0..(missing / 2.0 / JOB_BYTES as f64).ceil() as usize {
                jobs.push(self.fill().expect("there is room"));
            }
            eventually(|| self.room().0 > used);
        }
    }

    /// Fills the store until it takes no more: 80 %, 90 %, and refused.
    fn fill_up(&self) -> Vec<String> {
        let mut jobs = Vec::new();
        self.fill_to(0.82, &mut jobs);
        self.fired("store_80", None);
        assert!(self.share() < 0.9);
        assert_eq!((self.rings("store_90", None), self.rings("rejected_writes", None)), (None, None));
        self.fill_to(0.92, &mut jobs);
        self.fired("store_90", None);
        assert_eq!(self.rings("rejected_writes", None), None);
        let (status, refusal) = loop {
            match self.fill() {
                Ok(job) => jobs.push(job),
                Err(refused) => break refused,
            }
        };
        assert_eq!((status, &refusal["code"]), (503, &json!("store_full")), "{refusal}");
        self.fired("rejected_writes", None);
        jobs
    }

    fn ends_well(self) {
        for alert in ["store_90", "store_80", "rejected_writes"] {
            self.resolved(alert, None);
        }
        self.ends(&[("store_80", None), ("store_90", None), ("rejected_writes", None)]);
    }
}

#[test]
fn g14_a_store_that_fills_up_rings_at_80_and_90_percent_and_when_it_refuses() {
    if std::env::var_os("RECADO_TEST_STORE").is_some() {
        return; // The other test is the same on Redis.
    }
    let config = routes(&["lane"], "") + "[store]\nmax_size = \"2MiB\"\n";
    let story = Story::with(&rules(), &config);
    story.pause("lane");
    let jobs = story.fill_up();
    // Notices that could not be enqueued any more went out all the same.
    assert_eq!(story.scene.logged("Notice sent without the store", 3).len(), 3);
    for job in jobs {
        let (status, told) = story.scene.ask("DELETE", &format!("/v1/jobs/{job}"), &Value::Null);
        assert_eq!(status, 200, "{told}");
    }
    story.ends_well();
}

#[test]
fn g14_a_redis_that_fills_up_rings_at_80_and_90_percent_and_when_it_refuses() {
    let settings = ["maxmemory 8mb", "maxmemory-policy noeviction"];
    let redis = RedisServer::with(&[&DURABLE[..], &settings].concat());
    let ears = Ears::start();
    let scene = Scene::on(&redis.url(), &(routes(&["lane"], "") + &ears.config(&rules())));
    let story = Story { scene, ears };
    story.pause("lane");
    story.fill_up();
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "64mb"]);
    after_long(|| story.share() < 0.5);
    eventually(|| story.fill().is_ok());
    story.ends_well();
}
