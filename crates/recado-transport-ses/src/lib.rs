//! Delivery by AWS SES v2, with the official SDK.
