//! Everything about one person, for that person (LGPD, article 18).

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use crate::erasure::Subject;
use crate::error::{Error, io};
use crate::search::{Query, visit};
use crate::snapshot::Snapshot;

/// Writes the subject's records as NDJSON, oldest first, and says how many they are.
pub fn export(dir: &Path, subject: &Subject, to: &mut dyn Write) -> Result<u64, Error> {
    let mut count = 0;
    visit(&Snapshot::open(dir)?, &Query::about(subject), |_, record| {
        serde_json::to_writer(&mut *to, &record).map_err(|error| io(dir)(error.into()))?;
        to.write_all(b"\n").map_err(io(dir))?;
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(count)
}
