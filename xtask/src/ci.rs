//! Everything that must hold before a change lands, cheapest first.

use crate::{Outcome, cargo, setup, tidy};

pub fn run() -> Outcome {
    setup::run()?;
    crate::run("format", cargo().args(["fmt", "--all", "--check"]))?;
    crate::run(
        "lints",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    tidy::run()?;
    crate::run("tests", cargo().args(["test", "--workspace", "--all-features"]))?;
    println!("\nxtask ci: all of it holds");
    Ok(())
}
