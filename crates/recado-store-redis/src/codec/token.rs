//! Lease tokens: the job's partition and number, and the fence of its claim.
//!
//! The fence is drawn at random by the claiming node. A counter would be given again after a crash that took
//! the server's last second, and the holder from before it would pass for the new one.

use recado_core::LeaseToken;
use redis::{RedisWrite, ToRedisArgs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub partition: u16,
    pub seq: u64,
    pub fence: u64,
}

/// Bits of a job number.
const SEQ_BITS: u32 = 48;

impl From<Token> for LeaseToken {
    fn from(token: Token) -> Self {
        let place = u128::from(token.partition) << SEQ_BITS | u128::from(token.seq);
        LeaseToken(place << 64 | u128::from(token.fence))
    }
}

impl From<LeaseToken> for Token {
    fn from(token: LeaseToken) -> Self {
        let place = token.0 >> 64;
        Token {
            partition: (place >> SEQ_BITS) as u16,
            seq: place as u64 & ((1 << SEQ_BITS) - 1),
            fence: token.0 as u64,
        }
    }
}

/// Writes the token for scripts: the number, then the fence.
impl ToRedisArgs for Token {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        (self.seq, fence_arg(self.fence)).write_redis_args(out);
    }
}

/// A fence as scripts read it.
pub fn fence_arg(fence: u64) -> String {
    format!("{fence:016x}")
}

/// A fence as scripts write it.
pub fn read_fence(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_what_it_was_made_of() {
        for token in [
            Token { partition: 0, seq: 1, fence: 7 },
            Token { partition: u16::MAX, seq: (1 << 48) - 1, fence: u64::MAX },
            Token { partition: 3, seq: 12_345_678_901, fence: 0 },
        ] {
            assert_eq!(Token::from(LeaseToken::from(token)), token);
        }
    }
}
