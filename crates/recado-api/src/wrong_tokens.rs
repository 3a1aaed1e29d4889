//! Wrong tokens by address: counted, logged and answered with less and less haste.
//!
//! A right token is never held back: it is compared before anything here is asked, so callers behind one address do
//! not pay for each other. A request without any token is no guess.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Time over which wrong tokens are counted, and between two lines in the log about one address. After it the next one
/// is answered at once.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// Wrong tokens of one address within a window that are answered at once, with 401.
const AT_ONCE_MAX: u32 = 10;

/// Each one more is answered later by this, with 429.
const DELAY_STEP: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Addresses that are remembered. While there are more, the others count as one that sends too many.
const ADDRESSES_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct WrongTokens {
    addresses: Mutex<HashMap<IpAddr, Guesses>>,
}

#[derive(Debug, Default)]
struct Guesses {
    in_window: u32,
    logged: u32,
}

impl WrongTokens {
    /// Notes a wrong token. Returns the wait before it is refused with 429; `None` when it is answered at once.
    pub fn note(self: &Arc<Self>, address: IpAddr) -> Option<Duration> {
        let mut addresses = self.addresses.lock();
        let is_full = addresses.len() >= ADDRESSES_MAX;
        if let Some(guesses) = addresses.get_mut(&address) {
            guesses.in_window = guesses.in_window.saturating_add(1);
            let over = guesses.in_window.checked_sub(AT_ONCE_MAX + 1)?;
            return Some(DELAY_STEP.saturating_mul(over.saturating_add(1)).min(DELAY_MAX));
        }
        if is_full {
            return Some(DELAY_MAX);
        }
        addresses.insert(address, Guesses { in_window: 1, logged: 1 });
        log(address, 1);
        tokio::spawn(self.clone().watch(address));
        None
    }

    /// Logs at the end of each window how many more there were, and forgets the address once there are none.
    async fn watch(self: Arc<Self>, address: IpAddr) {
        loop {
            tokio::time::sleep(WINDOW).await;
            let mut addresses = self.addresses.lock();
            let Some(guesses) = addresses.get_mut(&address) else { return };
            match std::mem::take(guesses) {
                Guesses { in_window: 0, .. } => {
                    addresses.remove(&address);
                    return;
                }
                Guesses { in_window, logged } if in_window > logged => log(address, in_window - logged),
                _ => {}
            }
        }
    }
}

fn log(address: IpAddr, count: u32) {
    tracing::warn!(%address, count, "Requests with a wrong token were refused");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + last).to_be_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_are_answered_later_and_later_until_a_window_is_over() {
        let all = Arc::new(WrongTokens::default());
        assert!((0..AT_ONCE_MAX).all(|_| all.note(ip(1)).is_none()));
        let delays: Vec<_> = (0..40).filter_map(|_| all.note(ip(1))).collect();
        assert_eq!((delays[0], delays[1], delays[39]), (DELAY_STEP, DELAY_STEP * 2, DELAY_MAX));
        assert_eq!(all.note(ip(2)), None, "another address is another caller");
        tokio::time::sleep(WINDOW + Duration::from_secs(1)).await;
        assert_eq!(all.note(ip(1)), None);
        tokio::time::sleep(WINDOW * 2).await;
        assert!(all.addresses.lock().is_empty(), "what is over is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_has_a_bound() {
        let all = Arc::new(WrongTokens::default());
        for n in 0..ADDRESSES_MAX as u32 + 10 {
            let is_late = all.note(ip(n)).is_some();
            assert_eq!(is_late, n >= ADDRESSES_MAX as u32);
        }
        assert_eq!(all.addresses.lock().len(), ADDRESSES_MAX);
    }
}
