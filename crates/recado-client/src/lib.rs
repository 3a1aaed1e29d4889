//! Typed client of the HTTP API.
//!
//! ```no_run
//! # async fn example() -> Result<(), recado_client::ClientError> {
//! use recado_client::{Client, JobRequest, Payload};
//!
//! let recado = Client::new("http://127.0.0.1:7400", None)?;
//! let data = Payload::trusted(r#"{"script":["ok"]}"#);
//! let accepted = recado.enqueue(JobRequest::new("sandbox", "acme", data)).await?;
//! println!("{} is {}", accepted.job_id, accepted.status);
//! # Ok(())
//! # }
//! ```
//!
//! Every job gets its id here when the caller gives none. So a request whose answer was lost can be sent
//! again without enqueueing twice, and is: connection errors are retried where that is safe.
//!
//! | file | what |
//! |---|---|
//! | [`client`] | the settings, and the way every call takes |
//! | [`api`] | one row per call |
//! | [`archive`] | many dead letters at once: export, import |
//! | [`call`] | sending, retrying, reading the answer |
//! | [`error`] | what can go wrong, by what to do next |
//! | [`events`] | the stream of events, which outlives its connections |
//! | [`sse`] | reading Server-Sent Events |
//! | [`grouped`] | many callers, few requests |

mod api;
mod archive;
mod call;
mod client;
mod error;
mod events;
mod grouped;
mod sse;

pub use archive::Export;
pub use client::Client;
pub use error::ClientError;
pub use events::{EventStream, StreamItem};
pub use grouped::{GroupLimits, GroupedEnqueuer};
pub use recado_core::Payload;
pub use recado_wire as wire;
pub use recado_wire::jobs::JobRequest;
