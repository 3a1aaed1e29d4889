//! Signed webhooks to addresses that users supply, behind a guard.
