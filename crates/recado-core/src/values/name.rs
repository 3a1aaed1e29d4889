//! Names of jobs, companies and routes. Each is checked once, when it comes in, and is a type of its own from there
//! on.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// Bytes at most in a job's id, company, route, user or correlation id.
pub const NAME_LEN_MAX: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("is empty; give 1 to {NAME_LEN_MAX} characters")]
    Empty,
    #[error("has {0} characters; give at most {NAME_LEN_MAX}")]
    TooLong(usize),
    #[error("holds `{}`; use only letters, digits and . _ : -", .0.escape_debug())]
    BadCharacter(char),
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_LEN_MAX {
        return Err(NameError::TooLong(text.chars().count()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    match text.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(NameError::BadCharacter(c)),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, NameError> {
                let text = text.into();
                check(&text)?;
                Ok($type(text))
            }

            /// For text that a store wrote after [`Self::new`] had accepted it.
            pub fn trusted(text: impl Into<Arc<str>>) -> Self {
                $type(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                $type::new(&*text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// The caller's idempotency key (its outboxId), unique over all jobs.
    JobId
}
name! {
    /// The tenant.
    CompanyId
}
name! {
    /// A named way to deliver.
    RouteName
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_at_the_edge() {
        assert!(JobId::new("123e4567-e89b-12d3-a456-426614174000").is_ok());
        assert!(JobId::new("CLM-ENC-001:a.b_c").is_ok());
        assert_eq!(JobId::new(""), Err(NameError::Empty));
        assert_eq!(JobId::new("a b"), Err(NameError::BadCharacter(' ')));
        assert_eq!(JobId::new("a\n"), Err(NameError::BadCharacter('\n')));
        assert_eq!(JobId::new("x".repeat(129)), Err(NameError::TooLong(129)));
        assert!(JobId::new("x".repeat(128)).is_ok());
    }
}
