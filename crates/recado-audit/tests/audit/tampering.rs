//! Every change to the files is found by `verify`, with its place.

use proptest::prelude::*;
use recado_audit::{Evidence, Fault, Identity, Options, Subject, Trail, verify};

use crate::forger::{self, rechain, rehash};
use crate::given::{Place, at, entries, month};

const NOW: &str = "2026-11-20T12:00:00Z";

/// A finding: segment, line, sequence, fault.
type Found = (Option<&'static str>, Option<u64>, Option<u64>, Fault);

/// Tampers with a trail of three months (records 1–20, 21–40, 41–60), and expects exactly these findings.
fn expect(tamper: impl Fn(&Place), expected: &[Found]) {
    let place = Place::three_months();
    place.assert_whole();
    tamper(&place);
    expect_of(&place, expected);
}

fn expect_of(place: &Place, expected: &[Found]) {
    let found = place.findings();
    let listed: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{listed:#?}");
    for (found, (segment, line, sequence, fault)) in found.iter().zip(expected) {
        let place = (found.segment, found.line, found.sequence);
        assert_eq!(place, (segment.map(month), *line, *sequence), "{listed:#?}");
        assert_eq!(found.fault, *fault, "{listed:#?}");
    }
}

fn edit_lines(segment: &'static str, edit: impl Fn(&mut Vec<String>)) -> impl Fn(&Place) {
    move |place| {
        let mut lines = place.lines(segment);
        let before = lines.clone();
        edit(&mut lines);
        assert_ne!(lines, before, "nothing was tampered with");
        place.put_lines(segment, &lines);
    }
}

const OCTOBER: Option<&str> = Some("2026-10");

#[test]
fn an_edited_record_is_found() {
    let edit = |lines: &mut Vec<String>| lines[6] = lines[6].replace("TRANSIENT", "PERMANENT");
    expect(edit_lines("2026-10", edit), &[(OCTOBER, Some(7), Some(27), Fault::Edited)]);
}

#[test]
fn an_edited_record_with_a_hash_that_fits_is_found_by_the_one_after() {
    let edit = |lines: &mut Vec<String>| lines[6] = rehash(&lines[6].replace("TRANSIENT", "PERMANENT"));
    expect(edit_lines("2026-10", edit), &[(OCTOBER, Some(8), Some(28), Fault::DoesNotContinue)]);
}

#[test]
fn an_edited_personal_part_is_found() {
    let edit = |lines: &mut Vec<String>| lines[6] = lines[6].replace("user-7", "user-8");
    expect(edit_lines("2026-10", edit), &[(OCTOBER, Some(7), Some(27), Fault::PersonalPartEdited)]);
}

#[test]
fn a_deleted_record_is_found() {
    let one = edit_lines("2026-10", |lines| drop(lines.remove(6)));
    expect(one, &[(OCTOBER, Some(7), Some(28), Fault::Missing { first: 27, last: 27 })]);
    let several = edit_lines("2026-10", |lines| drop(lines.drain(6..9)));
    expect(several, &[(OCTOBER, Some(7), Some(30), Fault::Missing { first: 27, last: 29 })]);
    let first = edit_lines("2026-10", |lines| drop(lines.remove(0)));
    expect(first, &[(OCTOBER, Some(1), Some(22), Fault::Missing { first: 21, last: 21 })]);
}

#[test]
fn a_segment_with_its_end_cut_off_is_found() {
    let cut = edit_lines("2026-10", |lines| lines.truncate(15));
    let missing = Fault::Missing { first: 36, last: 40 };
    expect(
        cut,
        &[(OCTOBER, Some(15), None, Fault::NotSigned), (Some("2026-11"), Some(1), Some(41), missing)],
    );
    let cut_after_a_signed_record = edit_lines("2026-10", |lines| lines.truncate(10));
    let missing = Fault::Missing { first: 31, last: 40 };
    expect(cut_after_a_signed_record, &[(Some("2026-11"), Some(1), Some(41), missing)]);
}

#[test]
fn the_newest_segment_with_its_end_cut_off_is_found() {
    let cut = edit_lines("2026-11", |lines| lines.truncate(15));
    let place = Place::three_months();
    cut(&place);
    let findings = place.findings();
    assert_eq!(findings[0].fault, Fault::Shortened { end: 50 }, "{findings:?}");
    assert_eq!(findings[0].sequence, Some(60));
    assert!(matches!(findings[1].fault, Fault::Unsigned { .. }), "{findings:?}");
    let cut_after_a_signed_record = edit_lines("2026-11", |lines| lines.truncate(10));
    expect(cut_after_a_signed_record, &[(None, None, Some(60), Fault::Shortened { end: 50 })]);
}

#[test]
fn reordered_records_are_found() {
    let neighbours = edit_lines("2026-10", |lines| lines.swap(6, 7));
    expect(neighbours, &[(OCTOBER, Some(8), Some(27), Fault::Moved)]);
    let at_the_start = edit_lines("2026-10", |lines| lines.swap(0, 1));
    expect(at_the_start, &[(OCTOBER, Some(2), Some(21), Fault::Moved)]);
    let apart = edit_lines("2026-10", |lines| {
        let line = lines.remove(2);
        lines.insert(12, line);
    });
    expect(apart, &[(OCTOBER, Some(13), Some(23), Fault::Moved)]);
}

#[test]
fn an_inserted_record_is_found() {
    let twice = edit_lines("2026-10", |lines| lines.insert(9, lines[4].clone()));
    expect(twice, &[(OCTOBER, Some(10), Some(25), Fault::Repeated)]);
    // A forged one that continues the record before it and is intact in itself.
    let forged = edit_lines("2026-10", |lines| {
        let line = lines[7].replace("job-28", "job-99");
        lines.insert(7, rehash(&line));
    });
    expect(
        forged,
        &[
            (OCTOBER, Some(9), Some(28), Fault::Repeated),
            (OCTOBER, Some(10), Some(29), Fault::DoesNotContinue),
        ],
    );
    let noise = edit_lines("2026-10", |lines| lines.insert(7, "{}".to_owned()));
    expect(noise, &[(OCTOBER, Some(8), None, Fault::Unreadable)]);
    let replaced_by_noise = edit_lines("2026-10", |lines| lines[7] = String::new());
    expect(replaced_by_noise, &[(OCTOBER, Some(8), None, Fault::Unreadable)]);
    let appended = |place: &Place| {
        let mut lines = place.lines("2026-11");
        let last = lines[19].clone();
        let line = last.replace(r#""sequence":60,"#, r#""sequence":61,"#);
        let line = line.replace(forger::field(&last, "previous"), &forger::link(&last));
        lines.push(rehash(&line));
        place.put_lines("2026-11", &lines);
    };
    let fault = Fault::WrongSignature { good_through: 60 };
    expect(appended, &[(Some("2026-11"), Some(21), Some(61), fault)]);
}

#[test]
fn a_chain_rewritten_from_some_point_on_is_found_by_the_signatures() {
    let rewrite = |place: &Place| {
        let segments = ["2026-09", "2026-10", "2026-11"].map(|segment| place.lines(segment));
        let mut lines = segments.concat();
        lines[26] = lines[26].replace("TRANSIENT", "PERMANENT");
        rechain(&mut lines, 26);
        for (segment, lines) in ["2026-09", "2026-10", "2026-11"].iter().zip(lines.chunks(20)) {
            place.put_lines(segment, lines);
        }
    };
    expect(
        rewrite,
        &[
            (None, None, Some(60), Fault::CheckpointDiffers),
            (OCTOBER, Some(10), Some(30), Fault::WrongSignature { good_through: 20 }),
            (Some("2026-11"), Some(10), Some(50), Fault::WrongSignature { good_through: 40 }),
        ],
    );
}

#[test]
fn swapped_renamed_and_missing_segments_are_found() {
    let swap = |place: &Place| {
        let (september, october) = (place.read("2026-09.jsonl"), place.read("2026-10.jsonl"));
        place.write("2026-09.jsonl", october);
        place.write("2026-10.jsonl", september);
    };
    let holds = |month: &str| Fault::WrongSegment { holds: month.into() };
    expect(
        swap,
        &[
            (Some("2026-09"), Some(1), Some(21), holds("2026-10")),
            (OCTOBER, Some(1), Some(1), holds("2026-09")),
        ],
    );
    let rename = |place: &Place| {
        std::fs::rename(place.path("2026-09.jsonl"), place.path("2026-08.jsonl")).unwrap();
    };
    expect(rename, &[(Some("2026-08"), Some(1), Some(1), holds("2026-09"))]);
    let remove = |segment: &'static str| {
        move |place: &Place| std::fs::remove_file(place.path(&format!("{segment}.jsonl"))).unwrap()
    };
    let missing = Fault::Missing { first: 21, last: 40 };
    expect(remove("2026-10"), &[(Some("2026-11"), Some(1), Some(41), missing.clone())]);
    expect(|place| place.write("2026-10.jsonl", ""), &[(Some("2026-11"), Some(1), Some(41), missing)]);
    let missing = Fault::Missing { first: 1, last: 20 };
    expect(remove("2026-09"), &[(OCTOBER, Some(1), Some(21), missing)]);
    expect(remove("2026-11"), &[(None, None, Some(60), Fault::Shortened { end: 40 })]);
    let all = |place: &Place| {
        for segment in ["2026-09", "2026-10", "2026-11"] {
            std::fs::remove_file(place.path(&format!("{segment}.jsonl"))).unwrap();
        }
    };
    expect(all, &[(None, None, Some(60), Fault::Shortened { end: 0 })]);
}

#[test]
fn a_head_that_is_gone_or_foreign_is_found() {
    expect(
        |place| std::fs::remove_file(place.path("head.json")).unwrap(),
        &[(None, None, None, Fault::HeadMissing)],
    );
    let foreign = |place: &Place| place.write("head.json", Place::three_months().read("head.json"));
    expect(foreign, &[(None, None, None, Fault::HeadMissing)]);
}

fn erased() -> Place {
    let place = Place::three_months();
    let subject = Subject { identity: Identity::User("user-7".into()), company: None };
    place.open().erase(&subject, "ana", "pedido 17", at(NOW)).unwrap();
    place.assert_whole();
    place
}

#[test]
fn a_personal_part_that_is_gone_without_an_erasure_is_found() {
    let blank = |line: &str| {
        let (body, _, seal) = forger::parts(line);
        format!(r#"{body},"personal":{{"erasedBy":61}},{seal}"#)
    };
    let place = erased();
    let mut lines = place.lines("2026-10");
    lines[7] = blank(&lines[7]);
    place.put_lines("2026-10", &lines);
    expect_of(&place, &[(OCTOBER, Some(8), Some(28), Fault::BlankWithoutErasure)]);
    // Nor can it be left out altogether.
    let place = erased();
    let mut lines = place.lines("2026-10");
    let (body, _, seal) = forger::parts(&lines[7]);
    lines[7] = format!("{body},{seal}");
    place.put_lines("2026-10", &lines);
    expect_of(&place, &[(OCTOBER, Some(8), None, Fault::Unreadable)]);
}

#[test]
fn a_personal_part_that_came_back_is_found() {
    let place = Place::three_months();
    let before = place.read("2026-10.jsonl");
    let subject = Subject { identity: Identity::User("user-7".into()), company: None };
    place.open().erase(&subject, "ana", "pedido 17", at(NOW)).unwrap();
    place.write("2026-10.jsonl", before);
    expect_of(
        &place,
        &[
            (OCTOBER, None, Some(27), Fault::NotErased { by: 61 }),
            (OCTOBER, None, Some(37), Fault::NotErased { by: 61 }),
        ],
    );
}

#[test]
fn a_trail_made_anew_with_another_key_is_found_by_who_kept_the_public_key() {
    let place = Place::three_months();
    let kept = place.open().public_key();
    let forged = Place::three_months();
    forged.assert_whole();
    let evidence = Evidence { public_key: Some(kept), ..Evidence::default() };
    let report = verify(forged.dir(), &evidence).unwrap();
    let wrong =
        report.findings.iter().filter(|found| matches!(found.fault, Fault::WrongSignature { .. })).count();
    assert_eq!(wrong, 3, "{:#?}", report.findings);
    assert!(verify(place.dir(), &evidence).unwrap().is_whole());
}

#[test]
fn a_trail_taken_back_to_an_older_state_is_found_by_who_kept_a_checkpoint() {
    let place = Place::three_months();
    let older = place.copy();
    let mut trail = place.open();
    trail.append(&entries(61..=70), at(NOW)).unwrap();
    let newest = trail.checkpoint().unwrap();
    drop(trail);
    older.assert_whole();
    let with = |place: &Place, checkpoint| {
        verify(place.dir(), &Evidence { checkpoints: vec![checkpoint], ..Evidence::default() }).unwrap()
    };
    let report = with(&older, newest);
    assert_eq!((report.findings.len(), report.findings[0].sequence), (1, Some(70)));
    assert_eq!(report.findings[0].fault, Fault::Shortened { end: 60 });
    assert!(with(&place, newest).is_whole());

    // Gone on from there differently, with the right key: the checkpoint tells.
    older.append(61..=61, NOW);
    older.append(62..=70, NOW);
    older.assert_whole();
    assert_eq!(with(&older, newest).findings[0].fault, Fault::CheckpointDiffers);
    let mut forged = newest;
    forged.sequence -= 1;
    assert_eq!(with(&place, forged).findings[0].fault, Fault::CheckpointNotSigned);
    let text = serde_json::to_string(&newest).unwrap();
    assert_eq!(serde_json::from_str::<recado_audit::Checkpoint>(&text).unwrap(), newest);
}

#[test]
fn findings_name_the_place_in_words_and_are_bounded() {
    let place = Place::new();
    let options = Options { sign_every: 50, ..Options::default() };
    let mut trail = Trail::open(place.dir(), &options).unwrap();
    trail.append(&entries(1..=300), at(NOW)).unwrap();
    drop(trail);
    let edited: Vec<_> =
        place.lines("2026-11").iter().map(|line| line.replace("TRANSIENT", "UNKNOWN")).collect();
    place.put_lines("2026-11", &edited);
    let report = place.verify();
    assert_eq!((report.findings.len(), report.more), (100, true));
    let words = report.findings[0].to_string();
    assert!(words.starts_with("segment 2026-11, line 1, sequence 1: the record was edited"), "{words}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["findings"][0]["fault"], "edited");
    assert_eq!(json["findings"][0]["segment"], "2026-11");
}

/// A closed segment and a growing one, with an erased record in each and the record of the erasure.
fn small() -> Place {
    let place = Place::new();
    place.append(7..=8, "2026-10-15T12:00:00Z");
    place.append(17..=18, NOW);
    let subject = Subject { identity: Identity::User("user-7".into()), company: None };
    place.open().erase(&subject, "ana", "pedido 17", at(NOW)).unwrap();
    place.assert_whole();
    place
}

#[test]
fn every_byte_of_a_segment_matters() {
    let place = small();
    for segment in ["2026-10.jsonl", "2026-11.jsonl"] {
        let bytes = place.read(segment);
        for at in 0..bytes.len() {
            // The lowest bit, and the one that tells upper case from lower.
            for flip in [0x01, 0x20] {
                let mut tampered = bytes.clone();
                tampered[at] ^= flip;
                place.write(segment, &tampered);
                assert!(
                    !place.verify().is_whole(),
                    "{segment}: byte {at} flipped by {flip:#x} was not found"
                );
            }
        }
        place.write(segment, bytes);
    }
    place.assert_whole();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_changed_added_or_taken_away_anywhere_are_found(
        which in 0_usize..2,
        place in any::<prop::sample::Index>(),
        take in 0_usize..40,
        put in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let trail = small();
        let segment = ["2026-10.jsonl", "2026-11.jsonl"][which];
        let bytes = trail.read(segment);
        let at = place.index(bytes.len());
        let end = (at + take).min(bytes.len());
        let mut tampered = bytes.clone();
        tampered.splice(at..end, put);
        prop_assume!(tampered != bytes);
        trail.write(segment, tampered);
        prop_assert!(!trail.verify().is_whole());
    }
}
