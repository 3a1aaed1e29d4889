//! Contents of the files after an append.

use recado_audit::{Content, Error, Options, PublicKey, Query, Trail, search};
use recado_core::{AuditEvent, AuditKind, Class, RetryDecision};
use serde_json::Value;

use crate::forger;
use crate::given::{Place, SOURCE, at, entries, entry};

#[test]
fn t14_a_record_has_the_nine_required_fields_and_reads_back_as_it_came() {
    let place = Place::new();
    place.append(1..=3, "2026-11-15T12:00:00Z");
    let line: Value = serde_json::from_str(&place.lines("2026-11")[0]).unwrap();
    let (event, personal) = (&line["event"], &line["personal"]);
    let nine = [
        (&event["timestamp"], Value::from("2026-09-01T08:00:01.000Z")),
        (&personal["claimId"], Value::from("guia-1")),
        (&personal["errorMessage"], Value::from("SERVICE_UNAVAILABLE for \"João\" 1\n")),
        (&event["retryCount"], Value::from(1)),
        (&event["errorClassification"], Value::from("TRANSIENT")),
        (&event["backoffMinutes"], Value::from(7)),
        (&event["nextRetryTime"], Value::from("2026-09-01T08:07:01.000Z")),
        (&event["shouldRetry"], Value::from(true)),
        (&personal["retryReason"], Value::from("TISS não respondeu")),
    ];
    for (found, expected) in nine {
        assert_eq!(*found, expected);
    }
    let page = search(place.dir(), &Query { job: Some("job-1".into()), ..Query::default() }).unwrap();
    let expected = entry(1);
    let Content::Event { event, source_sequence, .. } = &page.records[0].content else {
        panic!("not an event: {page:?}");
    };
    assert_eq!(event, &expected.event);
    assert_eq!((page.records.len(), *source_sequence), (1, 1));
}

#[test]
fn every_field_of_an_event_comes_back_whatever_is_in_it() {
    let place = Place::new();
    let nasty = "\",\"personal\":{\"hash\":\"\u{0}\n\\ 🚀";
    let mut full = entry(1);
    full.event = AuditEvent {
        claim_id: nasty.into(),
        job_id: Some(nasty.into()),
        company_id: Some(nasty.into()),
        user_id: Some(nasty.into()),
        correlation_id: Some(nasty.into()),
        provider: Some(nasty.into()),
        decision: RetryDecision {
            attempt: Some(u32::MAX),
            error_code: Some(nasty.into()),
            error_message: Some(nasty.into()),
            retry_count: Some(0),
            error_classification: Some(Class::Unknown),
            backoff_minutes: Some(u64::MAX),
            next_retry_time: None,
            should_retry: Some(false),
            retry_reason: Some(nasty.into()),
            rule: Some(nasty.into()),
        },
        actor: Some(nasty.into()),
        bulk_id: Some(nasty.into()),
        data_changed: Some(true),
        ..AuditEvent::claim("", nasty, AuditKind::Replayed, at("2026-09-01T08:00:00Z"))
    };
    full.source = nasty.into();
    let mut bare = entry(2);
    bare.event = AuditEvent::claim("", "", AuditKind::Cancelled, at("2026-09-01T08:00:00Z"));
    let mut trail = place.open();
    trail.append(&[full.clone(), bare.clone()], at("2026-11-15T12:00:00Z")).unwrap();
    let page = search(place.dir(), &Query::default()).unwrap();
    let events: Vec<_> = page
        .records
        .into_iter()
        .map(|record| match record.content {
            Content::Event { event, .. } => event,
            Content::Erasure { .. } => panic!("nothing was erased"),
        })
        .collect();
    assert_eq!(events, [bare.event, full.event]);
    place.assert_whole();
}

/// The format as `docs/audit.md` tells it, without any code of ours.
#[test]
fn each_line_continues_the_one_before_by_rules_that_an_auditor_can_follow() {
    let place = Place::three_months();
    let mut previous = "0".repeat(64);
    let mut sequence = 0;
    for segment in ["2026-09", "2026-10", "2026-11"] {
        for line in place.lines(segment) {
            sequence += 1;
            let (body, personal, _) = forger::parts(&line);
            assert!(
                line.starts_with(&format!(r#"{{"v":1,"sequence":{sequence},"previous":"{previous}","#)),
                "{line}"
            );
            let object = personal.strip_prefix(r#","personal":"#).unwrap();
            assert_eq!(forger::field(&line, "commitment"), forger::sha256(object));
            assert_eq!(forger::field(&line, "hash"), forger::sha256(body));
            assert!(forger::field(&line, "archivedAt").starts_with(segment));
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["personal"]["salt"].as_str().unwrap().len(), 32);
            previous = forger::link(&line);
        }
    }
    assert_eq!(sequence, 60);
    let report = place.assert_whole();
    assert_eq!((report.segments, report.records, report.end), (3, 60, 60));
}

#[test]
fn the_last_record_of_an_append_is_signed_and_every_so_many_in_between() {
    let place = Place::new();
    let options = Options { sign_every: 4, ..Options::default() };
    let mut trail = Trail::open(place.dir(), &options).unwrap();
    trail.append(&entries(1..=10), at("2026-11-15T12:00:00Z")).unwrap();
    let signed: Vec<_> =
        place.lines("2026-11").iter().map(|line| line.contains(r#","signature":""#)).collect();
    assert_eq!(signed, [false, false, false, true, false, false, false, true, false, true]);
    assert_eq!(trail.checkpoint().unwrap().sequence, 10);
}

#[test]
fn a_batch_that_comes_again_is_written_once() {
    let place = Place::new();
    let now = at("2026-11-15T12:00:00Z");
    let mut trail = place.open();
    assert_eq!(trail.archived_through(SOURCE), None);
    trail.append(&entries(1..=10), now).unwrap();
    let again = trail.append(&entries(1..=10), now).unwrap();
    assert_eq!((again.records, again.repeated), (0, 10));
    let overlapping = trail.append(&entries(6..=15), now).unwrap();
    assert_eq!((overlapping.records, overlapping.repeated), (5, 5));
    drop(trail);
    let mut trail = place.open();
    assert_eq!(trail.archived_through(SOURCE), Some(15));
    assert_eq!(trail.append(&entries(11..=15), now).unwrap().records, 0);
    assert_eq!(place.source_numbers(), (1..=15).collect::<Vec<_>>());
    place.assert_whole();
}

#[test]
fn sources_have_numbers_of_their_own_and_may_leave_some_out() {
    let place = Place::new();
    let of = |source: &str, n: u64| recado_audit::Entry { source: source.into(), ..entry(n) };
    let mut trail = place.open();
    let batch = [of("a", 7), of("b", 3), of("a", 9), of("b", 4)];
    assert_eq!(trail.append(&batch, at("2026-11-15T12:00:00Z")).unwrap().records, 4);
    assert_eq!((trail.archived_through("a"), trail.archived_through("b")), (Some(9), Some(4)));
    assert_eq!(trail.append(&[of("c", 1)], at("2026-11-15T12:00:00Z")).unwrap().records, 1);
}

#[test]
fn a_batch_out_of_order_is_refused_whole() {
    let place = Place::new();
    let mut trail = place.open();
    let error = trail.append(&[entry(1), entry(3), entry(2)], at("2026-11-15T12:00:00Z")).unwrap_err();
    assert!(matches!(error, Error::OutOfOrder { sequence: 2, after: 3, .. }), "{error}");
    let error = trail.append(&[entry(1), entry(1)], at("2026-11-15T12:00:00Z")).unwrap_err();
    assert!(matches!(error, Error::OutOfOrder { sequence: 1, after: 1, .. }), "{error}");
    assert_eq!(trail.checkpoint(), None);
    assert_eq!(place.assert_whole().records, 0);
}

#[test]
fn a_record_that_no_line_holds_is_refused_and_the_trail_goes_on() {
    let place = Place::new();
    let mut trail = place.open();
    let mut long = entry(2);
    long.event.decision.error_message = Some("x".repeat(1 << 20).into());
    let error = trail.append(&[entry(1), long], at("2026-11-15T12:00:00Z")).unwrap_err();
    assert!(matches!(error, Error::TooLong { sequence: 2, .. }), "{error}");
    assert!(!error.to_string().contains("xxx"), "{error}");
    trail.append(&entries(1..=1), at("2026-11-15T12:00:00Z")).unwrap();
    assert_eq!(place.assert_whole().records, 1);
}

#[test]
fn a_clock_that_is_set_back_does_not_take_the_trail_back() {
    let place = Place::new();
    place.append(1..=1, "2026-11-15T12:00:00Z");
    place.append(2..=2, "2026-10-01T00:00:00Z");
    assert_eq!(place.lines("2026-11").len(), 2);
    assert!(place.lines("2026-11")[1].contains(r#""archivedAt":"2026-11-15T12:00:00.000Z""#));
    place.assert_whole();
}

#[test]
fn the_key_is_made_once_for_this_user_alone_and_its_public_half_reads_back() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let elsewhere = place.path("keys.pem");
    let options = Options { key: Some(elsewhere.clone()), ..Options::default() };
    let public = Trail::open(place.dir(), &options).unwrap().public_key();
    assert_eq!(std::fs::metadata(&elsewhere).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Trail::open(place.dir(), &options).unwrap().public_key(), public);
    let pem = String::from_utf8(place.read("public.pem")).unwrap();
    assert_eq!(pem, public.to_string());
    assert_eq!(pem.parse::<PublicKey>().unwrap(), public);
    for wrong in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "ssh-ed25519 AAAA"] {
        assert!(wrong.parse::<PublicKey>().is_err(), "{wrong}");
    }
    assert!(!place.names().contains(&"signing.pem".to_owned()));
    for name in place.names() {
        let mode = std::fs::metadata(place.path(&name)).unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "others may read {name}");
    }
}

#[test]
fn a_trail_whose_key_is_gone_or_another_is_not_written_on() {
    let place = Place::three_months();
    let refused = || Trail::open(place.dir(), &Options::default()).unwrap_err();
    let key = place.read("signing.pem");
    std::fs::remove_file(place.path("signing.pem")).unwrap();
    assert!(matches!(refused(), Error::KeyMissing { .. }));
    let other = Place::new();
    drop(other.open());
    place.write("signing.pem", other.read("signing.pem"));
    assert!(matches!(refused(), Error::NotOurs { .. }), "{}", refused());
    place.write("signing.pem", "nonsense");
    assert!(matches!(refused(), Error::NotAKey { .. }));
    place.write("signing.pem", key);
    drop(place.open());
    place.assert_whole();
}
