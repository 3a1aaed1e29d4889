//! The dashboard in a real browser: Chromium without a window, driven as a person would, against the built
//! binary with sandbox routes.
//!
//! Every test has a server and a browser of its own, and ends by asking the browser whether it had to refuse
//! anything. With `RECADO_SCREENSHOTS` set, the same tests take the pictures of the documents.

mod browser {
    #[path = "../cli/given.rs"]
    #[expect(dead_code, reason = "the tests of the command line need more of it")]
    mod given;

    mod driver;
    mod scene;

    mod acts;
    mod bulk;
    mod dead_letters;
    mod figures;
    mod finding;
    mod hostile;
    mod lanes;
    mod pages;
    mod people;
    mod simulating;
    mod trail;
    mod walk;
}
