//! Signatures as Standard Webhooks has them, so that receivers verify with any of its libraries.
//!
//! Absent on purpose: verification, which is the receiver's, and asymmetric keys.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
const SECRET_LEN_BYTES: RangeInclusive<usize> = 24..=64;

/// The secret that an endpoint shares with Recado. Only [`Secret::reveal`] shows it.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

/// The reason why a text is no secret. It repeats nothing of it, for it may be one with a slip in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASecret {
    #[error("the secret does not begin with `{PREFIX}`; write `{PREFIX}` and then base64")]
    Prefix,
    #[error("the secret is not base64 after `{PREFIX}`; use the standard alphabet with padding")]
    Base64,
    #[error(
        "the secret holds {bytes} bytes; give it {} to {}",
        SECRET_LEN_BYTES.start(), SECRET_LEN_BYTES.end()
    )]
    Length { bytes: usize },
}

impl Secret {
    pub fn generate(random: [u8; 32]) -> Self {
        Secret(Box::new(random))
    }

    /// Returns the form that configuration files and receivers use. Not for logs.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", BASE64_STANDARD.encode(&self.0))
    }

    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The value of `webhook-signature`: one signature for each secret that a receiver may still know.
pub(crate) fn signatures(secrets: &[Secret], id: &str, timestamp: &str, body: &[u8]) -> String {
    let each: Vec<_> = secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect();
    each.join(" ")
}

impl FromStr for Secret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(NotASecret::Prefix)?;
        let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| NotASecret::Base64)?;
        if !SECRET_LEN_BYTES.contains(&bytes.len()) {
            return Err(NotASecret::Length { bytes: bytes.len() });
        }
        Ok(Secret(bytes.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature =
            signatures(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_reads_back_what_it_reveals_and_shows_nothing_otherwise() {
        let secret = Secret::generate(std::array::from_fn(|i| i as u8));
        let text = secret.reveal();
        assert_eq!(text, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        assert_eq!(text.parse::<Secret>().unwrap().reveal(), text);
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_text_that_is_no_secret_is_refused_with_advice_and_not_repeated() {
        let of = |bytes: usize| format!("{PREFIX}{}", BASE64_STANDARD.encode(vec![7; bytes]));
        let cases = [
            (String::new(), NotASecret::Prefix),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), NotASecret::Prefix),
            ("WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), NotASecret::Prefix),
            (format!("{PREFIX}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!"), NotASecret::Base64),
            (format!("{PREFIX}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"), NotASecret::Base64),
            (PREFIX.to_owned(), NotASecret::Length { bytes: 0 }),
            (of(23), NotASecret::Length { bytes: 23 }),
            (of(65), NotASecret::Length { bytes: 65 }),
        ];
        for (text, wrong) in cases {
            let error = text.parse::<Secret>().expect_err(&text);
            assert_eq!(error, wrong, "{text}");
            assert!(error.to_string().contains("; "), "no advice in {error}");
            assert!(!error.to_string().contains("MfKQ"), "{error}");
        }
        assert!(of(24).parse::<Secret>().is_ok() && of(64).parse::<Secret>().is_ok());
    }
}
