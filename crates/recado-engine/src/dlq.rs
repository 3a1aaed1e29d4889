//! The dead letter queue: acts of operators, bulk acts, archive, automatic replays.
//!
//! | file | what |
//! |---|---|
//! | [`operator`] | acts of a person on one job: cancel, replay, discard |
//! | [`bulk`] | the same to many at once: counted, paced, with a canary, going on after a restart |
//! | [`archive`] | where dead letters go that are too many, and how they come back |
//! | [`auto_replay`] | replays without a person, where a route asks for it |

pub mod archive;
pub mod auto_replay;
pub mod bulk;
pub mod operator;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use recado_core::{AuditEvent, AuditKind, RouteName, Timestamp};
use recado_store::{DeadLetterFilter, Store};
use tokio::sync::Notify;

use crate::admission::gate::Gate;
use crate::dlq::archive::Archive;
use crate::dlq::auto_replay::AutoReplay;
use crate::environment::Environment;
use crate::metrics::dead_letter_rate::DeadLetterRate;
use crate::notify::Notifier;

/// Makes a record about all dead letters that a filter lets through.
pub(crate) fn about_entries(
    filter: &DeadLetterFilter,
    id: &str,
    kind: AuditKind,
    now: Timestamp,
) -> AuditEvent {
    let route = filter.route.as_ref().map_or("*", |route| route.as_str());
    let company_id = filter.company.as_ref().map(|company| company.as_str().into());
    AuditEvent { company_id, ..AuditEvent::claim(id, route, kind, now) }
}

/// Terms of the dead letter queue.
#[derive(Clone, Debug)]
pub struct DeadLetterTerms {
    /// Entries at most before the oldest are archived, where there is an archive.
    pub max_size: u64,
    pub archive: Option<Arc<dyn Archive>>,
    /// Routes whose dead letters are replayed without a person.
    pub auto_replay: BTreeMap<RouteName, AutoReplay>,
}

impl Default for DeadLetterTerms {
    fn default() -> Self {
        DeadLetterTerms { max_size: archive::SIZE_MAX_DEFAULT, archive: None, auto_replay: BTreeMap::new() }
    }
}

/// The dead letter queue, and what is done with its entries.
#[derive(Debug)]
pub struct DeadLetters {
    pub(crate) terms: DeadLetterTerms,
    pub(crate) env: Arc<Environment>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) notifier: Arc<Notifier>,
    /// Dead letters that came in each hour.
    pub rate: Arc<DeadLetterRate>,
    /// The audit trail's files, which name the persons that were erased.
    pub(crate) trail_dir: Option<PathBuf>,
    /// Wakes when a bulk act began or was stopped.
    pub(crate) bulk_changed: Notify,
}
