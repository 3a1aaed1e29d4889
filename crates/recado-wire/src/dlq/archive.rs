//! Dead letters on their way out and back: exports, and lines of an archive.

use recado_core::JobId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::dlq::DeadLetterFilter;
use crate::format::problem::Problem;
use crate::format::read::{Query, names_of};
use crate::format::value::{Refusal, RequestValue};

/// Lines at most in one import.
pub const IMPORT_LINES_MAX: usize = 10_000;

/// The content type of an export as a table.
pub const CSV: &str = "text/csv";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// An entry a line: what `GET /v1/dlq/{jobId}` shows, and what an import needs to bring it back.
    #[default]
    Ndjson,
    /// A row an entry, for spreadsheets.
    Csv,
}

/// Selects the dead letters to export, and the format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// `ndjson` when absent.
    #[param(inline)]
    pub format: Option<ExportFormat>,
    #[serde(flatten)]
    #[param(ignore)]
    pub filter: DeadLetterFilter,
}

/// Read in two parts: a reader that flattens does not know where a fault is.
impl Query for ExportQuery {
    fn names() -> Vec<&'static str> {
        [names_of::<ExportChoice>(), names_of::<DeadLetterFilter>()].concat()
    }

    fn from_params(params: RequestValue<'_, '_>) -> Result<Self, Refusal> {
        let ExportChoice { format } = ExportChoice::deserialize(params.clone())?;
        Ok(ExportQuery { format, filter: DeadLetterFilter::deserialize(params)? })
    }
}

#[derive(Deserialize)]
struct ExportChoice {
    format: Option<ExportFormat>,
}

/// Answer to `POST /v1/dlq/import`: what became of each line, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportAnswer {
    pub imported: u64,
    /// Here already, sent or given up since, or the line came back before; nothing was written.
    pub known: u64,
    /// Cannot be read, is about a person whose data was erased, or the queue is full; nothing was written.
    pub refused: u64,
    pub items: Vec<ImportItem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImportResult {
    Imported,
    Known,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportItem {
    /// Number of the line, from 0.
    pub index: u64,
    pub result: ImportResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub job_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}
