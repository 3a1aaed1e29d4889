//! Place of the audit trail, and its retention.

use std::path::{Path, PathBuf};
use std::time::Duration;

use recado_engine::audit::TrailTerms;

use super::raw::RawAudit;
use super::reader::FaultList;
use crate::catalogue::Environment;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Five years, with as many leap days as they can have: the required retention.
pub const KEEP_DEFAULT: Duration = Duration::from_secs(1_827 * 24 * 60 * 60);

/// Inside the data directory.
const DIRECTORY: &str = "audit";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub dir: PathBuf,
    pub keep: Duration,
    /// The signing key, where it is not beside the trail.
    pub key_file: Option<PathBuf>,
}

impl Audit {
    pub fn terms(&self) -> TrailTerms {
        TrailTerms { dir: self.dir.clone(), key: self.key_file.clone(), months_kept: months(self.keep) }
    }
}

/// Months that are at least as long as this.
fn months(keep: Duration) -> u32 {
    let days = keep.as_secs().div_ceil(DAY.as_secs());
    u32::try_from((days * 12).div_ceil(366)).unwrap_or(u32::MAX)
}

pub fn resolve(raw: RawAudit, data_dir: &Path, environment: Environment, faults: &FaultList) -> Audit {
    if let Some(said) = &raw.keep
        && said.value < KEEP_DEFAULT
        && environment != Environment::Development
    {
        let message = "is less than the five years that the trail is to be kept; write at least \"1827d\"";
        faults.borrow_mut().push(said.fault(message));
    }
    Audit {
        dir: raw.dir.map_or_else(|| data_dir.join(DIRECTORY), |said| PathBuf::from(said.value)),
        keep: raw.keep.map_or(KEEP_DEFAULT, |said| said.value),
        key_file: raw.key_file.map(|said| PathBuf::from(said.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t18_five_years_are_sixty_months() {
        assert_eq!(months(KEEP_DEFAULT), recado_audit::MONTHS_KEPT);
        assert_eq!([1_u32, 30, 31, 366, 1_830, 1_831].map(|days| months(days * DAY)), [1, 1, 2, 12, 60, 61]);
    }
}
