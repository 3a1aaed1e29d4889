//! The rights of a person: to see every record, and to have them removed.

use recado_audit::{Content, Erasure, Identity, Query, Record, Subject, search};
use recado_core::AuditKind;

use crate::given::{Place, at, entries, month};

const NOW: &str = "2026-11-20T12:00:00Z";

fn user(id: &str) -> Subject {
    Subject { identity: Identity::User(id.into()), company: None }
}

fn about(place: &Place, subject: &Subject) -> Vec<Record> {
    search(place.dir(), &Query { limit: 1_000, ..Query::about(subject) }).unwrap().records
}

fn all(place: &Place) -> Vec<Record> {
    search(place.dir(), &Query { limit: 1_000, ..Query::default() }).unwrap().records
}

fn erasures(place: &Place) -> Vec<Erasure> {
    let query = Query { kind: Some(AuditKind::PersonalDataErased), ..Query::default() };
    let records = search(place.dir(), &query).unwrap().records;
    let erasure = |record: Record| match record.content {
        Content::Erasure { erasure } => erasure,
        Content::Event { .. } => panic!("not an erasure"),
    };
    records.into_iter().map(erasure).collect()
}

#[test]
fn t18_the_log_of_one_subject_is_exported_whole_and_no_other_subjects() {
    let place = Place::three_months();
    let records = about(&place, &user("user-3"));
    let numbers: Vec<_> = records.iter().map(|record| record.sequence).collect();
    assert_eq!(numbers, [3, 13, 23, 33, 43, 53]);
    for (record, number) in records.iter().zip(numbers) {
        let event = record.event();
        assert_eq!(event.user_id.as_deref(), Some("user-3"));
        assert_eq!(event.job_id.as_deref(), Some(&*format!("job-{number}")));
        assert_eq!(*event.claim_id, *format!("guia-{}", number % 50));
        assert!(event.decision.error_message.as_deref().unwrap().contains("João"));
    }
}

#[test]
fn t18_a_subject_is_known_by_user_correlation_claim_or_job_and_within_a_company() {
    let place = Place::three_months();
    let count = |identity: Identity, company: Option<&str>| {
        about(&place, &Subject { identity, company: company.map(Into::into) }).len()
    };
    assert_eq!(count(Identity::Correlation("order-4".into()), None), 3);
    assert_eq!(count(Identity::Claim("guia-7".into()), None), 2);
    assert_eq!(count(Identity::Job("job-7".into()), None), 1);
    assert_eq!(count(Identity::User("user-3".into()), Some("company-1")), 2);
    assert_eq!(count(Identity::User("user-3".into()), Some("company-9")), 0);
    assert_eq!(count(Identity::User("user-".into()), None), 0);
}

#[test]
fn an_erasure_removes_the_subjects_data_from_every_file_and_the_chain_stays_whole() {
    let place = Place::three_months();
    let mut trail = place.open();
    let kept = trail.checkpoint().unwrap();
    let erased = trail.erase(&user("user-3"), "ana", "pedido 17", at(NOW)).unwrap();
    assert_eq!((erased.records, erased.recorded_as), (6, vec![61]));
    drop(trail);

    let report = place.assert_whole();
    assert_eq!((report.records, report.erased, report.end), (61, 6, 61));
    let evidence = recado_audit::Evidence { checkpoints: vec![kept], ..Default::default() };
    assert!(recado_audit::verify(place.dir(), &evidence).unwrap().is_whole(), "an old checkpoint holds on");
    for name in place.names() {
        let text = String::from_utf8_lossy(&place.read(&name)).into_owned();
        for trace in ["user-3\"", "\"job-13\"", "\"guia-23\"", "João\\\" 33"] {
            assert!(!text.contains(trace), "{trace} is still in {name}");
        }
    }
    assert!(about(&place, &user("user-3")).is_empty());
    assert_eq!(about(&place, &user("user-4")).len(), 6, "another person lost something");
}

#[test]
fn what_is_left_of_an_erased_record_are_the_bare_facts_and_who_acted() {
    let place = Place::new();
    let mut batch = entries(1..=3);
    batch[1].event.actor = Some("bia".into());
    let mut trail = place.open();
    trail.append(&batch, at(NOW)).unwrap();
    trail.erase(&user("user-2"), "ana", "pedido 17", at(NOW)).unwrap();
    let records = all(&place);
    let Content::Event { event, erased_by, .. } = &records[2].content else {
        panic!("not an event: {records:?}");
    };
    let mut left = batch[1].event.clone();
    (left.claim_id, left.job_id, left.decision.error_message, left.decision.retry_reason) =
        ("".into(), None, None, None);
    (left.user_id, left.correlation_id) = (None, None);
    assert_eq!((event, *erased_by), (&left, Some(4)));
    let query = Query { claim: Some("".into()), ..Query::default() };
    assert!(search(place.dir(), &query).unwrap().records.is_empty(), "nothing is found by an empty claim");
}

#[test]
fn the_record_of_an_erasure_says_who_when_and_how_many_but_not_whose_unless_one_knows() {
    let place = Place::three_months();
    let subject = Subject { identity: Identity::User("user-3".into()), company: Some("company-1".into()) };
    place.open().erase(&subject, "ana", "pedido 17", at(NOW)).unwrap();
    let erasures = erasures(&place);
    let [erasure] = &erasures[..] else { panic!("{erasures:?}") };
    assert_eq!((&*erasure.actor, &*erasure.reason, erasure.records), ("ana", "pedido 17", 2));
    assert_eq!(erasure.company_id.as_deref(), Some("company-1"));
    let named: Vec<_> =
        erasure.segments.iter().map(|(month, sequences)| (*month, sequences.clone())).collect();
    assert_eq!(named, [(month("2026-09"), vec![13]), (month("2026-11"), vec![43])]);
    assert!(erasure.concerns(&subject));
    assert!(!erasure.concerns(&user("user-3")), "another company's was not erased");
    assert!(!erasure.concerns(&Subject { identity: Identity::User("user-4".into()), ..subject.clone() }));
    assert!(!erasure.concerns(&Subject { identity: Identity::Job("user-3".into()), ..subject }));
    let by_ana = Query { actor: Some("ana".into()), ..Query::default() };
    let found = search(place.dir(), &by_ana).unwrap().records;
    assert_eq!((found.len(), found[0].sequence, found[0].archived_at), (1, 61, at(NOW)));
}

#[test]
fn an_erasure_that_finds_nothing_leaves_nothing_behind() {
    let place = Place::three_months();
    let before = place.read("2026-11.jsonl");
    let mut trail = place.open();
    let subject = user("unknown");
    assert_eq!(trail.erase(&subject, "ana", "pedido 17", at(NOW)).unwrap().records, 0);
    trail.erase(&user("user-3"), "ana", "pedido 17", at(NOW)).unwrap();
    let twice = trail.erase(&user("user-3"), "ana", "pedido 17", at(NOW)).unwrap();
    assert_eq!((twice.records, twice.recorded_as.len()), (0, 0));
    drop(trail);
    assert!(place.read("2026-11.jsonl") != before);
    assert_eq!(place.assert_whole().records, 61);
}

#[test]
fn the_trail_goes_on_after_an_erasure_and_several_may_meet_in_a_segment() {
    let place = Place::three_months();
    let mut trail = place.open();
    trail.erase(&user("user-3"), "ana", "pedido 17", at(NOW)).unwrap();
    trail.append(&entries(61..=70), at(NOW)).unwrap();
    trail.erase(&user("user-4"), "bia", "pedido 18", at(NOW)).unwrap();
    trail.erase(&user("user-3"), "bia", "pedido 19", at(NOW)).unwrap();
    trail.append(&entries(71..=80), at("2026-12-01T00:00:00Z")).unwrap();
    drop(trail);
    let report = place.assert_whole();
    assert_eq!((report.records, report.erased), (83, 6 + 7 + 1));
    assert_eq!(place.source_numbers(), (1..=80).collect::<Vec<_>>());
    assert_eq!(place.open().recovered(), None);
    assert_eq!(about(&place, &user("user-5")).len(), 8, "the indexes fell behind");
}

#[test]
fn a_subject_with_more_records_than_one_erasure_names_is_erased_by_several() {
    let place = Place::new();
    let mut batch = entries(1..=10_050);
    for entry in &mut batch {
        entry.event.user_id = Some("one".into());
    }
    let mut trail = place.open();
    trail.append(&batch, at(NOW)).unwrap();
    let erased = trail.erase(&user("one"), "ana", "pedido 17", at(NOW)).unwrap();
    assert_eq!((erased.records, erased.recorded_as), (10_050, vec![10_051, 10_052]));
    assert_eq!(place.assert_whole().erased, 10_050);
    assert_eq!(erasures(&place).iter().map(|erasure| erasure.records).collect::<Vec<_>>(), [50, 10_000]);
}
