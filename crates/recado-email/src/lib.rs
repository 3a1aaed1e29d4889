//! E-mails: reads and checks a job's `data`, and makes the message of it.
//!
//! Two transports share it: SMTP sends [`Email::message`] as it is, and a provider with an API of its
//! own may build the message itself from the parts of an [`Email`] that [`Email::is_simple`].
//!
//! A message is a function of the e-mail, its Message-ID and its date, byte for byte, so a repetition cannot be told
//! from the first try. It is ASCII throughout and no line of it is longer than 998 bytes, so every server takes it as
//! it is. Nothing that a job says can become a header that is not ours: control characters are refused, and what is
//! written is what was checked: addresses and media types are built anew from their checked parts.
//!
//! Absent on purpose: non-ASCII local parts (they need SMTPUTF8 all the way, which few have), quoted
//! local parts and address literals (real, unused, and read differently by every server), inline images,
//! signatures (a relay signs), calendars and templates.

mod email;
mod encode;
mod identity;
mod mailbox;
mod message;
mod read;

pub use email::Email;
pub use identity::message_id;
pub use mailbox::Mailbox;
pub use read::{MESSAGE_MAX_BYTES, RECIPIENTS_MAX};
