//! Many callers, few requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recado_client::wire::Code;
use recado_client::wire::jobs::JobQuery;
use recado_client::{Client, ClientError, GroupLimits, GroupedEnqueuer};
use recado_core::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::client::job;
use crate::given::{Kind, Server, Setup, ms, on_each_store};

/// Passes bytes on, and counts the requests that go by.
async fn counting_proxy(server: &Server) -> (String, Arc<AtomicUsize>) {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let (requests, upstream) = (Arc::new(AtomicUsize::new(0)), server.address);
    let counted = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = proxy.accept().await.unwrap();
            let far = TcpStream::connect(upstream).await.unwrap();
            let requests = counted.clone();
            tokio::spawn(async move {
                let (mut far_read, mut far_write) = far.into_split();
                let (mut near_read, mut near_write) = near.split();
                let up = async {
                    let mut bytes = vec![0; 256 << 10];
                    while let Ok(length @ 1..) = near_read.read(&mut bytes).await {
                        let posts = bytes[..length]
                            .windows(20)
                            .filter(|part| part == b"POST /v1/jobs/batch ")
                            .count();
                        requests.fetch_add(posts, Ordering::Relaxed);
                        // As slow as a disk: this is when the others gather.
                        tokio::time::sleep(ms(5)).await;
                        far_write.write_all(&bytes[..length]).await.unwrap();
                    }
                };
                let down = tokio::io::copy(&mut far_read, &mut near_write);
                let _ = tokio::join!(up, down);
            });
        }
    });
    (url, requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_callers_share_a_few_requests_and_each_gets_its_own_answer() {
    let server = Server::start(Setup { kind: Kind::Embedded, ..Setup::default() }).await;
    let (url, requests) = counting_proxy(&server).await;
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
async fn a_lone_caller_waits_for_nobody() {
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
            let (url, requests) = counting_proxy(server).await;
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
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{free}"), None).unwrap();
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
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let upstream = server.address;
    tokio::spawn(async move {
        // The first connection passes its request on and hangs up; the others work.
        let (mut near, _) = proxy.accept().await.unwrap();
        let mut far = TcpStream::connect(upstream).await.unwrap();
        let mut bytes = vec![0; 64 << 10];
        let length = near.read(&mut bytes).await.unwrap();
        far.write_all(&bytes[..length]).await.unwrap();
        assert!(far.read(&mut bytes).await.unwrap() > 0);
        drop(near);
        loop {
            let (mut near, _) = proxy.accept().await.unwrap();
            let mut far = TcpStream::connect(upstream).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let enqueuer = GroupedEnqueuer::start(Client::new(&url, None).unwrap(), GroupLimits::default());
    assert!(enqueuer.enqueue(job("work", "1")).await.unwrap().duplicate, "the first one had arrived");
    assert_eq!(server.client().jobs(&JobQuery::default()).await.unwrap().items.len(), 1);
}
