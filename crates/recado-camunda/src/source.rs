//! Sources of decisions.

use std::fmt;

use async_trait::async_trait;
use recado_client::{Client, ClientError};
use recado_wire::Code;
use recado_wire::decisions::{Decision, DecisionRequest};

use crate::variables::faults_in_words;

/// The reason for a missing decision, by what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoDecision {
    /// The claim itself cannot be decided on: a person has to correct it.
    Refused(String),
    /// No server could decide right now. It says nothing about the claim.
    Unavailable(String),
}

/// The claims retry rule, asked locally or over HTTP.
#[async_trait]
pub trait DecisionSource: Send + Sync + fmt::Debug {
    async fn decide(&self, request: &DecisionRequest) -> Result<Decision, NoDecision>;
}

/// A Recado server, which puts every decision on record.
#[async_trait]
impl DecisionSource for Client {
    async fn decide(&self, request: &DecisionRequest) -> Result<Decision, NoDecision> {
        Client::decide(self, request).await.map_err(|error| match &error {
            // A route that the server does not know is our setting and not the claim's fault.
            ClientError::Problem(problem) if problem.errors.iter().any(|it| it.pointer == "/route") => {
                NoDecision::Unavailable(error.to_string())
            }
            ClientError::Problem(problem) => match problem.known_code() {
                Some(Code::ValidationFailed) => NoDecision::Refused(faults_in_words(&problem.errors)),
                Some(Code::PayloadTooLarge) => NoDecision::Refused(
                    "submissionError is longer than Recado takes; keep its first lines".to_owned(),
                ),
                _ => NoDecision::Unavailable(error.to_string()),
            },
            _ => NoDecision::Unavailable(error.to_string()),
        })
    }
}
