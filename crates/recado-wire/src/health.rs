//! Probes: is the process alive, is it ready for work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer to `GET /healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    #[schema(example = "alive")]
    pub status: String,
    pub version: String,
}

/// Answer to `GET /readyz`: 200 when ready, 503 when not. Without a valid token, where one is configured,
/// the answer holds only `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    pub status: Ready,
    /// Reasons why it is not ready, or why a part of the store does not answer, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<JobCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    Ready,
    NotReady,
}

/// Jobs by state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCounts {
    /// Waiting to be due.
    pub delayed: u64,
    /// Due, waiting for their turn.
    pub ready: u64,
    pub leased: u64,
    pub dead_letters: u64,
    /// Ended and still remembered.
    pub ended: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreState {
    pub kind: String,
    /// Loss of acknowledged writes that a crash of the store's machine can cause: `fsync` (nothing),
    /// `aof-everysec` (the last two seconds), `aof-no` (the last half a minute), `memory` (everything) or
    /// `unknown` (the store does not tell).
    pub durability: String,
    pub size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Reason why new jobs are refused right now, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<String>,
}
