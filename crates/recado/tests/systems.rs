//! The five required systems, each from end to end: the built binary between its own commands and far
//! ends on loopback ports that speak as the real providers do, and misbehave like them.
//!
//! Every test has a server and far ends of its own, so they run side by side; only the timeout table is
//! long, and it only waits. What a rule makes of a single answer is tested in `recado-core`, and what a
//! transport makes of a broken one beside the transport.

mod systems {
    #[path = "../cli/given.rs"]
    #[expect(dead_code, reason = "the tests of the command line need more of it")]
    mod given;

    mod asking;
    mod far_ends;
    mod scene;

    mod addresses;
    mod alerts;
    mod described;
    mod documented;
    mod email;
    mod email_ses;
    mod fallbacks;
    mod holds;
    mod lanes;
    mod observing;
    mod operating;
    mod real_waits;
    mod retry_after;
    mod secrecy;
    mod shortage;
    mod social;
    mod tiss;
    mod traces;
    mod webhooks;
    mod whatsapp;
}
