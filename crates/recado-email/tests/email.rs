//! What e-mails are taken, and what is made of them, read back by a parser that is not ours.

mod email {
    mod faults;
    mod given;
    mod messages;
    mod properties;
}
