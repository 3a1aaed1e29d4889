//! A trail's files read without a server, in the words of the API.

use std::path::Path;

use recado_audit::{Content, Order, Query, Record, search};
use recado_wire::audit::{ArchivedRecord, AuditItem, AuditList, AuditOrder, AuditQuery};

use crate::Stop;

pub fn page(dir: &Path, asked: &AuditQuery) -> Result<AuditList, Stop> {
    let newest_first = asked.order.unwrap_or_default() == AuditOrder::Newest;
    let beyond = asked.cursor.as_deref().map(str::parse).transpose();
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    let query = Query {
        job: text(&asked.job_id),
        claim: text(&asked.claim_id),
        correlation: text(&asked.correlation_id),
        company: text(&asked.company_id),
        user: text(&asked.user_id),
        actor: text(&asked.actor),
        kind: asked.kind,
        since: asked.since,
        until: asked.until,
        order: if newest_first { Order::NewestFirst } else { Order::OldestFirst },
        beyond: beyond.map_err(|_| Stop::Usage("--cursor is not one of these files".to_owned()))?,
        limit: asked.limit.unwrap_or(recado_wire::PAGE_ITEMS_DEFAULT) as usize,
    };
    let page = search(dir, &query).map_err(|error| Stop::Failed(error.to_string()))?;
    let mut items = Vec::new();
    for record in &page.records {
        let mut steps = AuditItem::steps(&record.event(), Some(&archived(record)));
        if newest_first {
            steps.reverse();
        }
        items.extend(steps);
    }
    Ok(AuditList { items, next_cursor: page.next.map(|next| next.to_string()) })
}

fn archived(record: &Record) -> ArchivedRecord {
    let erased_by = match &record.content {
        Content::Event { erased_by, .. } => *erased_by,
        Content::Erasure { .. } => None,
    };
    ArchivedRecord {
        sequence: record.sequence,
        recorded_at: record.archived_at,
        hash: record.hash.to_string(),
        erased_by,
    }
}
