//! Simulations: one at a time, on a thread of its own with the lowest priority, gone when its caller is.

use std::ops::ControlFlow;
use std::time::Instant;

use recado_core::Policy;
use recado_engine::Route;
use recado_simulate::{Listener, Load, Progress, Scenario, Stopped};
use recado_wire::read::{self, Faults, Read, suggest};
use recado_wire::simulations::{Simulation, SimulationRequest, WAITING_MAX, WORK_MAX};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use crate::handlers::prelude::*;

/// Simulate a route while its provider is down: the engine itself in virtual time, with made-up jobs. It sends nothing
/// and keeps nothing.
#[utoipa::path(
    post, path = "/v1/simulations", tag = "routes", operation_id = "simulate",
    request_body = SimulationRequest,
    responses((status = 200, body = Simulation), WriteProblems)
)]
pub async fn simulate(api: ApiState, request: Request) -> ApiResult {
    let received = body::json(&api, request).await?;
    let Read { value: request, mut faults } = read::body::<SimulationRequest>(received.text()?)?;
    let routes = api.engine.routes();
    let Some(route) = routes.get(&request.route) else {
        faults.note("route", format!("is not a known route; {}", suggest(&request.route, &routes.names())));
        return Err(faults.into_vec().into());
    };
    let policies = policies(&api, &request, &route.terms.policy, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_vec().into());
    }
    let Some(turn) = api.simulation_turn() else {
        return Err(ApiError::busy("another simulation is running; ask again when it has ended"));
    };
    let scenario = scenario(&api, route, Load::from(&request));
    let gone = CancellationToken::new();
    let _gone_with_caller = gone.clone().drop_guard();
    let closing = api.options.closing.clone();
    let began = Instant::now();
    let listen = move |progress: Progress| {
        let go_on = !gone.is_cancelled() && !closing.is_cancelled() && began.elapsed() < WORK_MAX;
        match (go_on, progress.waiting > WAITING_MAX) {
            (true, false) => ControlFlow::Continue(()),
            (true, true) => ControlFlow::Break(Stopped::TooManyWait),
            (false, _) => ControlFlow::Break(Stopped::ByCaller),
        }
    };
    match run(scenario, request, policies, turn, listen).await? {
        Ok(simulation) => answer::ok(&simulation),
        Err(Stopped::ByCaller) if api.options.closing.is_cancelled() => {
            Err(ApiError::new(Code::Stopping, "the simulation was stopped because the server is stopping"))
        }
        Err(Stopped::ByCaller) => Err(ApiError::busy(format!(
            "the simulation was stopped after {} s; simulate fewer jobs, or run `recado simulate` on another machine",
            WORK_MAX.as_secs()
        ))),
        Err(Stopped::TooManyWait) => Err(too_many_wait(faults)),
        Err(Stopped::Failed(why)) => {
            tracing::error!(why, "A simulation failed");
            Err(ApiError::new(Code::Internal, "the simulation failed; the log says more"))
        }
    }
}

/// Refuses for good: the same request would always end so.
fn too_many_wait(mut faults: Faults) -> ApiError {
    let message = format!(
        "makes more than {WAITING_MAX} jobs wait at once, which is the most that a server keeps in memory; lower it, \
         shorten the outage, or run `recado simulate` on another machine"
    );
    faults.note("ratePerSecond", message);
    faults.into_vec().into()
}

/// Returns the policies to simulate: the one that is given or the route's own, and the one to compare it with.
fn policies(api: &ApiState, request: &SimulationRequest, own: &Policy, faults: &mut Faults) -> Vec<Policy> {
    let mut read = |name: &str, text: &Option<String>| {
        let text = text.as_ref()?;
        let Some(read_policy) = api.options.read_policy else {
            faults.note(name, "cannot be read here; leave it out");
            return None;
        };
        read_policy(text, own).map_err(|found| faults.note(name, found.join("; "))).ok()
    };
    let first = read("policy", &request.policy).unwrap_or_else(|| own.clone());
    [first].into_iter().chain(read("against", &request.against)).collect()
}

fn scenario(api: &ApiState, route: &Route, load: Load) -> Scenario {
    let views = route.providers().filter_map(|name| api.engine.gate.provider_view(name));
    Scenario {
        route: route.clone(),
        providers: views.map(|view| (view.name, view.terms)).collect(),
        settings: api.engine.settings().clone(),
        load,
    }
}

/// Runs a simulation on a thread of its own. The turn is over when the thread has ended.
async fn run(
    scenario: Scenario,
    request: SimulationRequest,
    policies: Vec<Policy>,
    turn: OwnedSemaphorePermit,
    mut listen: impl FnMut(Progress) -> ControlFlow<Stopped> + Send + 'static,
) -> ApiResult<Result<Simulation, Stopped>> {
    let (sender, ended) = oneshot::channel();
    let work = move || {
        lower_priority();
        let listener: Listener<'_> = &mut listen;
        let simulated = recado_simulate::simulate(&scenario, &request, &policies, listener);
        drop(turn);
        let _ = sender.send(simulated);
    };
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "A simulation ended without a result");
        ApiError::new(Code::Internal, "the simulation was cut off; the log says more")
    };
    std::thread::Builder::new().name("simulation".to_owned()).spawn(work).map_err(|error| failed(&error))?;
    ended.await.map_err(|error| failed(&error))
}

/// Lets deliveries go first. On Linux a priority is a thread's own; elsewhere it would be the whole server's.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_always_fails_is_refused_for_good() {
        let problem = too_many_wait(Faults::default()).into_problem();
        assert_eq!((problem.status, &*problem.code), (422, "validation_failed"));
        assert_eq!(problem.errors[0].pointer, "/ratePerSecond");
    }
}
