//! Clients, operators and workers: each does one thing and writes down what it was told.

use std::sync::Arc;
use std::time::Duration;

use recado_core::{CompanyId, JobId, RouteName};
use recado_engine::admission::tenant_limits::TermsChange;
use recado_engine::attempt::worker_leases::{LeaseRequest, Report, Reported};
use recado_engine::dlq::bulk::{BulkAct, BulkOrder, BulkState, Chosen};
use recado_engine::dlq::operator::Replay;
use recado_engine::{Engine, ProviderAct, RouteAct, SubmitRefusal};
use recado_store::{Cancelled, DeadLetterFilter, Discarded, PageRequest};

use crate::history::{Act, Answer, Call, Event};
use crate::node::{COMPANIES, PROVIDERS, ROUTES};
use crate::plan::{BulkKind, Operation, Scope, Submission, WorkManner};
use crate::provider::data_of;
use crate::server::ms;
use crate::world::World;

/// A client or an operator waits this long for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client asks again with the same id as long as it was not told anything.
const TRIES_MAX: usize = 5;

const WORKER_LEASE: Duration = Duration::from_secs(6);

const ACTOR: Option<&str> = Some("operator");

/// Does one operation of a plan.
pub async fn perform(world: Arc<World>, operation: Operation) {
    match operation {
        Operation::Enqueue(submission) => enqueue(&world, submission).await,
        Operation::Work { node, max, manner } => work(&world, node, max, manner).await,
        // A bulk act and a walk take many calls.
        Operation::Bulk { node, kind, company, per_second } => {
            bulk(&world, node, kind, company, per_second).await;
        }
        // An act finishes although its client hangs up, as in the API.
        other => act(&world, other).await,
    }
}

async fn enqueue(world: &World, submission: Submission) {
    let body = if submission.invalid {
        "invalid".to_owned()
    } else {
        format!("{}-{}", submission.job, submission.body)
    };
    let data = data_of(submission.receiver.as_deref(), &body);
    let (job, text) = (submission.job.clone(), data.as_str().to_owned());
    for tried in 0..TRIES_MAX {
        let Some(process) = world.process(submission.node + tried) else {
            tokio::time::sleep(ms(1_000)).await;
            continue;
        };
        let asked = recado_engine::Submission {
            job_id: Some(job.clone()),
            delay: (submission.delay_ms > 0).then(|| ms(submission.delay_ms)),
            ttl: Some(ms(submission.ttl_ms)),
            priority: Some(submission.priority),
            ..recado_engine::Submission::new(submission.route, &submission.company, data.clone())
        };
        let asking = process.engine.intake.submit(vec![asked]);
        let answered = tokio::time::timeout(PATIENCE, asking).await.ok().and_then(Result::ok);
        match answered.and_then(|mut answers| answers.pop()) {
            Some(Ok(_)) => return world.history.add(Event::Acknowledged { job, data: text }),
            Some(Err(SubmitRefusal::Invalid(_) | SubmitRefusal::Conflict { .. })) => {
                return world.history.add(Event::Refused { job, data: text });
            }
            Some(Err(SubmitRefusal::NotStored(_))) | None => tokio::time::sleep(ms(500)).await,
        }
    }
}

fn company_id(name: &str) -> CompanyId {
    CompanyId::trusted(name)
}

async fn act(world: &World, operation: Operation) {
    match operation {
        Operation::Cancel { node, job } => {
            let Some(process) = world.process(node) else { return };
            let id = JobId::trusted(job.clone());
            if let Ok(Cancelled::Done) = process.engine.dlq.cancel(&id, ACTOR).await {
                world.history.add(Event::Acted { act: Act::Cancel, subject: job });
            }
        }
        Operation::Pause { node, scope, name } => {
            let Some(process) = world.process(node) else { return };
            pause(world, &process.engine, scope, &name, true).await;
        }
        Operation::Resume { node, scope, name } => {
            let Some(process) = world.process(node) else { return };
            pause(world, &process.engine, scope, &name, false).await;
        }
        Operation::Replay { node, pick, corrected } => {
            let Some((engine, job)) = dead_letter(world, node, pick).await else { return };
            let receiver = Some("calm");
            let data = corrected.then(|| data_of(receiver, &format!("{job}-corrected")));
            if let Ok(Replay::Started) = engine.dlq.replay(&job, data, None, ACTOR).await {
                world.history.add(Event::Acted { act: Act::Replay, subject: job.to_string() });
            }
        }
        Operation::Discard { node, pick } => {
            let Some((engine, job)) = dead_letter(world, node, pick).await else { return };
            if let Ok(Discarded::Done) = engine.dlq.discard(&job, "not wanted", ACTOR).await {
                world.history.add(Event::Acted { act: Act::Discard, subject: job.to_string() });
            }
        }
        Operation::Walk { node, page } => walk(world, node, page).await,
        Operation::LiftHolds { node } => {
            let Some(process) = world.process(node) else { return };
            for hold in process.engine.gate.outside_holds() {
                world.history.add(Event::Asked { act: Act::LiftHold, subject: hold.provider.to_string() });
                if let Ok(Some(lifted)) = process.engine.gate.lift_hold(&hold.id, None, ACTOR).await {
                    let subject = lifted.provider.to_string();
                    world.history.add(Event::Acted { act: Act::LiftHold, subject });
                }
            }
        }
        Operation::Enqueue(_) | Operation::Work { .. } | Operation::Bulk { .. } => {}
    }
}

/// Returns true when it is done.
async fn pause(world: &World, engine: &Engine, scope: Scope, name: &str, paused: bool) -> bool {
    let act = match (scope, paused) {
        (Scope::Provider, true) => Act::PauseProvider,
        (Scope::Provider, false) => Act::ResumeProvider,
        (Scope::Route, true) => Act::PauseRoute,
        (Scope::Route, false) => Act::ResumeRoute,
        (Scope::Company, true) => Act::PauseCompany,
        (Scope::Company, false) => Act::ResumeCompany,
    };
    world.history.add(Event::Asked { act, subject: name.to_owned() });
    let done = match scope {
        Scope::Provider => {
            let act = if paused { ProviderAct::Pause } else { ProviderAct::Resume };
            engine.gate.act_on_provider(name, act, None, ACTOR).await.is_ok()
        }
        Scope::Route => {
            let act = if paused { RouteAct::Pause } else { RouteAct::Resume };
            engine.gate.act_on_route(name, act, None, ACTOR).await.is_ok()
        }
        Scope::Company => {
            let change = TermsChange { paused: Some(paused), ..TermsChange::default() };
            engine.gate.set_tenant(&company_id(name), change, ACTOR).await.is_ok()
        }
    };
    if done {
        world.history.add(Event::Acted { act, subject: name.to_owned() });
    }
    done
}

async fn dead_letter(world: &World, node: usize, pick: usize) -> Option<(Engine, JobId)> {
    let process = world.process(node)?;
    let page = PageRequest { before: None, limit: 100 };
    let page = process.engine.inspect().dead_letters(DeadLetterFilter::default(), page).await.ok()?;
    let entry = page.items.get(pick % page.items.len().max(1))?;
    Some((process.engine, entry.job_id.clone()))
}

/// Reads all dead letters page by page, with time between the pages.
async fn walk(world: &World, node: usize, limit: usize) {
    let walk = world.next_walk();
    world.history.add(Event::WalkBegan { walk });
    let mut before = None;
    loop {
        let Some(process) = world.process(node) else { return };
        let page = PageRequest { before, limit };
        let Ok(page) = process.engine.inspect().dead_letters(DeadLetterFilter::default(), page).await else {
            tokio::time::sleep(ms(500)).await;
            continue;
        };
        for entry in page.items {
            world.history.add(Event::WalkShowed { walk, job: entry.job_id.to_string() });
        }
        before = page.next;
        if before.is_none() {
            return world.history.add(Event::WalkEnded { walk });
        }
        tokio::time::sleep(ms(700)).await;
    }
}

async fn bulk(world: &World, node: usize, kind: BulkKind, company: Option<String>, per_second: u32) {
    let Some(process) = world.process(node) else { return };
    let filter =
        DeadLetterFilter { company: company.as_deref().map(company_id), ..DeadLetterFilter::default() };
    let act = match kind {
        BulkKind::Replay => BulkAct::Replay,
        BulkKind::Discard => BulkAct::Discard,
    };
    let order = BulkOrder {
        act,
        filter: Chosen { entries: filter, job_ids: Vec::new() },
        rate_per_second: Some(per_second),
        canary: None,
        words: Some("in bulk".into()),
        actor: ACTOR.map(Into::into),
    };
    let asked_at = world.history.now();
    let starting = tokio::time::timeout(PATIENCE, process.engine.dlq.start_bulk(order)).await;
    let Ok(Ok(Ok(begun))) = starting else { return };
    let bulk = begun.id.to_string();
    world.history.add(Event::BulkBegan { bulk: bulk.clone(), company, asked_at });
    loop {
        tokio::time::sleep(ms(1_000)).await;
        let Some(process) = world.process(node) else { continue };
        let looking = tokio::time::timeout(PATIENCE, process.engine.dlq.bulk(&begun.id)).await;
        let Ok(Ok(Some(seen))) = looking else { continue };
        if seen.state != BulkState::Running {
            let figures = &seen.figures;
            return world.history.add(Event::BulkEnded {
                bulk,
                state: seen.state.as_str().to_owned(),
                done: figures.done,
                skipped: figures.skipped,
                failed: figures.failed,
                total: figures.total,
            });
        }
    }
}

async fn work(world: &World, node: usize, max: usize, manner: WorkManner) {
    let Some(process) = world.process(node) else { return };
    let request = LeaseRequest {
        routes: vec![RouteName::trusted("work")],
        max,
        wait: Duration::from_secs(1),
        lease: WORKER_LEASE,
        worker_id: "worker".into(),
    };
    let leasing = tokio::time::timeout(PATIENCE, process.engine.attempts.lease(&request)).await;
    let Ok(Ok(leases)) = leasing else { return };
    for lease in leases {
        let call = world.providers.next_call();
        world.history.add(Event::Called(Call {
            call,
            node: "worker".to_owned(),
            life: 0,
            provider: "work".to_owned(),
            receiver: None,
            job: lease.job.id.to_string(),
            company: lease.job.company.to_string(),
            route: lease.job.route.to_string(),
            attempt: lease.attempt,
            key: lease.job.id.to_string(),
            data: lease.job.data.as_str().to_owned(),
            takes: manner != WorkManner::Fail,
        }));
        let succeeded = Report::Succeeded { result: None };
        let report = match manner {
            WorkManner::Vanish => continue,
            WorkManner::Succeed => succeeded,
            WorkManner::Fail => Report::Failed {
                code: Some("503".into()),
                message: "not now".into(),
                stack_trace: None,
                retry_after: None,
            },
            WorkManner::Extend => {
                tokio::time::sleep(WORKER_LEASE / 2).await;
                let extending = process.engine.attempts.extend(lease.token, WORKER_LEASE);
                if !matches!(tokio::time::timeout(PATIENCE, extending).await, Ok(Ok(Some(_)))) {
                    continue;
                }
                tokio::time::sleep(WORKER_LEASE * 3 / 4).await;
                succeeded
            }
            WorkManner::Late => {
                tokio::time::sleep(WORKER_LEASE * 2).await;
                succeeded
            }
        };
        let reported_at = world.history.now();
        let reporting = process.engine.attempts.report(vec![(lease.token, report)]);
        if let Ok(Ok(reported)) = tokio::time::timeout(PATIENCE, reporting).await
            && reported != [Reported::Stale]
        {
            let answer = if manner == WorkManner::Fail { Answer::Transient } else { Answer::Ok };
            world.history.add_at(reported_at, Event::Answered { call, answer, wait_ms: 1_000 });
        }
    }
}

/// A worker that does its work until the end of the run.
pub async fn work_on(world: Arc<World>) {
    loop {
        work(&world, 0, 10, WorkManner::Succeed).await;
        tokio::time::sleep(ms(1_000)).await;
    }
}

/// Resumes everything.
pub async fn resume_all(world: &World) {
    let scopes =
        [(Scope::Provider, &PROVIDERS[..]), (Scope::Route, &ROUTES[..]), (Scope::Company, &COMPANIES[..])];
    for (scope, names) in scopes {
        for name in names {
            // What was under way when the faults ended may still fail.
            while let Some(process) = world.process(0)
                && !pause(world, &process.engine, scope, name, false).await
            {
                tokio::time::sleep(ms(500)).await;
            }
        }
    }
}

/// Enqueues a job of each kind after all faults are over: each has to be tried soon.
pub async fn probe(world: &World) {
    let mut number = 0;
    // A receiver that is broken for good, at the same time.
    for company in COMPANIES {
        enqueue(world, probe_of(world, format!("noise-{company}"), "hook", company, Some("loud"))).await;
    }
    tokio::time::sleep(ms(1_000)).await;
    for route in ROUTES {
        let receivers: &[Option<&str>] =
            if route == "hook" { &[Some("calm"), Some("plain")] } else { &[None] };
        for (company, receiver) in
            COMPANIES.iter().flat_map(|company| receivers.iter().map(move |one| (company, one)))
        {
            number += 1;
            enqueue(world, probe_of(world, format!("probe-{number}"), route, company, *receiver)).await;
        }
    }
}

fn probe_of(
    world: &World,
    job: String,
    route: &'static str,
    company: &str,
    receiver: Option<&str>,
) -> Submission {
    Submission {
        node: job.len() % world.plan.nodes,
        job,
        route,
        company: company.to_owned(),
        receiver: receiver.map(str::to_owned),
        body: 0,
        delay_ms: 0,
        ttl_ms: 86_400_000,
        priority: 5,
        invalid: false,
    }
}
