//! Timeouts that are not turned against the other side when this process stood still.
//!
//! A process that was stopped, or whose machine slept, finds its timers over when it goes on, before it has read what came
//! meanwhile. Then the answer of a healthy provider would count as none, and its job would be delivered again.

use std::pin::pin;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

/// Work may go on after its end for as long as that was noticed late, and no longer than this: time to read what has come.
const GRACE_MAX: Duration = Duration::from_secs(1);

/// Waits for `work`, no longer than `limit` from now.
pub async fn within<F: Future>(limit: Duration, work: F) -> Result<F::Output, Elapsed> {
    let far_off = Duration::from_hours(24 * 365);
    until(Instant::now() + limit.min(far_off), work).await
}

/// Waits for `work`, no longer than until `end`.
pub async fn until<F: Future>(end: Instant, work: F) -> Result<F::Output, Elapsed> {
    let mut work = pin!(work);
    if let Ok(done) = timeout_at(end, &mut work).await {
        return Ok(done);
    }
    timeout(end.elapsed().min(GRACE_MAX), work).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_came_while_the_process_stood_still_is_read() {
        let work = async {
            std::thread::sleep(Duration::from_millis(100));
            // The timer is over by now; the answer is found a turn later.
            tokio::task::yield_now().await;
            "answer"
        };
        assert_eq!(within(Duration::from_millis(50), work).await.unwrap(), "answer");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_is_given_up() {
        let began = Instant::now();
        assert!(within(Duration::from_secs(2), std::future::pending::<()>()).await.is_err());
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_without_an_end_is_waited_for() {
        assert_eq!(within(Duration::MAX, async { 7 }).await.unwrap(), 7);
    }
}
