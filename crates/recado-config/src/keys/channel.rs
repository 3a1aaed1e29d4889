//! The keys of `[notify.<name>]`, as a table.

use recado_engine::notify::notices::Shape;

use crate::Secret;
use crate::keys::format::{list, secret, text, word};
use crate::keys::table::section;

/// Formats of a channel's webhook.
pub const CHANNEL_FORMATS: [(&str, Shape); 2] = [("event", Shape::Event), ("slack", Shape::Slack)];

section! {
    /// A channel for notices to people, by name: a webhook, or from and to for e-mail.
    ChannelKeys {
        /// The event is posted to this address.
        webhook: Secret, secret("https://example.com/hooks/ops");
        /// It signs webhooks: `whsec_` and then 24 to 64 bytes in base64.
        secret: Secret, secret("${OPS_WEBHOOK_SECRET}");
        /// The event itself, or one text as Slack takes it.
        format: Shape, word("format", CHANNEL_FORMATS);
        /// The route that delivers; the first of its kind by default.
        route: String, text("email").unlisted();
        /// The sender of e-mails.
        from: String, text("recado@example.com").unlisted();
        /// The recipients of e-mails.
        to: Vec<String>, list(text("ops@example.com"), "[\"ops@example.com\"]");
    }
}
