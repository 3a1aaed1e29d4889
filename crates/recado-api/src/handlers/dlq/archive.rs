//! Dead letters on their way out and back: exports as a stream, lines of an archive as a batch.
//!
//! An export is read from the store page by page as its reader takes it, so that it needs no more memory than
//! one page however many entries there are, and each page takes its room among all answers. Each entry that is in the queue from its start to its end is in it once,
//! whatever is replayed meanwhile; what enters the queue after it began need not be.

use std::io;

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::stream;
use recado_engine::dlq::archive::Imported;
use recado_store::PageRequest;
use recado_wire::NDJSON;
use recado_wire::dlq::archive::{
    CSV, ExportFormat, ExportQuery, IMPORT_LINES_MAX, ImportAnswer, ImportItem, ImportResult,
};
use recado_wire::dlq::{DeadLetter, DeadLetterFilter};

use crate::csv;
use crate::handlers::batch;
use crate::handlers::dlq::store_filter;
use crate::handlers::prelude::*;

/// Entries that are asked of the store at a time, if they are small.
const PAGE_ENTRIES: usize = 50;

/// Every dead letter that is asked for, newest first, as lines of JSON or as a table. Each export is put on the audit
/// trail before it begins.
#[utoipa::path(
    get, path = "/v1/dlq/export", tag = "dead letters", operation_id = "exportDeadLetters",
    params(DeadLetterFilter, ExportQuery, ActorHeader),
    responses(
        (status = 200, description = "One entry per line or row.", content((String = "application/x-ndjson"), (String = "text/csv"))),
        ReadProblems,
    )
)]
pub async fn export(
    api: ApiState,
    actor: Actor,
    CheckedQuery(query): CheckedQuery<ExportQuery>,
    reader: Reader,
) -> ApiResult {
    let format = query.format.unwrap_or_default();
    let filter = store_filter(query.filter);
    let (name, kind, file, head) = match format {
        ExportFormat::Ndjson => ("NDJSON", NDJSON, "attachment; filename=\"dlq.ndjson\"", String::new()),
        ExportFormat::Csv => ("CSV", CSV, "attachment; filename=\"dlq.csv\"", csv::head()),
    };
    api.engine.audit.record_letters_export(&filter, name, &actor).await?;
    let mut export = Export { api, reader, filter, format, before: None, over: false };
    // The first page before the answer: a store that cannot answer is a problem and not a torn file.
    let first = export.page(head).await?;
    let rest = stream::unfold(export, |mut export| async move {
        if export.over {
            return None;
        }
        let torn = |refused: ApiError| io::Error::other(refused.into_problem().title);
        let page = export.page(String::new()).await.map_err(torn);
        export.over |= page.is_err();
        Some((page, export))
    });
    let pieces = futures_util::StreamExt::chain(stream::iter([Ok(first)]), rest);
    Ok(([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, file)], Body::from_stream(pieces)).into_response())
}

struct Export {
    api: ApiState,
    reader: Reader,
    filter: recado_store::DeadLetterFilter,
    format: ExportFormat,
    before: Option<u64>,
    /// Every page has been written.
    over: bool,
}

impl Export {
    /// The next page, behind `written`.
    async fn page(&mut self, mut written: String) -> ApiResult<Bytes> {
        let permit = self.reader.permit(&self.api).await?;
        let asked = PageRequest { before: self.before, limit: PAGE_ENTRIES };
        let page = self.api.engine.inspect().dead_letters(self.filter.clone(), asked).await?;
        self.before = page.next;
        self.over = page.next.is_none();
        for entry in page.items {
            match self.format {
                ExportFormat::Csv => csv::row(&DeadLetter::from(entry), &mut written),
                ExportFormat::Ndjson => {
                    if let Some(line) = self.api.engine.dlq.exported(&entry).await? {
                        written.push_str(&line);
                        written.push('\n');
                    }
                }
            }
        }
        Ok(permit.hold(written.into_bytes()))
    }
}

/// Bring dead letters back: the lines of a file of the archive, or of an export. Importing a file twice is
/// harmless. No other entry is pushed out: lines that find the queue full are refused, and can be sent again.
#[utoipa::path(
    post, path = "/v1/dlq/import", tag = "dead letters", operation_id = "importDeadLetters", params(ActorHeader),
    request_body(content = String, content_type = "application/x-ndjson", description = "Up to 10,000 lines of an archive or an export."),
    responses((status = 200, body = ImportAnswer), WriteProblems)
)]
pub async fn import(api: ApiState, actor: Actor, reader: Reader, request: Request) -> ApiResult {
    let received = body::lines(&api, request).await?;
    let lines = batch::split(Format::Ndjson, &received.bytes, IMPORT_LINES_MAX)?;
    // A line that is not UTF-8 is not JSON either, and is told so.
    let lines: Vec<&str> = lines.into_iter().map(|line| std::str::from_utf8(line).unwrap_or("?")).collect();
    let answers = api.engine.dlq.import_dead_letters(&lines, Some(&actor)).await?;
    let mut answer =
        ImportAnswer { imported: 0, known: 0, refused: 0, items: Vec::with_capacity(answers.len()) };
    for (index, imported) in (0..).zip(answers) {
        let refused = |code, id, detail: String| {
            let detail = format!("line {} {detail}", index + 1);
            (ImportResult::Refused, id, Some(Problem::new(code, detail)))
        };
        let (result, job_id, error) = match imported {
            Imported::Done(id) => (ImportResult::Imported, Some(id), None),
            Imported::Known(id) => (ImportResult::Known, Some(id), None),
            Imported::Erased { id, recorded_as } => {
                let detail = format!(
                    "is about a person whose data was erased, as record {recorded_as} of the audit trail says, \
                     and stays out; remove it from the file"
                );
                refused(Code::Conflict, Some(id), detail)
            }
            Imported::NoRoom { id, max_size } => {
                let detail = format!(
                    "finds no room: the dead letter queue holds {max_size} entries, which is its max_size; \
                     replay or discard some, or raise [dlq] max_size, and import it again"
                );
                refused(Code::Conflict, Some(id), detail)
            }
            Imported::Unreadable(what) => refused(Code::ValidationFailed, None, what.to_string()),
        };
        match result {
            ImportResult::Imported => answer.imported += 1,
            ImportResult::Known => answer.known += 1,
            ImportResult::Refused => answer.refused += 1,
        }
        answer.items.push(ImportItem { index, result, job_id, error });
    }
    reader.ok(&api, &answer)
}
