//! Trails that earlier versions wrote can be read.

use std::path::Path;

use recado_audit::{Content, Evidence, Identity, Query, Subject, search, verify};

#[test]
fn a_trail_of_format_1_is_whole_and_its_records_are_found() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let report = verify(&dir, &Evidence::default()).unwrap();
    assert!(report.is_whole(), "{:#?}", report.findings);
    let counts = (report.segments, report.dropped, report.records, report.erased, report.end);
    assert_eq!(counts, (2, 1, 7, 3, 10));
    let found = search(&dir, &Query { claim: Some("guia-5".into()), ..Query::default() }).unwrap().records;
    let [record] = &found[..] else { panic!("{found:?}") };
    let Content::Event { event, source_sequence, .. } = &record.content else { panic!("{record:?}") };
    assert_eq!((&*event.route, event.user_id.as_deref(), *source_sequence), ("tiss-claims", Some("joão"), 5));
    let subject = Subject { identity: Identity::User("joão".into()), company: Some("acme".into()) };
    assert_eq!(search(&dir, &Query::about(&subject)).unwrap().records.len(), 3);
}
