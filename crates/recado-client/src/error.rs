//! Errors, split by what the caller does next.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use recado_wire::{Code, Problem};

/// Cheap enough to clone: one failed batch is every caller's failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server understood, and said no.
    #[error("{}", ProblemText(.0))]
    Problem(Box<Problem>),
    /// No server is there, or the connection ended.
    #[error("cannot reach {url}: {cause}; is `recado serve` running at {url}?")]
    Connect { url: String, cause: String },
    /// The result is not known.
    #[error("{url} did not answer within {} s", .after.as_secs_f32())]
    Timeout { url: String, after: Duration },
    /// The server that answered does not speak this API.
    #[error("cannot read the answer of {url}: {cause}; is it a recado server of this version?")]
    Decode { url: String, cause: String },
    /// This client cannot be made like this.
    #[error("{0}")]
    Setup(String),
}

impl ClientError {
    /// The problem's code, where the server said no with one that is known here.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Problem(problem) => problem.known_code(),
            _ => None,
        }
    }

    pub(crate) fn of(error: &reqwest::Error, url: &str, timeout: Duration) -> Self {
        let url = url.to_owned();
        if error.is_timeout() {
            ClientError::Timeout { url, after: timeout }
        } else {
            ClientError::Connect { url, cause: root_of(error) }
        }
    }
}

/// The innermost words: the outer ones only say that sending failed.
fn root_of(error: &reqwest::Error) -> String {
    let mut root: &dyn Error = error;
    while let Some(inner) = root.source() {
        root = inner;
    }
    root.to_string()
}

/// A problem as one text: what, and every fault on a line of its own.
struct ProblemText<'a>(&'a Problem);

impl fmt::Display for ProblemText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { title, detail, code, errors, .. } = self.0;
        write!(f, "{title}: {detail} ({code})")?;
        if errors.len() > 1 {
            for fault in errors {
                write!(f, "\n  {} {}", fault.pointer, fault.message)?;
            }
        }
        Ok(())
    }
}
