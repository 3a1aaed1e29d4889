//! Measures the cost of turns, breakers and limits, and checks that they hold when a provider is down or a
//! company is loud.
//!
//! Everything runs in this process, on a store on disk. The cost of a job is a difference of two drains, the
//! best of several each: a disturbance on a shared machine makes a drain slower and never faster.

mod claims;
mod drains;
mod outage;
mod turns;

pub use claims::parked_claim_us;
pub use drains::{Arrival, cost_by_companies};

use super::{BenchOptions, Failed, Report};

pub async fn measure(options: &BenchOptions, progress: impl Fn(&str)) -> Result<Report, Failed> {
    let mut report = Report::default();
    progress("a job's way by number of companies");
    drains::by_companies(options, &mut report).await?;
    progress("claims beside jobs that are parked");
    claims::beside_parked(options, &mut report).await?;
    progress("claims beside companies that are idle");
    claims::beside_idle(options, &mut report).await?;
    progress("ten jobs behind twenty thousand of another company");
    turns::behind_a_queue(options, &mut report).await?;
    progress("other providers while one is down");
    outage::others_meanwhile(options, &mut report).await?;
    Ok(report)
}
