//! `--data JSON|@file|-`, and other arguments that name a file.

use std::io::Read;
use std::path::Path;

use recado_client::Payload;

use super::Stop;

/// Reads a job's data from where the argument says.
pub fn read(said: &str) -> Result<Payload, Stop> {
    let (text, source) = match said.strip_prefix('@') {
        Some(path) => (read_file(path)?, path),
        None if said == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Stop::Failed(format!("cannot read standard input: {error}")))?;
            (text, "standard input")
        }
        None => (said.to_owned(), "--data"),
    };
    Payload::new(&text).map_err(|error| {
        Stop::Usage(format!(
            "{source} is not JSON: {error}; write for example '{{\"script\":[\"ok\"]}}', @file or -"
        ))
    })
}

pub fn read_file(path: impl AsRef<Path>) -> Result<String, Stop> {
    let path = path.as_ref();
    std::fs::read_to_string(path)
        .map_err(|error| Stop::Failed(format!("cannot read {}: {error}", path.display())))
}
