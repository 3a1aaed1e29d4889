//! Failures of a call, and the errors that callers get for them.
//!
//! The store's error says what to do next, and the words say what to look at. Neither repeats a key, a value
//! or a login.

use std::sync::Arc;
use std::time::Duration;

use recado_core::reason;
use recado_store::StoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::url::UrlError;

/// Bytes at most of a server's own words in an error.
const WORDS_MAX_BYTES: usize = 200;

#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// There was no connection before the time was over; the reason is of the last try to make one.
    Unreachable { at: Arc<str>, why: Arc<str> },
    /// The server had the request and did not answer in time.
    Silent { at: Arc<str> },
    /// The connection ended, or the server refused.
    Redis { at: Arc<str>, error: RedisError },
}

impl Fault {
    pub fn server_kind(&self) -> Option<ServerErrorKind> {
        match self {
            Fault::Redis { error, .. } => match error.kind() {
                ErrorKind::Server(kind) => Some(kind),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn into_store_error(self, what: &str, timeout: Duration) -> StoreError {
        match self {
            Fault::Unreachable { at, why } => {
                StoreError::Unavailable(format!("no connection to Redis at {at} ({why}); is it running?"))
            }
            Fault::Silent { at } => StoreError::Unavailable(format!(
                "Redis at {at} did not answer within {} ms; see its SLOWLOG and the network",
                timeout.as_millis()
            )),
            Fault::Redis { at, error } => of_redis(&at, &error, what),
        }
    }
}

fn of_redis(at: &str, error: &RedisError, what: &str) -> StoreError {
    let Some(code) = error.code() else {
        return StoreError::Unavailable(format!(
            "the connection to Redis at {at} ended ({}); whether the request was carried out is not known",
            words(error)
        ));
    };
    let help = match code {
        "OOM" => {
            return StoreError::Full(format!(
                "Redis at {at} has reached its maxmemory; raise maxmemory, or let the queues and the dead \
                 letters drain"
            ));
        }
        "FENCED" => return StoreError::Fenced,
        "BROKEN" => return StoreError::Broken(format!("{} ({what})", words(error))),
        "WRONGTYPE" => {
            return StoreError::Broken(format!(
                "a key of ours at {at} holds something else ({what}); give every program a prefix of its own"
            ));
        }
        "LOADING" => "is still reading its data from disk; it answers as soon as it is done",
        "BUSY" => "is busy with a script of another program; see its SLOWLOG",
        "READONLY" => {
            "is a replica and takes no writes; a failover is under way, or the URL names the wrong server"
        }
        "MASTERDOWN" => "is a replica that has lost its master; a failover is under way",
        "CLUSTERDOWN" => "is part of a Cluster with slots that no node serves; see CLUSTER INFO",
        "TRYAGAIN" | "MOVED" | "ASK" => "is moving these keys to another shard; it is over in a moment",
        "MISCONF" => "cannot write to its disk and so refuses writes; see its log and free its disk",
        "NOREPLICAS" => "has fewer replicas at hand than min-replicas-to-write asks for",
        "NOAUTH" | "WRONGPASS" => "refuses the login; put the right user and password into the store's URL",
        "NOPERM" => {
            "does not permit this to the user; it needs EVAL, EVALSHA, PUBLISH, SUBSCRIBE, TIME, INFO and all commands on keys with our prefix"
        }
        _ => {
            return StoreError::Unavailable(format!("Redis at {at} refused {what}: {}", words(error)));
        }
    };
    StoreError::Unavailable(format!("Redis at {at} {help}"))
}

/// The server's own words, short and on one line.
pub(crate) fn words(error: &RedisError) -> String {
    let told = match (error.code(), error.detail()) {
        // What follows are the arguments.
        (Some(code), Some(detail)) => match detail.split_once("with args beginning") {
            Some((before, _)) => format!("{code} {before}"),
            None => format!("{code} {detail}"),
        },
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    };
    reason::clip(&told, WORDS_MAX_BYTES).replace(['\r', '\n'], " ")
}

/// The reason why a store cannot be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("the authorities to trust cannot be read; give PEM certificates")]
    TrustedRoots,
    /// It cannot be asked, or not now.
    #[error("{0}")]
    Unavailable(String),
    /// It would lose jobs, or lacks what the store needs.
    #[error("{0}")]
    Unfit(String),
}

impl OpenError {
    pub(crate) fn of(fault: Fault, timeout: Duration) -> Self {
        fault.into_store_error("the first request", timeout).into()
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        OpenError::Unavailable(match error {
            StoreError::Unavailable(why) | StoreError::Full(why) | StoreError::Broken(why) => why,
            StoreError::Fenced => error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: &str, detail: &str) -> StoreError {
        let error = redis::make_extension_error(code.to_owned(), Some(detail.to_owned()));
        Fault::Redis { at: "10.0.0.1:6379".into(), error }.into_store_error("claim", Duration::from_secs(2))
    }

    #[test]
    fn every_refusal_says_what_to_do_next() {
        for code in [
            "LOADING",
            "BUSY",
            "READONLY",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "TRYAGAIN",
            "MISCONF",
            "NOREPLICAS",
            "NOAUTH",
            "WRONGPASS",
            "NOPERM",
        ] {
            let error = told(code, "the server's own words");
            let StoreError::Unavailable(why) = &error else { panic!("{code}: {error:?}") };
            assert!(why.starts_with("Redis at 10.0.0.1:6379 "), "{why}");
            assert!(!why.contains("own words"), "{code} has no words of ours: {why}");
        }
        assert!(matches!(told("OOM", "command not allowed"), StoreError::Full(_)));
        assert!(matches!(told("WRONGTYPE", "Operation against a key"), StoreError::Broken(_)));
        assert!(matches!(told("BROKEN", "a lease without a job"), StoreError::Broken(_)));
    }

    #[test]
    fn an_unknown_refusal_is_told_in_the_servers_words_without_what_was_sent() {
        let sent = "unknown command 'EVALSHA', with args beginning with: 'hunter2'";
        let StoreError::Unavailable(why) = told("ERR", sent) else { panic!("another kind") };
        assert!(why.contains("claim") && why.contains("unknown command") && !why.contains("hunter"), "{why}");
        let StoreError::Unavailable(why) = told("ODD", &"long\n".repeat(1_000)) else {
            panic!("another kind")
        };
        assert!(why.len() < 300 && !why.contains('\n'), "{why}");
    }
}
