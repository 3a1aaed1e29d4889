//! Sentences with a number in them.

use std::borrow::Cow;

use crate::job::{Attempt, AttemptResult};

/// A count with its noun: `1 attempt`, `2 attempts`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Counts the attempts after which the provider may have the message although no answer came.
pub fn uncertain_attempts(attempts: &[Attempt]) -> u32 {
    let is_open = |result| matches!(result, AttemptResult::Uncertain | AttemptResult::Lost);
    let is_uncertain = |attempt: &&Attempt| {
        is_open(attempt.result) || attempt.recipients.iter().any(|one| is_open(one.result))
    };
    u32::try_from(attempts.iter().filter(is_uncertain).count()).unwrap_or(u32::MAX)
}

/// Advice to a person who is about to replay, in English and in Portuguese; nothing when no attempt is uncertain.
pub fn replay_advice(uncertain: u32) -> Option<(String, String)> {
    let (en, pt) = match uncertain {
        0 => return None,
        1 => ("once".to_owned(), "uma vez".to_owned()),
        many => (format!("{many} times"), format!("{many} vezes")),
    };
    Some((
        format!(
            "It may have arrived {en}: it was handed over and no answer came. Ask the receiver first; a replay may deliver it again."
        ),
        format!(
            "Pode ter chegado {pt}: foi entregue ao provedor e a resposta não veio. Confirme antes com quem recebe; reprocessar pode entregar de novo."
        ),
    ))
}

/// Beginnings of what the TLS library says before it names one of its own variants.
const TLS_ERRORS: [&str; 6] = [
    "invalid peer certificate",
    "received fatal alert",
    "received corrupt message",
    "received unexpected",
    "peer is incompatible",
    "peer misbehaved",
];

/// Names of the TLS library's variants, and what they mean to a person.
const TLS_WORDS: [(&str, &str); 15] = [
    (
        "CaUsedAsEndEntity",
        "the server shows the certificate of an authority as its own; give it one of its own, signed by that authority",
    ),
    (
        "UnknownIssuer",
        "the certificate is signed by an authority that is not trusted here; trust it with ca_file where there is one, or renew \
         the certificate",
    ),
    ("NotValidForName", "the certificate is for another name than the one in the address"),
    ("NotValidYet", "the certificate is not valid yet; look at the clocks on both sides"),
    ("Expired", "the certificate has expired"),
    ("Revoked", "the certificate was revoked"),
    ("BadSignature", "the certificate's signature is wrong"),
    ("InvalidPurpose", "the certificate is not meant for servers"),
    ("UnsupportedSignatureAlgorithm", "the certificate is signed in a way that is not accepted here"),
    ("BadEncoding", "the certificate cannot be read"),
    ("InvalidContentType", "the server does not speak TLS on this port"),
    ("HandshakeFailure", "the server found no cipher that both sides accept"),
    ("ProtocolVersion", "the server speaks no version of TLS that is accepted here"),
    ("UnrecognizedName", "the server knows no such name"),
    ("CertificateRequired", "the server asks for a certificate of the client, and there is none"),
];

/// A failure of TLS in plain words: its library names some of its errors by the names that its code has for them.
/// Any other text stays as it is.
pub fn describe_tls_error(cause: &str) -> Cow<'_, str> {
    let Some(begins) = TLS_ERRORS.iter().find(|begins| cause.contains(**begins)) else { return cause.into() };
    if let Some((_, words)) = TLS_WORDS.iter().find(|(name, _)| cause.contains(name)) {
        return (*words).into();
    }
    // Words are left as they are, and a name of the code is left out.
    let said = cause.rsplit(": ").next().unwrap_or_default();
    if said.contains(' ') && !said.contains('(') {
        cause.into()
    } else {
        format!("TLS failed: {begins}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_tls_are_told_without_names_of_the_code() {
        for (said, meant) in [
            (
                "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
                "certificate of an authority as its own",
            ),
            ("invalid peer certificate: UnknownIssuer", "an authority that is not trusted here"),
            ("received corrupt message of type InvalidContentType", "does not speak TLS on this port"),
            ("received fatal alert: DecodeError", "TLS failed: received fatal alert"),
            ("invalid peer certificate: Other(OtherError(NewThing))", "TLS failed: invalid peer certificate"),
        ] {
            assert!(describe_tls_error(said).contains(meant), "{said}: {}", describe_tls_error(said));
        }
        let words =
            "invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid for b";
        for other in ["connection refused", words] {
            assert_eq!(describe_tls_error(other), other);
        }
    }

    #[test]
    fn a_count_has_the_noun_that_fits_it() {
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "attempt", "attempts")),
            ["0 attempts", "1 attempt", "2 attempts"]
        );
        assert_eq!(replay_advice(0), None);
        let (en, pt) = replay_advice(1).unwrap();
        assert!(en.starts_with("It may have arrived once:") && pt.starts_with("Pode ter chegado uma vez:"));
        assert!(replay_advice(3).unwrap().0.starts_with("It may have arrived 3 times:"));
    }
}
