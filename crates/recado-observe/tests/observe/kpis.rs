//! Retry KPIs, and the flow into the dead letter queue.

use recado_core::{Cause, Class};
use recado_observe::history::{DAY, HOUR, WEEK};
use recado_observe::{AttemptEnded, Backoff, Decided, Fact, Target, Verdict};

use crate::{at, failed, job_buried, job_sent, ledger, seconds_of, sent, waits};

#[test]
fn t15_the_indicators_of_a_route_stand_beside_their_targets() {
    let ledger = ledger();
    let note = |count, fact: Fact<'static>| (0..count).for_each(|_| ledger.record(&fact, at(0)));
    note(800, job_sent("tiss-claims", 1, None));
    note(90, job_sent("tiss-claims", 2, Some(seconds_of(40 * 60))));
    note(10, job_buried("tiss-claims", 6, Cause::Exhausted));
    note(10, job_buried("tiss-claims", 1, Cause::Permanent));
    note(500, job_buried("email", 5, Cause::Exhausted));
    let kpis = ledger.kpis(Some("tiss-claims"), DAY, at(60)).unwrap();
    let figure = kpis.success_after_retry;
    assert_eq!(
        (figure.value, figure.target, figure.verdict, figure.volume),
        (Some(0.9), Target::AtLeast(0.85), Verdict::Met, 100)
    );
    let figure = kpis.mean_attempts;
    assert_eq!(
        (figure.value, figure.target, figure.verdict),
        (Some(98.0 / 89.0), Target::AtMost(1.2), Verdict::Met)
    );
    let figure = kpis.lost_share;
    assert_eq!(
        (figure.value, figure.target, figure.verdict),
        (Some(0.1), Target::AtMost(0.03), Verdict::Missed)
    );
    let figure = kpis.time_to_success_seconds;
    assert_eq!((figure.target, figure.verdict, figure.volume), (Target::AtMost(3_600.0), Verdict::Met, 90));
    assert!((1_800.0..=2_700.0).contains(&figure.value.unwrap()), "between the borders around 40 minutes");

    let all = ledger.kpis(None, DAY, at(60)).unwrap();
    assert_eq!(all.success_after_retry.volume, 600);
    assert_eq!(ledger.kpis(Some("no-such-route"), DAY, at(60)), None);
}

#[test]
fn t16_the_technical_figures_stand_beside_their_limits() {
    let ledger = ledger();
    let retry = |retry| {
        Fact::AttemptEnded(AttemptEnded {
            retry: Some(retry),
            ..failed("tiss-claims", "503", Class::Transient)
        })
    };
    for one in 0..500 {
        let at_cap = one % 10 == 0;
        let position = Some(f64::from(one % 100) / 200.0); // the lower half only
        ledger.record(&retry(Backoff { at_cap, position, ..waits(1_200) }), at(0));
    }
    let decided =
        Fact::Decided { route: "tiss-claims", class: Class::Permanent, decided: Decided::PermanentError };
    (0..125).for_each(|_| ledger.record(&decided, at(0)));
    let kpis = ledger.kpis(Some("tiss-claims"), HOUR, at(0)).unwrap();
    assert_eq!((kpis.permanent_share.value, kpis.permanent_share.verdict), (Some(0.2), Verdict::Missed));
    assert_eq!((kpis.at_cap_share.value, kpis.at_cap_share.verdict), (Some(0.1), Verdict::Missed));
    assert_eq!(
        (kpis.mean_backoff_seconds.value, kpis.mean_backoff_seconds.verdict),
        (Some(1_200.0), Verdict::Met)
    );
    let deviation = kpis.jitter_deviation;
    assert!((deviation.value.unwrap() - 1.0).abs() < 1e-9, "one half of the range is never used");
    assert_eq!((deviation.verdict, deviation.volume), (Verdict::Missed, 500));
}

#[test]
fn a_figure_of_too_few_is_told_and_not_judged() {
    let ledger = ledger();
    let note =
        |count| (0..count).for_each(|_| ledger.record(&job_buried("email", 5, Cause::Exhausted), at(0)));
    let lost = || ledger.kpis(Some("email"), DAY, at(0)).unwrap().lost_share;
    note(19);
    assert_eq!((lost().value, lost().volume, lost().min_volume), (Some(1.0), 19, 20));
    assert_eq!(lost().verdict, Verdict::TooFew);
    note(1);
    assert_eq!(lost().verdict, Verdict::Missed);
}

#[test]
fn kpis_without_attempts_have_no_figures() {
    let kpis = ledger().kpis(None, DAY, at(0)).unwrap();
    assert_eq!((kpis.success_after_retry.value, kpis.success_after_retry.verdict), (None, Verdict::TooFew));
    assert_eq!((kpis.jitter_deviation.value, kpis.by_attempt.len()), (None, 0));
}

#[test]
fn e9_success_is_told_by_attempt() {
    let ledger = ledger();
    for (number, good, bad) in [(1, 8, 2), (2, 1, 1), (40, 0, 1)] {
        let (good, bad) = (vec![sent("email"); good], vec![failed("email", "421", Class::Transient); bad]);
        for attempt in good.into_iter().chain(bad) {
            ledger.record(&Fact::AttemptEnded(AttemptEnded { number, ..attempt }), at(0));
        }
    }
    let kpis = ledger.kpis(None, HOUR, at(0)).unwrap();
    let rates: Vec<_> = kpis.by_attempt.iter().map(|rate| (rate.attempt, rate.ended, rate.sent)).collect();
    assert_eq!(rates, [(1, 10, 8), (2, 2, 1), (16, 1, 0)]);
}

#[test]
fn a_window_ends_where_it_says() {
    let ledger = ledger();
    ledger.record(&job_sent("email", 1, None), at(0));
    let volume = |window, now| ledger.kpis(Some("email"), window, now).unwrap().mean_attempts.volume;
    assert_eq!(volume(HOUR, at(3_599)), 1);
    assert_eq!(volume(HOUR, at(3_600)), 0);
    assert_eq!(volume(DAY, at(24 * 3_600 - 300)), 1);
    assert_eq!(volume(DAY, at(24 * 3_600 + 300)), 0);
    assert_eq!(volume(WEEK, at(6 * 24 * 3_600)), 1);
    assert_eq!(volume(WEEK, at(7 * 24 * 3_600 + 3_600)), 0);
}

#[test]
fn g6_the_flow_into_the_queue_is_told_by_hour_company_and_code() {
    let ledger = ledger();
    for (company, code, count) in [("acme", "550", 6), ("blue", "421", 3), ("blue", "550", 1)] {
        for _ in 0..count {
            let ending = recado_observe::Ending::Buried { cause: Cause::Permanent, code: Some(code) };
            let ended = Fact::JobEnded {
                route: "email",
                company,
                ending,
                attempts: 1,
                retried: false,
                since_first_try: None,
            };
            ledger.record(&ended, at(0));
        }
    }
    (0..90).for_each(|_| ledger.record(&job_sent("email", 1, None), at(0)));
    let flow = ledger.dead_letter_flow(HOUR / 2, at(0), at(0));
    assert_eq!((flow.entries, flow.per_hour, flow.share_of_sends), (10, 20.0, Some(0.1)));
    assert_eq!(flow.by_company, [("acme".into(), 6), ("blue".into(), 4)]);
    assert_eq!(flow.by_error_code, [("550".into(), 7), ("421".into(), 3)]);
    assert_eq!(ledger.dead_letter_flow(HOUR, at(0), at(7_200)).entries, 0);
    let per_hour = |since, now| ledger.dead_letter_flow(DAY, since, now).per_hour;
    assert_eq!(per_hour(at(0), at(60)), 10.0, "a minute is no hour yet");
    assert_eq!(per_hour(at(0), at(7_200)), 5.0, "nothing was counted before");
    assert_eq!(per_hour(at(0), at(23 * 3_600)), 10.0 / 23.0);
}
