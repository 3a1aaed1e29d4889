//! Looks at everything when a run ends, past all nodes.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::{DeadLetterState, Status};
use recado_engine::Clock;
use recado_engine::dlq::bulk::BulkState;
use recado_store::prelude::*;
use recado_store::{AuditSpan, DeadLetterFilter, JobFilter, JobView, Namespace, PageRequest};

use crate::history::Event;
use crate::node::{COMPANIES, PROVIDERS, ROUTES};
use crate::world::World;

/// A job that is due for this long and waits has been forgotten by all nodes.
const DUE_FOR_MS: i64 = 10_000;

const ALL: PageRequest = PageRequest { before: None, limit: 100_000 };

async fn jobs(world: &World) -> Vec<JobView> {
    let (store, now) = (world.server.store(), world.clock().now());
    store.jobs(JobFilter::default(), ALL, now).await.map(|page| page.items).unwrap_or_default()
}

fn is_due(world: &World, view: &JobView) -> bool {
    world.clock().now().as_millis() - view.job.due_at.as_millis() >= DUE_FOR_MS
}

fn has_ended(view: &JobView) -> bool {
    matches!(view.status, Status::Sent | Status::Cancelled | Status::Discarded | Status::Failed)
}

/// Returns true when nothing moves any more: every job has ended or is due later, and no bulk act runs.
pub async fn is_over(world: &World) -> bool {
    let now = world.clock().now();
    let waits =
        |view: &JobView| !has_ended(view) && view.job.due_at <= now.plus(std::time::Duration::from_secs(600));
    if jobs(world).await.iter().any(waits) {
        return false;
    }
    let Some(process) = world.process(0) else { return true };
    let bulks = process.engine.dlq.bulks().await.unwrap_or_default();
    bulks.iter().all(|bulk| bulk.state != BulkState::Running)
}

/// Writes down what the store has, and what the nodes believe.
pub async fn record(world: &World) {
    let store = world.server.store();
    let add = |event| world.history.add(event);
    let entries = store.dead_letters(DeadLetterFilter::default(), ALL).await;
    let entries = entries.map(|page| page.items).unwrap_or_default();
    let listed: BTreeSet<String> = entries.iter().map(|entry| entry.job_id.to_string()).collect();
    for view in jobs(world).await {
        add(Event::Found {
            job: view.job.id.to_string(),
            status: view.status.as_str().to_owned(),
            is_due: is_due(world, &view),
            is_listed: listed.contains(view.job.id.as_str()),
        });
    }
    for entry in entries {
        let is_dead = entry.state == DeadLetterState::Dead;
        add(Event::FoundDead {
            job: entry.job_id.to_string(),
            reason: entry.failure.reason.as_str().to_owned(),
            cause: if is_dead { entry.cause.as_str().to_owned() } else { "replaying".to_owned() },
            attempts: entry.attempts.len() as u64,
        });
    }
    let span = AuditSpan { part: 0, after: 0, newest_first: false };
    for record in store.audit_records(span, usize::MAX).await.unwrap_or_default() {
        let event = record.event;
        let route = Some(event.route).filter(|route| !route.is_empty());
        add(Event::Audit {
            number: record.number,
            kind: event.kind.as_str().to_owned(),
            job: event.job_id.as_deref().map(str::to_owned),
            subject: event.provider.or(route).or(event.company_id).unwrap_or_default().into(),
        });
    }
}

/// Writes down what each node takes for paused, and what the store says.
pub async fn record_views(world: &World) {
    let in_store = paused_in(world).await;
    for process in world.processes() {
        let (node, paused) = (process.link.name.clone(), paused_at(&process.engine));
        world.history.add(Event::View { node, paused, in_store: in_store.clone() });
    }
}

/// Looks at the deliveries that nodes count as running this often: a claim on its way, which has slots set aside, is over
/// by the last time.
const RUNNING_LOOKS: u32 = 10;

/// Writes down the fewest deliveries that each node counts as running, of several looks.
pub async fn record_running(world: &World) {
    let mut fewest = BTreeMap::new();
    for _ in 0..RUNNING_LOOKS {
        for process in world.processes() {
            for provider in PROVIDERS {
                let Some(view) = process.engine.gate.provider_view(provider) else { continue };
                let least = fewest.entry((process.link.name.clone(), provider)).or_insert(view.running);
                *least = view.running.min(*least);
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    }
    for ((node, provider), running) in fewest {
        let (provider, deliveries) = (provider.to_owned(), running as u64);
        world.history.add(Event::Running { node, provider, deliveries });
    }
}

/// Lists what is paused according to the store, sorted.
async fn paused_in(world: &World) -> Vec<String> {
    const PLACES: [(&str, Namespace); 3] = [
        ("provider", Namespace::new("providers")),
        ("route", Namespace::new("routes")),
        ("company", Namespace::new("tenants")),
    ];
    let (store, now) = (world.server.store(), world.clock().now());
    let mut paused = Vec::new();
    for (scope, namespace) in PLACES {
        for entry in store.kv_list(namespace, now).await.unwrap_or_default() {
            let value: serde_json::Value = entry.value.parse().unwrap_or_default();
            if !matches!(
                value.get("paused"),
                None | Some(serde_json::Value::Null | serde_json::Value::Bool(false))
            ) {
                paused.push(format!("{scope} {}", entry.key));
            }
        }
    }
    paused.sort_unstable();
    paused
}

/// Lists what a process takes for paused, sorted.
fn paused_at(engine: &recado_engine::Engine) -> Vec<String> {
    let mut paused = Vec::new();
    for name in PROVIDERS {
        if engine.gate.provider_view(name).is_some_and(|view| view.paused.is_some()) {
            paused.push(format!("provider {name}"));
        }
    }
    for name in ROUTES {
        if engine.gate.pause_of(&recado_core::RouteName::trusted(name)).is_some() {
            paused.push(format!("route {name}"));
        }
    }
    for name in COMPANIES {
        if engine.gate.tenants.terms(name).paused {
            paused.push(format!("company {name}"));
        }
    }
    paused.sort_unstable();
    paused
}
