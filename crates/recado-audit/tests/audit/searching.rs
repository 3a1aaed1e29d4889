//! Finding records, with the index and without it.

use recado_audit::{Order, Query, Record, search};
use recado_core::AuditKind;

use crate::given::{Place, at, entries};

/// Every page of a query.
fn pages(place: &Place, query: &Query) -> Vec<Record> {
    let mut found = Vec::new();
    let mut query = query.clone();
    loop {
        let page = search(place.dir(), &query).unwrap();
        assert!(page.records.len() <= query.limit);
        found.extend(page.records);
        match page.next {
            Some(next) => query.beyond = Some(next),
            None => return found,
        }
    }
}

fn sequences(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.sequence).collect()
}

fn queries() -> Vec<(Query, Vec<u64>)> {
    let of = |change: &dyn Fn(&mut Query)| {
        let mut query = Query { limit: 3, order: Order::OldestFirst, ..Query::default() };
        change(&mut query);
        query
    };
    let those = |fits: &dyn Fn(u64) -> bool| (1..=60).filter(|n| fits(*n)).collect::<Vec<u64>>();
    vec![
        (of(&|query| query.job = Some("job-17".into())), vec![17]),
        (of(&|query| query.job = Some("job-1".into())), vec![1]),
        (of(&|query| query.job = Some("job-61".into())), vec![]),
        (of(&|query| query.claim = Some("guia-5".into())), vec![5, 55]),
        (of(&|query| query.correlation = Some("order-6".into())), vec![6, 26, 46]),
        (of(&|query| query.company = Some("company-2".into())), those(&|n| n % 3 == 2)),
        (of(&|query| query.user = Some("user-9".into())), those(&|n| n % 10 == 9)),
        (of(&|query| query.kind = Some(AuditKind::Buried)), those(&|n| n % 4 == 3)),
        (of(&|query| query.kind = Some(AuditKind::PersonalDataErased)), vec![]),
        (of(&|query| query.actor = Some("ana".into())), vec![]),
        (of(&|query| query.since = Some(at("2026-09-01T08:00:55Z"))), those(&|n| n >= 55)),
        (of(&|query| query.until = Some(at("2026-09-01T08:00:03Z"))), vec![1, 2]),
        (
            of(&|query| {
                (query.company, query.user) = (Some("company-1".into()), Some("user-3".into()));
                query.since = Some(at("2026-09-01T08:00:14Z"));
            }),
            vec![43],
        ),
        (of(&|_| {}), those(&|_| true)),
    ]
}

fn assert_all_found(place: &Place) {
    for (mut query, mut expected) in queries() {
        assert_eq!(sequences(&pages(place, &query)), expected, "{query:?}");
        query.order = Order::NewestFirst;
        expected.reverse();
        assert_eq!(sequences(&pages(place, &query)), expected, "{query:?}");
    }
}

#[test]
fn t18_records_are_found_by_job_claim_company_user_kind_and_time_in_both_orders_by_the_page() {
    let place = Place::three_months();
    assert!(place.names().contains(&"2026-10.index".to_owned()), "nothing was indexed");
    assert!(!place.names().contains(&"2026-11.index".to_owned()), "what grows is not indexed yet");
    assert_all_found(&place);
}

#[test]
fn an_index_that_is_missing_cut_off_or_of_another_segment_costs_nothing_but_time() {
    let index = "2026-10.index";
    let whole = Place::three_months();
    let bytes = whole.read(index);
    for length in [0, 1, 40, 71, 72, bytes.len() / 2, bytes.len() - 1] {
        let place = whole.copy();
        place.write(index, &bytes[..length]);
        assert_all_found(&place);
        drop(place.open());
        assert_eq!(place.read(index), bytes, "opening the trail mends an index that was cut at {length}");
    }
    let place = whole.copy();
    place.write(index, place.read("2026-09.index"));
    assert_all_found(&place);
    std::fs::remove_file(place.path(index)).unwrap();
    assert_all_found(&place);
    drop(place.open());
    assert_eq!(place.read(index), bytes, "opening the trail makes a missing index again");
}

#[test]
fn a_job_is_found_in_a_long_segment_without_reading_it() {
    let place = Place::new();
    let mut trail = place.open();
    for batch in 0..8_u64 {
        if batch == 2 {
            // What another process wrote is read to be indexed, what this one wrote is not.
            drop(trail);
            trail = place.open();
        }
        trail
            .append(&entries(batch * 3_000 + 1..=batch * 3_000 + 3_000), at("2026-11-15T12:00:00Z"))
            .unwrap();
    }
    drop(trail);
    let index = std::fs::metadata(place.path("2026-11.index")).unwrap().len();
    assert!(index > 700_000, "the segment is too short to be indexed: {index}");
    // Where the index covers it, the rest may as well be noise.
    let mut bytes = place.read("2026-11.jsonl");
    let found = [2_000, 7_000];
    let kept = found.map(|n| {
        let name = format!("\"job-{n}\",");
        let line = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        let start = bytes[..line].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        start..line + bytes[line..].iter().position(|byte| *byte == b'\n').unwrap() + 1
    });
    for at in (1_000_000..8_000_000).filter(|at| !kept.iter().any(|line| line.contains(at))) {
        bytes[at] = b'x';
    }
    place.write("2026-11.jsonl", bytes);
    for n in found {
        let query = Query { job: Some(format!("job-{n}").into()), ..Query::default() };
        assert_eq!(sequences(&pages(&place, &query)), [n]);
    }
    let query = Query { job: Some("job-23999".into()), ..Query::default() };
    assert_eq!(sequences(&pages(&place, &query)), [23_999], "the stretch that is not indexed yet");
}
