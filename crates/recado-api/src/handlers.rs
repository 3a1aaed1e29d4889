//! One file for each resource of the API: its verbs, from request to answer.

pub(crate) mod accounts;
pub(crate) mod alerts;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod bulk;
pub(crate) mod calls;
pub(crate) mod decisions;
pub(crate) mod dlq;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod holds;
pub(crate) mod jobs;
pub(crate) mod kpis;
pub(crate) mod leases;
pub(crate) mod metrics;
pub(crate) mod nodes;
pub(crate) mod probes;
pub(crate) mod providers;
pub(crate) mod routes;
pub(crate) mod tenants;
