//! Commands about jobs: send them, look at them, decide about those that failed.

pub mod call;
pub mod camunda;
pub mod decide;
pub mod dlq;
pub mod jobs;
pub mod send;
pub mod timeline;
