//! `recado audit show` and `recado audit export`.

use std::io;
use std::path::PathBuf;

use clap::Args;
use recado_core::words::counted;
use recado_core::{AuditKind, Timestamp};
use recado_terminal::{Column, Field, Screen, clean_json};
use recado_wire::audit::{AuditItem, AuditList, AuditOrder, AuditQuery, AuditSubject};

use super::{files, person};
use crate::out_file::OutFile;
use crate::{AskArgs, Done, ServerArgs, Stop, show_cursor};

/// Records that are asked for at a time while everything is written out.
const PAGE_RECORDS: u32 = 1_000;

/// Filters; a record must match all of them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Selection")]
struct AuditFilterArgs {
    /// About this job.
    #[arg(long, alias = "job-id", value_name = "ID")]
    job: Option<String>,
    /// About this claim.
    #[arg(long, alias = "claim-id", value_name = "ID")]
    claim: Option<String>,
    /// About this tenant.
    #[arg(long, value_name = "ID")]
    company: Option<String>,
    /// About jobs for this person.
    #[arg(long, alias = "user-id", value_name = "ID")]
    user: Option<String>,
    /// About jobs with this correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Done by this person.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Of this kind, such as BURIED or CLAIM_RETRY.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<AuditKind>,
    /// Happened at or after this.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Happened before this.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

impl AuditFilterArgs {
    fn query(self, order: AuditOrder, limit: u32) -> AuditQuery {
        AuditQuery {
            job_id: self.job,
            claim_id: self.claim,
            company_id: self.company,
            user_id: self.user,
            correlation_id: self.correlation_id,
            actor: self.actor,
            kind: self.kind,
            since: self.since,
            until: self.until,
            order: Some(order),
            limit: Some(limit),
            cursor: None,
        }
    }
}

fn kind(text: &str) -> Result<AuditKind, String> {
    let known = AuditKind::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text));
    known.ok_or_else(|| format!("write one of {}", AuditKind::ALL.map(AuditKind::as_str).join(", ")))
}

#[derive(Debug, Args)]
pub struct AuditShowArgs {
    #[command(flatten)]
    filters: AuditFilterArgs,
    /// Oldest first.
    #[arg(long, help_heading = None::<&str>)]
    oldest: bool,
    /// Records on one page, up to 1000.
    #[arg(long, help_heading = None::<&str>, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor at the end of the page before.
    #[arg(long, help_heading = None::<&str>)]
    cursor: Option<String>,
    /// Read the files in this directory, without a server.
    #[arg(long, help_heading = None::<&str>, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten, next_help_heading = None::<&str>)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct AuditExportArgs {
    /// All about one person: user=ID, correlation=ID, claim=ID or job=ID.
    #[arg(long, value_name = "SUBJECT", value_parser = person)]
    subject: Option<AuditSubject>,
    #[command(flatten)]
    filters: AuditFilterArgs,
    /// File to write [default: standard output].
    #[arg(long, help_heading = None::<&str>, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Read the files in this directory, without a server.
    #[arg(long, help_heading = None::<&str>, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

async fn page(query: &AuditQuery, dir: Option<&PathBuf>, server: &ServerArgs) -> Result<AuditList, Stop> {
    match dir {
        Some(dir) => files::page(dir, query),
        None => Ok(server.client()?.audit_trail(query).await?),
    }
}

pub async fn show(args: AuditShowArgs, screen: &mut Screen) -> Done {
    let order = if args.oldest { AuditOrder::Oldest } else { AuditOrder::Newest };
    let query = AuditQuery { cursor: args.cursor, ..args.filters.query(order, args.limit) };
    let list = page(&query, args.dir.as_ref(), &args.ask.server).await?;
    args.ask.show(screen, &list, |screen, list| {
        let records = list.items.chunk_by(same_record);
        screen.table(records.filter_map(|steps| steps.first()), COLUMNS)?;
        show_cursor(screen, list.next_cursor.as_ref())
    })
}

/// Steps of one record stand together, and differ in what they are alone.
fn same_record(one: &AuditItem, other: &AuditItem) -> bool {
    AuditItem { event: other.event, ..one.clone() } == *other && one.event != other.event
}

const COLUMNS: &[Column<AuditItem>] = &[
    ("time", |item| Field::time(item.timestamp)),
    ("kind", |item| Field::from(item.kind.as_str().to_lowercase())),
    ("about", |item| Field::or_dash(about(item))),
    ("company", |item| Field::or_dash(item.company_id.as_ref())),
    ("attempt", |item| Field::or_dash(item.attempt)),
    ("class", |item| Field::or_dash(item.retry.error_classification.map(|class| class.as_str()))),
    ("retry", |item| Field::or_dash(item.retry.should_retry.map(|retry| if retry { "yes" } else { "no" }))),
    ("rule", |item| Field::or_dash(item.rule.as_ref())),
    ("by", |item| Field::or_dash(item.actor.as_ref())),
    ("reason", |item| {
        Field::or_dash(item.retry.retry_reason.as_deref().or(item.retry.error_message.as_deref()))
    }),
    ("record", |item| Field::or_dash(item.archived.as_ref().map(|archived| archived.sequence))),
];

/// The claim or job, the provider or the route that a record is about.
fn about(item: &AuditItem) -> Option<&str> {
    let claim = Some(&*item.claim_id).filter(|claim| !claim.is_empty());
    let erased = item.archived.as_ref().and_then(|archived| archived.erased_by).map(|_| "erased");
    claim.or(erased).or(item.provider.as_deref()).or(Some(&*item.route).filter(|route| !route.is_empty()))
}

pub async fn export(args: AuditExportArgs, screen: &mut Screen) -> Done {
    let whose = args.subject.unwrap_or_default();
    let query = args.filters.query(AuditOrder::Oldest, PAGE_RECORDS);
    let mut query = AuditQuery {
        user_id: whose.user_id.or(query.user_id),
        correlation_id: whose.correlation_id.or(query.correlation_id),
        claim_id: whose.claim_id.or(query.claim_id),
        job_id: whose.job_id.or(query.job_id),
        ..query
    };
    let mut out = args.out.as_ref().map(|path| Ok::<_, Stop>((OutFile::create(path)?, path))).transpose()?;
    let mut lines = 0;
    loop {
        let list = page(&query, args.dir.as_ref(), &args.server).await?;
        let mut text = Vec::new();
        for item in &list.items {
            serde_json::to_writer(&mut text, item).map_err(io::Error::from)?;
            text.push(b'\n');
        }
        lines += list.items.len();
        match &mut out {
            Some((file, _)) => file.write(&text)?,
            None if screen.is_terminal() => screen.text(&*clean_json(&String::from_utf8_lossy(&text)))?,
            None => screen.text(&text)?,
        }
        query.cursor = list.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    if let Some((file, path)) = out {
        file.finish()?;
        screen.line(format_args!("{} holds {}", path.display(), counted(lines as u64, "line", "lines")))?;
    }
    Ok(())
}
