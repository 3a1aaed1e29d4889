//! Commands that hold back or let go: providers, routes, tenants, holds, accounts, endpoints.

pub mod accounts;
pub mod endpoints;
pub mod holds;
pub mod providers;
pub mod routes;
pub mod tenants;
