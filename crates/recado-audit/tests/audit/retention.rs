//! Years of it, and what stays when months go.

use recado_audit::{Error, Evidence, Fault, MONTHS_KEPT, Query, search, verify};

use crate::given::{Place, at, entries, month};

/// Six years with ten records each month, from January 2021 to December 2026.
fn six_years() -> Place {
    let place = Place::new();
    let mut trail = place.open();
    for number in 0..72_u64 {
        let now = at(&format!("{}-{:02}-15T12:00:00Z", 2021 + number / 12, number % 12 + 1));
        trail.append(&entries(number * 10 + 1..=number * 10 + 10), now).unwrap();
    }
    drop(trail);
    place
}

#[test]
fn t18_records_are_kept_for_five_years_and_then_dropped_by_the_month() {
    let place = six_years();
    let mut trail = place.open();
    assert!(trail.drop_older_than(MONTHS_KEPT, at("2026-01-31T23:59:59Z")).unwrap().is_empty());
    let dropped = trail.drop_older_than(MONTHS_KEPT, at("2026-12-31T12:00:00Z")).unwrap();
    let months: Vec<_> = dropped.iter().map(|summary| summary.segment.to_string()).collect();
    assert_eq!((months.len(), &*months[0], &*months[10]), (11, "2021-01", "2021-11"));
    assert!(!place.names().contains(&"2021-11.jsonl".to_owned()));
    assert!(!place.names().contains(&"2021-11.index".to_owned()));
    assert!(place.names().contains(&"2021-12.jsonl".to_owned()), "its last day is not five years ago");
    let report = place.assert_whole();
    assert_eq!((report.segments, report.dropped, report.records, report.end), (61, 11, 610, 720));
    assert!(trail.drop_older_than(MONTHS_KEPT, at("2026-12-31T12:00:00Z")).unwrap().is_empty());
    trail.append(&entries(715..=730), at("2027-01-02T00:00:00Z")).unwrap();
    drop(trail);
    assert_eq!(place.open().recovered(), None);
    assert_eq!(place.assert_whole().end, 730);
    let found = search(place.dir(), &Query { job: Some("job-5".into()), ..Query::default() }).unwrap();
    assert!(found.records.is_empty());
}

#[test]
fn t18_the_error_analysis_of_a_dropped_month_stays_without_personal_data() {
    let place = six_years();
    let dropped = place.open().drop_older_than(MONTHS_KEPT, at("2026-12-31T12:00:00Z")).unwrap();
    let counted: u64 = dropped[0].analysis.iter().map(|group| group.records).sum();
    assert_eq!(counted, 10);
    let group = &dropped[0].analysis[0];
    assert_eq!((&*group.route, group.rule.as_deref()), ("tiss-claims", Some("tiss/service_unavailable")));
    let text = String::from_utf8(place.read("2021-01.summary.json")).unwrap();
    for trace in ["user-", "job-", "guia-", "order-", "João"] {
        assert!(!text.contains(trace), "{trace} in {text}");
    }
}

#[test]
fn verify_accepts_the_signed_summary_and_nothing_else_in_a_months_place() {
    let whole = six_years();
    whole.open().drop_older_than(MONTHS_KEPT, at("2026-04-15T12:00:00Z")).unwrap();
    assert_eq!(whole.assert_whole().dropped, 3);
    let fault = |tamper: &dyn Fn(&Place)| {
        let place = whole.copy();
        tamper(&place);
        let findings = place.findings();
        assert!(!findings.is_empty(), "not found");
        (findings[0].segment, findings[0].fault.clone())
    };
    let remove = |name: &'static str| move |place: &Place| std::fs::remove_file(place.path(name)).unwrap();
    let missing = |first, last| Fault::Missing { first, last };
    assert_eq!(fault(&remove("2021-01.summary.json")), (Some(month("2021-02")), missing(1, 10)));
    assert_eq!(fault(&remove("2021-03.summary.json")), (Some(month("2021-04")), missing(21, 30)));
    // One month more than was dropped.
    assert_eq!(fault(&remove("2021-04.jsonl")), (Some(month("2021-05")), missing(31, 40)));
    let edited = |place: &Place| {
        let text = String::from_utf8(place.read("2021-02.summary.json")).unwrap();
        place.write("2021-02.summary.json", text.replace(r#""records":"#, r#""records":1"#));
    };
    assert_eq!(fault(&edited), (Some(month("2021-02")), Fault::SummaryNotSigned));
    let copied = |place: &Place| place.write("2021-04.summary.json", place.read("2021-03.summary.json"));
    assert_eq!(fault(&copied), (Some(month("2021-04")), Fault::SummaryNotSigned));
}

#[test]
fn a_checkpoint_of_a_dropped_month_is_held_against_what_is_left_of_it() {
    let place = six_years();
    let dropped = place.open().drop_older_than(MONTHS_KEPT, at("2026-12-31T12:00:00Z")).unwrap();
    let with = |checkpoint| {
        verify(place.dir(), &Evidence { checkpoints: vec![checkpoint], ..Evidence::default() }).unwrap()
    };
    let report = with(dropped[3].end);
    assert!(report.is_whole() && report.unchecked.is_empty());

    // One from the middle of a month that is gone can no longer be compared, and that is said.
    let place = Place::new();
    let mut trail = place.open();
    trail.append(&entries(1..=5), at("2021-01-10T00:00:00Z")).unwrap();
    let middle = trail.checkpoint().unwrap();
    trail.append(&entries(6..=9), at("2021-01-20T00:00:00Z")).unwrap();
    trail.append(&entries(10..=12), at("2026-02-01T00:00:00Z")).unwrap();
    trail.drop_older_than(MONTHS_KEPT, at("2026-02-01T00:00:00Z")).unwrap();
    let evidence = Evidence { checkpoints: vec![middle], ..Evidence::default() };
    let report = verify(place.dir(), &evidence).unwrap();
    assert!(report.is_whole());
    assert_eq!(report.unchecked, [5]);
}

#[test]
fn the_newest_segment_stays_however_old_it_is() {
    let place = Place::new();
    place.append(1..=5, "2021-01-10T00:00:00Z");
    let mut trail = place.open();
    assert!(trail.drop_older_than(MONTHS_KEPT, at("2031-01-01T00:00:00Z")).unwrap().is_empty());
    trail.append(&entries(1..=6), at("2031-01-01T00:00:00Z")).unwrap();
    assert_eq!(trail.drop_older_than(0, at("2031-02-01T00:00:00Z")).unwrap().len(), 1);
    assert_eq!(place.assert_whole().end, 6);
}

#[test]
fn a_month_that_is_not_whole_is_not_dropped() {
    let place = six_years();
    let mut lines = place.lines("2021-02");
    lines[4] = lines[4].replace("TRANSIENT", "PERMANENT");
    place.put_lines("2021-02", &lines);
    let mut trail = place.open();
    let error = trail.drop_older_than(MONTHS_KEPT, at("2026-12-31T12:00:00Z")).unwrap_err();
    assert!(matches!(error, Error::Damaged { line: 5, .. }), "{error}");
    assert!(place.names().contains(&"2021-02.jsonl".to_owned()), "evidence was destroyed");
    assert!(!place.names().contains(&"2021-01.jsonl".to_owned()));
}

#[test]
fn a_month_whose_summary_was_written_before_a_crash_is_dropped_when_the_trail_is_opened() {
    let place = six_years();
    let before = place.copy();
    place.open().drop_older_than(MONTHS_KEPT, at("2026-03-31T12:00:00Z")).unwrap();
    before.write("2021-01.summary.json", place.read("2021-01.summary.json"));
    assert_eq!(before.assert_whole().records, 720);
    drop(before.open());
    assert!(!before.names().contains(&"2021-01.jsonl".to_owned()));
    assert_eq!(before.assert_whole().records, 710);
}
