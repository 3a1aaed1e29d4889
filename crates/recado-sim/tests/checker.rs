//! Each invariant is broken by a short history that a broken product would leave.

use recado_sim::checker::check;
use recado_sim::history::{Act, Answer, Call, Entry, Event, Lease, NodeChange, Settlement};

fn at(at: u64, event: Event) -> Entry {
    Entry { at, event }
}

fn stored(job: &str, company: &str) -> Event {
    Event::Stored {
        job: job.to_owned(),
        company: company.to_owned(),
        route: "mail".to_owned(),
        data: "data".to_owned(),
        delay_ms: 0,
    }
}

fn leased(job: &str, company: &str, token: &str, until: u64) -> Event {
    let lease = Lease {
        job: job.to_owned(),
        company: company.to_owned(),
        token: token.to_owned(),
        until,
        provider: Some("mail-a".to_owned()),
        takes_over: false,
    };
    Event::Leased {
        route: "mail".to_owned(),
        node: "node-0".to_owned(),
        asked: until - 15_000,
        held: Vec::new(),
        leases: vec![lease],
    }
}

fn called(call: u64, job: &str, provider: &str) -> Event {
    Event::Called(Call {
        call,
        node: "node-0".to_owned(),
        life: 1,
        provider: provider.to_owned(),
        receiver: None,
        job: job.to_owned(),
        company: "acme".to_owned(),
        route: "mail".to_owned(),
        attempt: call as u32,
        key: job.to_owned(),
        data: "data".to_owned(),
        takes: true,
    })
}

fn answered(call: u64, answer: Answer) -> Event {
    Event::Answered { call, answer, wait_ms: 1_000 }
}

fn settled(job: &str, token: &str, what: Settlement) -> Event {
    Event::Settled {
        job: job.to_owned(),
        token: token.to_owned(),
        node: "node-0".to_owned(),
        what,
        done: true,
    }
}

fn found(job: &str, status: &str) -> Event {
    Event::Found {
        job: job.to_owned(),
        status: status.to_owned(),
        is_due: true,
        is_listed: status == "failed",
    }
}

/// Names the invariants that a history breaks.
fn broken(entries: &[Entry]) -> Vec<&'static str> {
    let mut names: Vec<_> = check(entries, true).violations.iter().map(|one| one.invariant).collect();
    names.dedup();
    names
}

#[test]
fn a_job_that_was_acknowledged_and_is_gone_is_seen() {
    let acknowledged = Event::Acknowledged { job: "a".to_owned(), data: "data".to_owned() };
    let mut history = vec![at(0, stored("a", "acme")), at(1, acknowledged)];
    assert_eq!(broken(&history), ["acknowledged is never lost"]);
    history.push(at(9, found("a", "cancelled")));
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn data_that_was_never_accepted_is_seen_on_its_way() {
    let history = [at(0, called(1, "a", "mail-a"))];
    assert_eq!(broken(&history), ["refused is never sent"]);
}

#[test]
fn a_job_that_goes_on_after_its_end_is_seen() {
    let history = [
        at(0, stored("a", "acme")),
        at(1, leased("a", "acme", "t1", 15_000)),
        at(
            2,
            Event::Audit {
                number: 1,
                kind: "DELIVERED".to_owned(),
                job: Some("a".to_owned()),
                subject: String::new(),
            },
        ),
        at(2, settled("a", "t1", Settlement::Deliver)),
        at(3, leased("a", "acme", "t2", 15_003)),
    ];
    assert_eq!(broken(&history), ["terminal is final"]);
}

#[test]
fn a_delivery_that_happens_again_needs_a_cause() {
    let mut history = vec![
        at(0, stored("a", "acme")),
        at(1, called(1, "a", "mail-a")),
        at(2, answered(1, Answer::Ok)),
        at(9, called(2, "a", "mail-a")),
        at(10, answered(2, Answer::Ok)),
    ];
    assert_eq!(broken(&history), ["duplicates have an allowed cause"]);
    let killed = Event::Node { node: "node-0".to_owned(), life: 1, what: NodeChange::Killed };
    history.insert(3, at(3, killed));
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn a_delivery_under_a_lease_that_the_server_lost_may_happen_again_and_under_another_lease_not() {
    let broken_by_lease_of = |leased_at: u64| {
        let lost = |kind, until| Event::Fault { kind, node: None, until: Some(until) };
        let history = [
            at(0, stored("a", "acme")),
            at(leased_at, leased("a", "acme", "t1", leased_at + 15_000)),
            at(120, lost("writes lost since", 50)),
            at(120, lost("server loses writes", 130)),
            at(200, called(1, "a", "mail-a")),
            at(201, answered(1, Answer::Ok)),
            at(210, called(2, "a", "mail-b")),
            at(211, answered(2, Answer::Ok)),
        ];
        broken(&history)
    };
    assert_eq!(broken_by_lease_of(100), [""; 0]);
    assert_eq!(broken_by_lease_of(40), ["duplicates have an allowed cause"], "the server kept that lease");
}

#[test]
fn a_job_that_one_provider_may_have_is_seen_at_another() {
    let history = [
        at(0, stored("a", "acme")),
        at(1, called(1, "a", "mail-a")),
        at(2, answered(1, Answer::Lost)),
        at(9, called(2, "a", "mail-b")),
    ];
    assert_eq!(broken(&history), ["what may have arrived stays with its provider"]);
}

#[test]
fn an_early_retry_is_seen() {
    let retry = |number| Event::Audit {
        number,
        kind: "RETRY_SCHEDULED".to_owned(),
        job: Some("a".to_owned()),
        subject: String::new(),
    };
    let history = [
        at(0, stored("a", "acme")),
        at(1, called(1, "a", "mail-a")),
        at(2, answered(1, Answer::Lost)),
        at(2, settled("a", "t1", Settlement::Retry)),
        at(900, called(2, "a", "mail-a")),
        at(901, retry(1)),
    ];
    assert_eq!(broken(&history), ["retries are never early"]);
}

#[test]
fn a_retry_that_starts_late_although_all_is_well_is_seen() {
    let retry = Event::Audit {
        number: 1,
        kind: "RETRY_SCHEDULED".to_owned(),
        job: Some("a".to_owned()),
        subject: String::new(),
    };
    let broken_by_lease_at = |leased_at: u64| {
        let history = [
            at(0, stored("a", "acme")),
            at(1, called(1, "a", "mail-a")),
            at(2, answered(1, Answer::Lost)),
            at(2, retry.clone()),
            at(2, settled("a", "t1", Settlement::Retry)),
            at(70_000, Event::Healed),
            at(leased_at, leased("a", "acme", "t2", leased_at + 15_000)),
            at(leased_at, Event::Ended),
        ];
        broken(&history)
    };
    assert_eq!(broken_by_lease_at(94_000), [""; 0]);
    assert_eq!(broken_by_lease_at(96_000), ["retries are never late"]);
}

#[test]
fn a_request_of_a_wrong_clock_may_arrive_after_standstills_without_a_gap_and_not_after_a_gap() {
    let broken_by_second_standstill_at = |second_at: u64| {
        let fault = |kind, until| Event::Fault { kind, node: Some("node-1".to_owned()), until: Some(until) };
        let retry = Event::Audit {
            number: 1,
            kind: "RETRY_SCHEDULED".to_owned(),
            job: Some("a".to_owned()),
            subject: String::new(),
        };
        let history = [
            at(0, stored("a", "acme")),
            at(0, fault("clock forward", 100)),
            at(50, fault("standstill", 3_000)),
            at(second_at, fault("standstill", 6_000)),
            at(5_000, called(1, "a", "mail-a")),
            at(5_001, answered(1, Answer::Lost)),
            at(5_001, settled("a", "t1", Settlement::Retry)),
            at(5_500, called(2, "a", "mail-a")),
            at(5_501, retry),
        ];
        broken(&history)
    };
    assert_eq!(broken_by_second_standstill_at(2_500), [""; 0]);
    assert_eq!(broken_by_second_standstill_at(3_500), ["retries are never early"]);
}

#[test]
fn two_leases_at_once_and_a_stale_settlement_are_seen() {
    let history = [at(0, leased("a", "acme", "t1", 15_000)), at(5, leased("a", "acme", "t2", 15_005))];
    assert_eq!(broken(&history), ["a job has one lease"]);
    let history = [at(0, leased("a", "acme", "t1", 15_000)), at(5, settled("a", "t0", Settlement::Release))];
    assert_eq!(broken(&history), ["a job has one lease"]);
}

#[test]
fn a_company_that_waits_for_more_than_a_turn_is_seen() {
    let mut history = vec![at(0, stored("poor", "globex"))];
    for number in 0..4 {
        history.push(at(1, leased(&format!("rich-{number}"), "acme", &format!("t{number}"), 15_000)));
    }
    assert_eq!(broken(&history), ["companies take turns"]);
}

#[test]
fn a_claim_during_a_pause_is_seen() {
    let paused = Event::Acted { act: Act::PauseRoute, subject: "mail".to_owned() };
    let record =
        Event::Audit { number: 1, kind: "ROUTE_PAUSED".to_owned(), job: None, subject: "mail".to_owned() };
    let history = [
        at(0, paused),
        at(10_000, leased("a", "acme", "t1", 25_000)),
        at(11_000, record),
        at(11_000, Event::Ended),
    ];
    assert_eq!(broken(&history), ["pauses are obeyed"]);
}

#[test]
fn an_act_without_a_record_is_seen() {
    let history = [at(0, Event::Acted { act: Act::Cancel, subject: "a".to_owned() })];
    assert_eq!(broken(&history), ["acts are on record"]);
}

#[test]
fn a_walk_that_misses_an_entry_is_seen() {
    let record = Event::Audit {
        number: 1,
        kind: "BURIED".to_owned(),
        job: Some("a".to_owned()),
        subject: String::new(),
    };
    let history = [
        at(0, stored("a", "acme")),
        at(1, settled("a", "t1", Settlement::Bury)),
        at(5, Event::WalkBegan { walk: 0 }),
        at(6, Event::WalkEnded { walk: 0 }),
        at(9, record),
    ];
    assert_eq!(broken(&history), ["walks show everything once"]);
}

#[test]
fn a_bulk_act_that_leaves_an_entry_out_is_seen() {
    let record = Event::Audit {
        number: 1,
        kind: "BURIED".to_owned(),
        job: Some("a".to_owned()),
        subject: String::new(),
    };
    let ended = Event::BulkEnded {
        bulk: "b".to_owned(),
        state: "done".to_owned(),
        done: 0,
        skipped: 0,
        failed: 0,
        total: 1,
    };
    let history = [
        at(0, stored("a", "acme")),
        at(1, settled("a", "t1", Settlement::Bury)),
        at(5_000, Event::BulkBegan { bulk: "b".to_owned(), company: None, asked_at: 5_000 }),
        at(6_000, ended),
        at(9_000, record),
    ];
    assert_eq!(broken(&history), ["bulk acts visit every entry"]);
}

#[test]
fn a_stop_without_an_end_and_a_job_that_never_ends_are_seen() {
    let asked = Event::Node { node: "node-0".to_owned(), life: 1, what: NodeChange::StopAsked };
    let history = [at(0, asked), at(60_000, Event::Ended)];
    assert_eq!(broken(&history), ["stops end"]);
    assert_eq!(broken(&[at(0, found("a", "retrying"))]), ["everything ends"]);
}

#[test]
fn a_dead_letter_without_a_reason_and_a_node_that_disagrees_are_seen() {
    let dead = Event::FoundDead {
        job: "a".to_owned(),
        reason: " ".to_owned(),
        cause: "PERMANENT".to_owned(),
        attempts: 1,
    };
    assert_eq!(broken(&[at(0, dead)]), ["dead letters have a reason"]);
    let view = Event::View {
        node: "node-0".to_owned(),
        paused: vec!["route mail".to_owned()],
        in_store: Vec::new(),
    };
    assert_eq!(broken(&[at(99_000, view)]), ["nodes agree"]);
}

#[test]
fn a_slot_that_is_not_given_back_is_seen() {
    let running =
        |deliveries| Event::Running { node: "node-0".to_owned(), provider: "mail-a".to_owned(), deliveries };
    assert_eq!(broken(&[at(0, running(1))]), ["slots are given back"]);
    assert_eq!(broken(&[at(0, running(0))]), [""; 0]);
}

#[test]
fn a_job_that_waits_on_after_the_clock_was_set_is_seen() {
    let delayed = Event::Stored {
        job: "a".to_owned(),
        company: "acme".to_owned(),
        route: "mail".to_owned(),
        data: "data".to_owned(),
        delay_ms: 3_000_000,
    };
    let history =
        [at(0, delayed), at(10, Event::ClockSet { node: None, by_ms: 3_600_000 }), at(60_000, Event::Ended)];
    assert_eq!(broken(&history), ["scheduled jobs follow the clock"]);
}

#[test]
fn a_new_job_that_waits_although_all_is_well_is_seen() {
    let acknowledged = Event::Acknowledged { job: "probe-1".to_owned(), data: "data".to_owned() };
    let history = [
        at(0, stored("probe-1", "acme")),
        at(0, acknowledged),
        at(20_000, called(1, "probe-1", "mail-a")),
        at(20_001, answered(1, Answer::Ok)),
        at(30_000, found("probe-1", "sent")),
    ];
    assert_eq!(broken(&history), ["new jobs are prompt"]);
}
