//! Runs a check on random input, each time in a new store, and shrinks what fails.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Inputs that are tried unless `PROPTEST_CASES` says otherwise.
const CASES_DEFAULT: u32 = 128;

/// Panics with the shortest input that fails.
pub fn for_any<T: Debug>(inputs: &impl Strategy<Value = T>, check: impl AsyncFn(T)) {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES_DEFAULT;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let checked = TestRunner::new(config).run(inputs, |input| {
        runtime.block_on(check(input));
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}
