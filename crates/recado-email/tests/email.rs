//! E-mails that are accepted, and their messages, read back by an independent parser.

mod email {
    mod faults;
    mod given;
    mod messages;
    mod properties;
}
