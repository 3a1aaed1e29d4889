//! The keys that requests are signed with: kept until they expire, and masked in every message.

use std::collections::VecDeque;
use std::error::Error;
use std::iter::successors;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use parking_lot::Mutex;
use recado_core::reason::clip;
use recado_core::words::describe_tls_error;
use recado_core::{Fault, FaultKind, Payload, Timestamp};
use recado_transport::http::FAULT_TEXT_MAX_BYTES;
use recado_transport::{Secrets, shortage};
use tokio::time::timeout;

use crate::connector::ChainFault;

/// Keys at most that are known: an answer may come after those that signed its request were replaced.
const KEYS_KNOWN_MAX: usize = 2;
/// Keys that expire this soon are replaced, so that none expires on its way.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);
/// Keys without an end are asked for again after this time: the operator may have changed them.
const ENDLESS_KEYS_KEPT: Duration = Duration::from_secs(15 * 60);
/// Bounds one look-up of keys. A service of the chain may be slow and is asked several times.
const LOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// From here on the chain repeats what a `credential_process` of the operator's wrote, whatever that is.
const PROCESS_OUTPUT: &str = "Stderr:";

/// The source of an account's keys, and those of this moment.
#[derive(Debug)]
pub(crate) struct Keys {
    source: SharedCredentialsProvider,
    /// The keys and the time until which they serve. One look-up at a time serves all that wait for it.
    current: tokio::sync::Mutex<Option<(Credentials, Timestamp)>>,
}

impl Keys {
    pub fn new(source: SharedCredentialsProvider) -> Self {
        Keys { source, current: tokio::sync::Mutex::default() }
    }

    /// Returns keys to sign with. They are known for masking before they are used.
    pub async fn get(&self, now: Timestamp, known: &KnownKeys) -> Result<Credentials, Fault> {
        let mut current = self.current.lock().await;
        if let Some((keys, until)) = &*current
            && now < *until
        {
            return Ok(keys.clone());
        }
        let keys = match timeout(LOAD_TIMEOUT, self.source.provide_credentials()).await {
            Ok(loaded) => loaded,
            Err(late) => {
                self.source.fallback_on_interrupt().ok_or_else(|| CredentialsError::provider_error(late))
            }
        };
        let keys = keys.map_err(|error| fault_of(&error))?;
        known.add(&keys);
        *current = Some((keys.clone(), serve_until(&keys, now)));
        Ok(keys)
    }
}

fn serve_until(keys: &Credentials, now: Timestamp) -> Timestamp {
    let margin = EXPIRY_MARGIN.as_millis() as i64;
    let expiry = keys.expiry().and_then(|expiry| expiry.duration_since(std::time::UNIX_EPOCH).ok());
    match expiry.and_then(|expiry| i64::try_from(expiry.as_millis()).ok()) {
        Some(expiry) => Timestamp::from_millis(expiry.saturating_sub(margin)),
        None => now.plus(ENDLESS_KEYS_KEPT),
    }
}

/// Nothing went out, for want of credentials.
fn fault_of(error: &CredentialsError) -> Fault {
    let mut causes = successors(Some(error as &(dyn Error + 'static)), |&cause| cause.source());
    let ours = causes.find_map(|cause| cause.downcast_ref::<ChainFault>()).map(|fault| fault.0.clone());
    let ours = ours.filter(|fault| fault.kind == FaultKind::Shortage);
    if let Some(shortage) = ours.or_else(|| shortage::of_causes(error)) {
        return shortage;
    }
    let (code, advice) = match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => (
            "CredentialsNotFound",
            "no AWS credentials were found; write them, or give the process a profile or a role",
        ),
        // An identity service that is slow or down is worth another try.
        _ => (
            "CredentialsUnavailable",
            "AWS credentials could not be loaded; check the service that hands them out",
        ),
    };
    let causes = successors(Some(error as &(dyn Error + 'static)), |&cause| cause.source());
    let cause = causes.last().map(ToString::to_string).unwrap_or_default();
    let cause = cause.split(PROCESS_OUTPUT).next().unwrap_or_default().trim();
    Fault::answer(code, clip(&format!("{advice}: {}", describe_tls_error(cause)), FAULT_TEXT_MAX_BYTES))
}

/// The last keys that were handed out, masked in everything that an endpoint says.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys(Mutex<VecDeque<Secrets>>);

impl KnownKeys {
    pub fn redact_fault(&self, fault: &mut Fault) {
        self.0.lock().iter().for_each(|keys| keys.redact_fault(fault));
    }

    pub fn redact_json(&self, json: Payload) -> Payload {
        self.0.lock().iter().fold(json, |json, keys| keys.redact_json(json))
    }

    fn add(&self, keys: &Credentials) {
        let always = [keys.access_key_id(), keys.secret_access_key()];
        let secrets = Secrets::new(always.into_iter().chain(keys.session_token()));
        let mut known = self.0.lock();
        known.push_front(secrets);
        known.truncate(KEYS_KNOWN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::UNIX_EPOCH;

    use aws_credential_types::provider::future;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    fn made(name: &str, expiry: Option<Timestamp>) -> Credentials {
        let expiry = expiry.map(|at| UNIX_EPOCH + Duration::from_millis(at.as_millis() as u64));
        Credentials::new(format!("{name}-id"), format!("{name}-key"), None, expiry, "test")
    }

    #[test]
    fn keys_stay_known_while_an_answer_to_their_last_request_may_come() {
        let known = KnownKeys::default();
        for name in ["oldest", "older", "newest"] {
            known.add(&made(name, None));
        }
        let mut fault = Fault::answer("Denied", "newest-key, older-key, oldest-key");
        known.redact_fault(&mut fault);
        assert_eq!(&*fault.text, "***, ***, oldest-key");
        assert!(!format!("{known:?}").contains("newest"));
    }

    /// Hands out keys that last an hour, numbered.
    #[derive(Debug, Default)]
    struct Numbered(AtomicU64);

    impl ProvideCredentials for Numbered {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            let end = NOW.plus(Duration::from_secs(3_600 * (number + 1)));
            future::ProvideCredentials::ready(Ok(made(&number.to_string(), Some(end))))
        }
    }

    #[tokio::test]
    async fn keys_are_kept_until_they_are_about_to_expire() {
        let (keys, known) =
            (Keys::new(SharedCredentialsProvider::new(Numbered::default())), KnownKeys::default());
        for (after_secs, id) in
            [(0, "0-id"), (3_580, "0-id"), (3_595, "1-id"), (7_100, "1-id"), (9_000, "2-id")]
        {
            let got = keys.get(NOW.plus(Duration::from_secs(after_secs)), &known).await.expect("keys");
            assert_eq!(got.access_key_id(), id, "after {after_secs} s");
        }
    }

    #[tokio::test]
    async fn keys_without_an_end_are_asked_for_again() {
        assert_eq!(serve_until(&made("x", None), NOW), NOW.plus(ENDLESS_KEYS_KEPT));
    }
}
