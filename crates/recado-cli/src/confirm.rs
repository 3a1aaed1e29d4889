//! Asking before something that cannot be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use super::{Done, Stop};

/// Asks on a terminal; elsewhere fails, and `otherwise` says what to write instead.
pub fn confirm(question: &str, otherwise: &str) -> Done {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Stop::usage(otherwise));
    }
    let mut err = io::stderr();
    write!(err, "{question} Continue? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "s" | "sim" => Ok(()),
        _ => Err(Stop::failed("nothing was touched")),
    }
}
