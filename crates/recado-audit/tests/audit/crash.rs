//! Trails left by a process that ended in the middle of a write.

use recado_audit::{Error, Identity, Options, Subject, Trail};

use crate::given::{Place, SOURCE, at, entries};

const NOW: &str = "2026-11-15T12:00:00Z";

fn refused(place: &Place) -> Error {
    Trail::open(place.dir(), &Options::default()).unwrap_err()
}

/// Before and after an append, and the append cut off at each of its bytes.
fn cut_at_every_byte(before: &Place, segment: &str, grow: impl Fn(&mut Trail), expected: u64) {
    let after = before.copy();
    grow(&mut after.open());
    let whole = after.read(segment);
    let start = std::fs::metadata(before.path(segment)).map_or(0, |meta| meta.len() as usize);
    assert!(whole.len() > start + 100, "nothing was appended");
    for length in start..=whole.len() {
        let crashed = before.copy();
        crashed.write(segment, &whole[..length]);
        let mut trail = crashed.open();
        let cut = trail.recovered().map_or(0, |recovered| recovered.cut_bytes);
        assert!(cut <= (length - start) as u64);
        assert_eq!(cut > 0, length > start && length < whole.len(), "cut {cut} at {length}");
        grow(&mut trail);
        drop(trail);
        let report = crashed.assert_whole();
        assert_eq!((report.records, report.end), (expected, expected), "cut at {length}");
        assert_eq!(crashed.source_numbers(), (1..=expected).collect::<Vec<_>>(), "cut at {length}");
    }
}

#[test]
fn an_append_cut_off_at_any_byte_is_undone_and_repeated_without_loss_or_double() {
    let place = Place::new();
    place.append(1..=2, NOW);
    let grow = |trail: &mut Trail| {
        trail.append(&entries(1..=4), at(NOW)).unwrap();
    };
    cut_at_every_byte(&place, "2026-11.jsonl", grow, 4);
}

#[test]
fn the_first_append_of_a_month_cut_off_at_any_byte_is_undone_too() {
    let place = Place::new();
    place.append(1..=2, "2026-10-15T12:00:00Z");
    let grow = |trail: &mut Trail| {
        trail.append(&entries(1..=3), at(NOW)).unwrap();
    };
    cut_at_every_byte(&place, "2026-11.jsonl", grow, 3);
}

#[test]
fn what_was_signed_in_the_middle_of_a_batch_stays_and_is_not_repeated() {
    let place = Place::new();
    let options = Options { sign_every: 2, ..Options::default() };
    let mut trail = Trail::open(place.dir(), &options).unwrap();
    trail.append(&entries(1..=5), at(NOW)).unwrap();
    drop(trail);
    std::fs::remove_file(place.path("head.json")).unwrap();
    let lines = place.lines("2026-11");
    place.put_lines("2026-11", &lines[..3]);
    let mut trail = place.open();
    assert!(trail.recovered().unwrap().cut_bytes > 0);
    assert_eq!(trail.archived_through(SOURCE), Some(2));
    assert_eq!(trail.append(&entries(1..=5), at(NOW)).unwrap().records, 3);
    drop(trail);
    assert_eq!(place.source_numbers(), [1, 2, 3, 4, 5]);
    place.assert_whole();
}

#[test]
fn a_head_that_a_power_cut_left_behind_is_brought_up_to_date() {
    let place = Place::new();
    place.append(1..=10, "2026-10-15T12:00:00Z");
    let old = place.read("head.json");
    place.append(11..=20, "2026-10-16T12:00:00Z");
    place.append(21..=30, NOW);
    place.write("head.json", &old);
    assert_eq!(place.assert_whole().records, 30);
    let mut trail = place.open();
    assert_eq!(trail.recovered(), None, "nothing was lost, so nothing is said");
    assert_eq!(trail.append(&entries(5..=31), at(NOW)).unwrap().records, 1);
    drop(trail);
    assert_eq!(place.source_numbers(), (1..=31).collect::<Vec<_>>());
    place.assert_whole();
}

#[test]
fn a_head_that_is_gone_is_made_again_from_the_records_and_said() {
    // A power cut may leave it empty, cut off or with zeros in it.
    let head = Place::three_months().read("head.json").len();
    for (left, zeros) in
        [(None, 0), (Some(0), 0), (Some(head / 2), 0), (Some(0), head), (Some(head / 2), head / 2)]
    {
        let place = Place::three_months();
        match left {
            None => std::fs::remove_file(place.path("head.json")).unwrap(),
            Some(left) => {
                let bytes = place.read("head.json");
                place.write("head.json", [&bytes[..left], &vec![0; zeros]].concat());
            }
        }
        assert!(!place.verify().is_whole());
        let mut trail = place.open();
        assert!(trail.recovered().unwrap().head_was_missing);
        assert!(trail.recovered().unwrap().to_string().contains("head.json"));
        assert_eq!(trail.append(&entries(1..=61), at(NOW)).unwrap().records, 1);
        drop(trail);
        assert_eq!(place.assert_whole().records, 61);
    }
}

#[test]
fn a_trail_that_lost_records_it_had_signed_is_not_written_on() {
    let place = Place::three_months();
    let lines = place.lines("2026-11");
    place.put_lines("2026-11", &lines[..10]);
    let error = refused(&place);
    assert!(matches!(error, Error::Shortened { signed: 60, end: 50 }), "{error}");
    let place = Place::three_months();
    let mut bytes = place.read("2026-11.jsonl");
    bytes.pop();
    place.write("2026-11.jsonl", &bytes);
    assert!(matches!(refused(&place), Error::Shortened { signed: 60, end: 50 }));
    assert_eq!(place.read("2026-11.jsonl"), bytes, "a trail that is refused is left as it is");
    let place = Place::three_months();
    std::fs::remove_file(place.path("2026-11.jsonl")).unwrap();
    assert!(matches!(refused(&place), Error::Shortened { signed: 60, end: 40 }));
}

#[test]
fn a_trail_with_a_damaged_end_is_not_written_on() {
    let place = Place::three_months();
    let text = String::from_utf8(place.read("2026-11.jsonl")).unwrap();
    place.write("2026-11.jsonl", text.replace(r#""sourceSequence":60"#, r#""sourceSequence":61"#));
    let error = refused(&place);
    assert!(matches!(error, Error::Damaged { line: 20, .. }), "{error}");
    let place = Place::three_months();
    std::fs::remove_file(place.path("head.json")).unwrap();
    let text = String::from_utf8(place.read("2026-10.jsonl")).unwrap();
    place.write("2026-10.jsonl", text.replace(r#""sourceSequence":27"#, r#""sourceSequence":28"#));
    let error = refused(&place);
    assert!(matches!(error, Error::Damaged { line: 7, .. }), "{error}");
}

#[test]
fn a_trail_that_went_another_way_than_its_head_is_not_written_on() {
    let place = Place::three_months();
    let other = place.copy();
    place.append(61..=61, NOW);
    other.append(61..=61, NOW);
    other.append(62..=62, NOW);
    place.write("2026-11.jsonl", other.read("2026-11.jsonl"));
    let error = refused(&place);
    assert!(matches!(error, Error::Damaged { line: 21, .. }), "{error}");
}

#[test]
fn a_foreign_head_or_erasure_is_refused() {
    let place = Place::three_months();
    let other = Place::three_months();
    let head = place.read("head.json");
    place.write("head.json", other.read("head.json"));
    assert!(matches!(refused(&place), Error::NotOurs { .. }));
    place.write("erasure.json", &head);
    place.write("head.json", &head);
    assert!(matches!(refused(&place), Error::NotOurs { .. }), "a head passed for an erasure");
}

#[test]
fn a_full_or_failing_disk_in_the_middle_of_an_erasure_is_made_good_when_the_trail_is_opened() {
    let subject = Subject { identity: Identity::User("user-3".into()), company: None };
    let before = Place::three_months();
    let place = before.copy();
    let mut trail = place.open();
    // The second segment's new file cannot be made.
    std::fs::create_dir(place.path("2026-10.jsonl.new")).unwrap();
    trail.erase(&subject, "ana", "pedido 17", at(NOW)).unwrap_err();
    assert!(place.names().contains(&"erasure.json".to_owned()), "the fault did not come in the middle");
    assert!(!place.names().contains(&"2026-10.index".to_owned()), "an index still knows the person");
    assert!(matches!(trail.append(&entries(61..=61), at(NOW)), Err(Error::Broken)));
    drop(trail);
    std::fs::remove_dir(place.path("2026-10.jsonl.new")).unwrap();
    let findings = place.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].to_string().contains("not finished"), "{}", findings[0]);

    // The same erasure, ended by a crash before anything but its note was written.
    let early = before.copy();
    early.write("erasure.json", place.read("erasure.json"));
    for crashed in [place, early] {
        let trail = crashed.open();
        assert_eq!(trail.recovered().unwrap().finished_erasure, Some(61));
        drop(trail);
        let report = crashed.assert_whole();
        assert_eq!((report.records, report.erased), (61, 6));
        assert!(!crashed.names().contains(&"erasure.json".to_owned()));
        assert_eq!(crashed.open().recovered(), None);
    }
}

#[test]
fn nothing_goes_into_a_file_that_was_taken_away_or_changed_while_it_was_written() {
    type Change = (&'static str, fn(&Place));
    let changes: [Change; 3] = [
        ("moved", |place| std::fs::rename(place.path("2026-11.jsonl"), place.path("moved")).unwrap()),
        ("another one in its place", |place| {
            std::fs::rename(place.path("2026-11.jsonl"), place.path("moved")).unwrap();
            std::fs::copy(place.path("moved"), place.path("2026-11.jsonl")).unwrap();
        }),
        ("shortened", |place| {
            let whole = place.read("2026-11.jsonl");
            place.write("moved", &whole);
            place.write("2026-11.jsonl", &whole[..whole.len() / 2]);
        }),
    ];
    for (how, change) in changes {
        let place = Place::new();
        let mut trail = place.open();
        trail.append(&entries(1..=2), at(NOW)).unwrap();
        change(&place);
        let refused = trail.append(&entries(3..=4), at(NOW)).unwrap_err();
        assert!(matches!(refused, Error::Displaced { .. }), "{how}: {refused}");
        assert!(matches!(trail.append(&entries(3..=4), at(NOW)), Err(Error::Broken)), "{how}");
        drop(trail);
        std::fs::rename(place.path("moved"), place.path("2026-11.jsonl")).unwrap();
        place.append(3..=4, NOW);
        place.assert_whole();
        assert_eq!(place.source_numbers(), [1, 2, 3, 4], "{how}: put back, it goes on");
    }
}
