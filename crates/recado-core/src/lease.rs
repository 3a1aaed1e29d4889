//! The right to deliver one job, for a while.

use std::fmt;
use std::str::FromStr;

use crate::job::Job;
use crate::values::time::Timestamp;

/// The fence: a settle is refused unless its token is the job's current one.
///
/// Only the store that made it knows what the bits mean; no two leases ever share a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseToken(pub u128);

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a lease token; use the `leaseToken` that POST /v1/leases gave")]
pub struct NotAToken;

impl FromStr for LeaseToken {
    type Err = NotAToken;
    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !hex {
            return Err(NotAToken);
        }
        u128::from_str_radix(text, 16).map(LeaseToken).map_err(|_| NotAToken)
    }
}

/// A claimed job with the number of the attempt it is claimed for.
#[derive(Clone, Debug)]
pub struct Lease {
    pub token: LeaseToken,
    pub attempt: u32,
    pub claimed_at: Timestamp,
    pub expires_at: Timestamp,
    pub job: Job,
    /// The lease that this one takes over, when its holder let it run out.
    pub lost: Option<LostLease>,
}

/// The remains of a lease whose holder vanished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostLease {
    pub attempt: u32,
    pub claimed_at: Timestamp,
    pub worker: Box<str>,
    /// The provider that it was claimed for, where the claim named one.
    pub provider: Option<Box<str>>,
}
