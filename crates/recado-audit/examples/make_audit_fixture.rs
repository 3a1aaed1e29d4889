//! Writes the trail that `tests/fixtures` keeps of the current format, so that a later version can prove that
//! it still reads this one. Run it once for each version of the format: `cargo run -p recado-audit --example
//! make_audit_fixture -- crates/recado-audit/tests/fixtures/v1`. The signing key is not kept: fixtures are never
//! written to.

use std::error::Error;
use std::path::PathBuf;

use recado_audit::{Entry, Identity, MONTHS_KEPT, Options, Subject, Trail};
use recado_core::{AuditEvent, AuditKind, Class, Timestamp};

fn entry(number: u64, kind: AuditKind, at: Timestamp) -> Entry {
    let mut event = AuditEvent::claim(&format!("guia-{number}"), "tiss-claims", kind, at);
    event.job_id = Some(format!("job-{number}").into());
    event.company_id = Some("acme".into());
    event.decision.error_message = Some("SERVICE_UNAVAILABLE".into());
    event.decision.error_classification = Some(Class::Transient);
    event.decision.rule = Some("tiss/service_unavailable".into());
    let user = if number.is_multiple_of(2) { "maria" } else { "joão" };
    event.user_id = Some(user.into());
    event.correlation_id = Some(format!("order-{number}").into());
    Entry { source: "embedded".into(), sequence: number, event }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("say where to write it")?);
    let key = std::env::temp_dir().join(format!("recado-fixture-{}.pem", std::process::id()));
    let mut trail = Trail::open(&dir, &Options { key: Some(key.clone()), ..Options::default() })?;
    for (first, now) in
        [(1, "2021-09-15T12:00:00Z"), (4, "2026-10-15T12:00:00Z"), (7, "2026-11-15T12:00:00Z")]
    {
        let now = now.parse()?;
        let kinds = [AuditKind::ClaimRetry, AuditKind::ClaimRefused, AuditKind::Delivered];
        let batch: Vec<_> = (first..).zip(kinds).map(|(number, kind)| entry(number, kind, now)).collect();
        trail.append(&batch, now)?;
    }
    let now = "2026-11-20T12:00:00Z".parse()?;
    let subject = Subject { identity: Identity::User("maria".into()), company: Some("acme".into()) };
    trail.drop_older_than(MONTHS_KEPT, now)?;
    trail.erase(&subject, "ana", "request 17", now)?;
    drop(trail);
    std::fs::remove_file(key)?;
    for lock in ["writer.lock", "reader.lock"] {
        std::fs::remove_file(dir.join(lock))?;
    }
    Ok(())
}
