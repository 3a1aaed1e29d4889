//! Many callers, few requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recado_client::wire::Code;
use recado_client::wire::jobs::JobQuery;
use recado_client::{Client, ClientError, GroupLimits, GroupedEnqueuer};
use recado_core::Status;
use recado_testkit::fault_proxy::Proxy;
use recado_testkit::free_port;
use tokio::task::JoinSet;

use crate::client::job;
use crate::given::{Kind, Server, Setup, ms, on_each_store};

/// Passes bytes on, and counts the requests that go by.
fn counting_proxy(server: &Server) -> (Proxy, String, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let proxy = Proxy::inspecting(server.address.port(), move |chunk| {
        let posts = chunk.windows(20).filter(|part| part == b"POST /v1/jobs/batch ").count();
        counted.fetch_add(posts, Ordering::Relaxed);
        // As slow as a disk: this is when the others gather.
        std::thread::sleep(ms(5));
    });
    let url = format!("http://{}", proxy.address());
    (proxy, url, requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_callers_share_a_few_requests_and_each_gets_its_own_answer() {
    let server = Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await;
    let (_proxy, url, requests) = counting_proxy(&server);
    let enqueuer = GroupedEnqueuer::start(Client::new(&url, None).unwrap(), GroupLimits::default());
    let mut callers = JoinSet::new();
    for n in 0..1_000 {
        let enqueuer = enqueuer.clone();
        callers.spawn(async move {
            let route = if n % 10 == 3 { "nowhere" } else { "work" };
            (n, enqueuer.enqueue(job(route, &format!("{{\"n\":\n {n}}}")).with_id(format!("g{n}"))).await)
        });
    }
    while let Some(answered) = callers.join_next().await {
        let (n, outcome) = answered.unwrap();
        match outcome {
            Ok(accepted) => {
                assert_eq!((n % 10 != 3, accepted.job_id.as_str()), (true, format!("g{n}").as_str()))
            }
            Err(error) => assert_eq!((n % 10, error.code()), (3, Some(Code::ValidationFailed)), "{error}"),
        }
    }
    let requests = requests.load(Ordering::Relaxed);
    assert!((1..=100).contains(&requests), "{requests} requests for a thousand jobs");
    assert_eq!(server.client().job("g999").await.unwrap().data.unwrap().as_str(), "{\"n\":  999}");
}

#[tokio::test]
async fn a_lone_caller_does_not_wait() {
    let server = Server::plain().await;
    let enqueuer = GroupedEnqueuer::start(server.client(), GroupLimits::default());
    let mut took = Vec::new();
    for _ in 0..20 {
        let started = std::time::Instant::now();
        assert_eq!(enqueuer.enqueue(job("work", "1")).await.unwrap().status, Status::Queued);
        took.push(started.elapsed());
    }
    took.sort_unstable();
    assert!(took[10] < ms(20), "the median of one at a time is {:?}", took[10]);
}

#[tokio::test]
async fn a_group_is_bounded_by_count_and_by_bytes() {
    on_each_store(async |server: &Server| {
        for limits in [
            GroupLimits { group_jobs_max: 3, ..GroupLimits::default() },
            GroupLimits { group_max_bytes: 300, ..GroupLimits::default() },
            GroupLimits { queue_jobs_max: 1, ..GroupLimits::default() },
        ] {
            let (_proxy, url, requests) = counting_proxy(server);
            let enqueuer = GroupedEnqueuer::start(Client::new(&url, None).unwrap(), limits);
            let all = (0..30).map(|_| enqueuer.enqueue(job("work", "\"x\"")));
            for outcome in futures_util::future::join_all(all).await {
                outcome.unwrap();
            }
            let requests = requests.load(Ordering::Relaxed);
            assert!((8..=30).contains(&requests), "{requests} requests within {limits:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn when_the_server_is_gone_every_caller_hears_of_it() {
    let client = Client::new(&format!("http://127.0.0.1:{}", free_port()), None).unwrap();
    let enqueuer = GroupedEnqueuer::start(client, GroupLimits::default());
    let all = (0..50).map(|_| enqueuer.enqueue(job("work", "1")));
    let outcomes =
        tokio::time::timeout(Duration::from_secs(10), futures_util::future::join_all(all)).await.unwrap();
    assert_eq!(outcomes.len(), 50);
    for outcome in outcomes {
        assert!(matches!(outcome, Err(ClientError::Connect { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn g15_a_group_whose_answer_was_lost_is_sent_again_and_enqueued_once() {
    let server = Server::plain().await;
    let proxy = Proxy::to(server.address.port());
    proxy.cut_answers(1);
    let url = format!("http://{}", proxy.address());
    let enqueuer = GroupedEnqueuer::start(Client::new(&url, None).unwrap(), GroupLimits::default());
    assert!(enqueuer.enqueue(job("work", "1")).await.unwrap().duplicate, "the first one had arrived");
    assert_eq!(server.client().jobs(&JobQuery::default()).await.unwrap().items.len(), 1);
}
