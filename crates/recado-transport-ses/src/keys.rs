//! The keys that requests are signed with, masked in every message.
//!
//! The SDK asks here for keys, whether they are configured or AWS's chain found them. They are known for
//! masking before the first request goes out with them.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_sesv2::config::Credentials;
use parking_lot::Mutex;
use recado_core::{Fault, Payload};
use recado_transport::Secrets;

/// Keys at most that are known: an answer may come after those that signed its request were replaced.
const KEYS_KNOWN_MAX: usize = 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct KnownKeys(Arc<Mutex<VecDeque<Secrets>>>);

impl KnownKeys {
    /// The same source, of which everything that it hands out becomes known.
    pub fn of(&self, source: SharedCredentialsProvider) -> SharedCredentialsProvider {
        SharedCredentialsProvider::new(Overheard { source, known: self.clone() })
    }

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

#[derive(Debug)]
struct Overheard {
    source: SharedCredentialsProvider,
    known: KnownKeys,
}

impl ProvideCredentials for Overheard {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let keys = self.source.provide_credentials().await?;
            self.known.add(&keys);
            Ok(keys)
        })
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.source.fallback_on_interrupt().inspect(|keys| self.known.add(keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_stay_known_while_an_answer_to_their_last_request_may_come() {
        let known = KnownKeys::default();
        for name in ["oldest", "older", "newest"] {
            let keys = Credentials::new(format!("{name}-id"), format!("{name}-key"), None, None, "test");
            let source = known.of(SharedCredentialsProvider::new(keys));
            source.provide_credentials().await.expect("keys");
        }
        let mut fault = Fault::answer("Denied", "newest-key, older-key, oldest-key");
        known.redact_fault(&mut fault);
        assert_eq!(&*fault.text, "***, ***, oldest-key");
        assert!(!format!("{known:?}").contains("newest"));
    }
}
