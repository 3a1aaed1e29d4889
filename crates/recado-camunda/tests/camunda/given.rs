//! A worker between a fake engine and a rule that the test holds in its hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use recado_camunda::{
    Auth, Camunda7, Camunda8, DecisionSource, Limits, NoDecision, Rest, Rules, Subscription, Worker,
};
use recado_core::{Class, Random, Timestamp};
use recado_testkit::camunda::{CamundaTask, FakeCamunda};
use recado_wire::decisions::{Decision, DecisionErrorCode, DecisionRequest};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// 2025-01-12T10:37:00Z, when everything is tried again.
pub const NEXT: Timestamp = Timestamp::from_millis(1_736_678_220_000);

pub const LOCK: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Eight,
    Seven,
}

pub const BOTH: [Version; 2] = [Version::Eight, Version::Seven];

impl Version {
    /// The path of a completion report.
    pub fn completion(self) -> &'static str {
        match self {
            Version::Eight => "/completion",
            Version::Seven => "/complete",
        }
    }

    pub fn taking(self) -> &'static str {
        match self {
            Version::Eight => "/activation",
            Version::Seven => "/fetchAndLock",
        }
    }
}

/// The claims rule without randomness: always seven minutes.
#[derive(Debug)]
pub struct Rule {
    pub asked: Mutex<Vec<DecisionRequest>>,
    pub away: AtomicBool,
    /// Every decision takes one of these.
    pub may_decide: Semaphore,
}

#[derive(Clone, Debug)]
pub struct Shared(pub Arc<Rule>);

#[async_trait]
impl DecisionSource for Shared {
    async fn decide(&self, asked: &DecisionRequest) -> Result<Decision, NoDecision> {
        self.0.asked.lock().push(asked.clone());
        self.0.may_decide.acquire().await.expect("open").forget();
        if self.0.away.load(Ordering::SeqCst) {
            return Err(NoDecision::Unavailable("no server is there".to_owned()));
        }
        let count = asked.retry_count.unwrap_or(0);
        let refuse = |code, reason: &str| Decision {
            should_retry: false,
            next_retry_time: None,
            retry_count: count,
            retry_reason: reason.to_owned(),
            backoff_minutes: None,
            error_classification: Class::Permanent,
            error_code: Some(code),
        };
        Ok(if count >= 5 {
            refuse(DecisionErrorCode::MaxRetriesExceeded, "Maximum of 5 retries exceeded")
        } else if asked.submission_error.contains("INVALID") {
            refuse(DecisionErrorCode::PermanentError, &format!("Permanent error: {}", asked.submission_error))
        } else {
            Decision {
                should_retry: true,
                next_retry_time: Some(NEXT),
                retry_count: count + 1,
                retry_reason: format!("Retry {} of 5", count + 1),
                backoff_minutes: Some(7),
                error_classification: Class::Transient,
                error_code: None,
            }
        })
    }
}

pub struct Given {
    pub fake: FakeCamunda,
    pub rule: Arc<Rule>,
    pub stop: CancellationToken,
    pub working: JoinHandle<usize>,
}

/// A test worker's difference from the usual one.
pub struct Setup {
    pub rules: Rules,
    pub auth: Auth,
    pub tasks_max: usize,
    pub poll: Duration,
    pub stop_grace: Duration,
    /// Decisions that need no permission.
    pub decisions: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            rules: Rules::default(),
            auth: Auth::None,
            tasks_max: 8,
            poll: Duration::from_secs(20),
            stop_grace: Duration::from_secs(20),
            decisions: Semaphore::MAX_PERMITS,
        }
    }
}

impl Given {
    pub fn usual(version: Version) -> Self {
        Given::with(version, FakeCamunda::start(), Setup::default())
    }

    pub fn with(version: Version, fake: FakeCamunda, setup: Setup) -> Self {
        let rule = Arc::new(Rule {
            asked: Mutex::default(),
            away: AtomicBool::new(false),
            may_decide: Semaphore::new(setup.decisions),
        });
        let subscription = Subscription {
            kind: recado_camunda::TYPE_DEFAULT.to_owned(),
            worker: "tester".to_owned(),
            lock: LOCK,
            poll: setup.poll,
        };
        let limits = Limits { tasks_max: setup.tasks_max, lock: LOCK, stop_grace: setup.stop_grace };
        let (source, random) = (Shared(Arc::clone(&rule)), Random::from_seed(7));
        let worker = match version {
            Version::Eight => {
                let rest = Rest::new(&fake.url(""), setup.auth).expect("an address");
                Worker::new(Camunda8::new(rest, subscription), source, setup.rules, limits, random)
            }
            Version::Seven => {
                let rest = Rest::new(&fake.url("/engine-rest"), setup.auth).expect("an address");
                Worker::new(Camunda7::new(rest, subscription), source, setup.rules, limits, random)
            }
        };
        let stop = CancellationToken::new();
        let working = tokio::spawn(worker.run(stop.clone()));
        Given { fake, rule, stop, working }
    }

    pub fn asked(&self) -> usize {
        self.rule.asked.lock().len()
    }

    /// Waits until the rule was asked so often.
    pub async fn asked_times(&self, count: usize) {
        let looking = async {
            while self.asked() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), looking).await.expect("the rule is asked");
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.working.abort();
    }
}

/// A claim that failed for the first time.
pub fn claim(error: &str, retry_count: i64) -> Value {
    json!({"claimId": "CLM-1", "submissionError": error, "retryCount": retry_count, "patient": "Ana"})
}

/// Output variables as plain JSON, whichever engine holds them.
pub fn outputs(job: &CamundaTask) -> Value {
    let plain = |value: &Value| value.get("type").map_or(value.clone(), |_| value["value"].clone());
    job.outputs.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
}
