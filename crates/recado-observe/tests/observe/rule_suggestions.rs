//! Rules learned from records: what is suggested, what is not, and what it would have changed.

use proptest::prelude::*;
use recado_core::classify::recall;
use recado_core::redact::Speaker;
use recado_core::{AuditEvent, AuditKind, Blame, Class, Classifier, Fault, Payload, rules};
use recado_observe::rule_suggestions::{
    Answer, Candidate, Effect, ErrorCounts, ErrorHistory, JOBS_MIN, RuleText, RuleTrials, Skeleton,
    route_tables,
};

use crate::at;

/// One job's record.
fn record(job: &str, kind: AuditKind) -> AuditEvent {
    let mut event = AuditEvent::claim(job, "email", kind, at(0));
    event.job_id = Some(job.into());
    event.company_id = Some(format!("company-of-{job}").into());
    event
}

fn failed(job: &str, kind: AuditKind, attempt: u32, (code, words): (&str, &str)) -> AuditEvent {
    let judged = rules::named("general").unwrap().classify(recall(Some(code), words).unwrap());
    record(job, kind).failure(&judged).attempt(attempt)
}

fn delivered(job: &str, attempt: u32) -> AuditEvent {
    record(job, AuditKind::Delivered).attempt(attempt)
}

/// Three attempts in vain, while another job arrives.
fn in_vain(job: &str, error: (&str, &str)) -> Vec<AuditEvent> {
    vec![
        failed(job, AuditKind::RetryScheduled, 1, error),
        failed(job, AuditKind::RetryScheduled, 2, error),
        delivered(&format!("{job}-other"), 1),
        failed(job, AuditKind::Buried, 3, error),
    ]
}

/// One failure, then an arrival.
fn in_time(job: &str, error: (&str, &str)) -> Vec<AuditEvent> {
    vec![failed(job, AuditKind::RetryScheduled, 1, error), delivered(job, 2)]
}

fn replayed(job: &str, error: (&str, &str), data_changed: Option<bool>) -> Vec<AuditEvent> {
    let replay = AuditEvent { data_changed, ..record(job, AuditKind::Replayed) };
    vec![failed(job, AuditKind::Buried, 1, error), replay, delivered(job, 2)]
}

fn jobs(count: u64, life: impl Fn(&str) -> Vec<AuditEvent>) -> Vec<AuditEvent> {
    (0..count).flat_map(|nth| life(&format!("job-{nth}"))).collect()
}

fn candidates(records: &[AuditEvent]) -> Vec<Candidate> {
    let mut history = ErrorHistory::default();
    records.iter().for_each(|event| history.record(event));
    history.candidates(|error| Some(error.class))
}

/// Makes the skeleton of an error whose jobs have this payload.
fn skeleton(error: &ErrorCounts, data: &Payload) -> Skeleton {
    let faults: Vec<_> = error
        .examples
        .iter()
        .map(|one| (&*one.company, recall(error.code.as_deref(), one.reason.as_str()).unwrap()))
        .collect();
    let answer = |(company, fault): &(&str, Fault)| -> (Box<str>, Box<str>) {
        ((*company).into(), fault.text.clone())
    };
    let said: Vec<_> = faults.iter().map(answer).collect();
    let answers: Vec<_> = said
        .iter()
        .map(|(company, text)| Answer {
            company,
            user_id: None,
            correlation_id: None,
            data,
            speaker: Speaker::Provider,
            text,
        })
        .collect();
    Skeleton::of(error.code.as_deref(), &answers)
}

/// Suggests as if no job had data.
fn suggest(records: &[AuditEvent]) -> Vec<(Candidate, RuleText, Effect)> {
    suggest_beside(&rules::named("general").unwrap(), "{}", records)
}

/// Suggests as if this were the data of all jobs.
fn suggest_beside(
    today: &Classifier,
    data: &str,
    records: &[AuditEvent],
) -> Vec<(Candidate, RuleText, Effect)> {
    let mut trials = RuleTrials::default();
    let data = Payload::new(data).unwrap();
    for candidate in candidates(records) {
        if let Some(rule) = candidate.rule(&skeleton(&candidate.error, &data), today) {
            trials.add(candidate, rule, today);
        }
    }
    records.iter().for_each(|event| trials.record(event));
    trials.sound()
}

const ODD: (&str, &str) = ("E_PLAN", "the plan of client 17 was closed");
const BUSY: (&str, &str) = ("451", "mailbox busy, try later");
const NO_USER: (&str, &str) = ("550", "no such user");

#[test]
fn g24_an_unknown_error_that_no_retry_mends_is_suggested_as_permanent() {
    let found = suggest(&jobs(10, |job| in_vain(job, ODD)));
    let [(candidate, rule, effect)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((candidate.today, candidate.suggested), (Class::Unknown, Class::Permanent));
    assert_eq!((candidate.error.count, candidate.error.retried_in_vain), (30, 10));
    assert_eq!((effect.changed, effect.lost), (20, 0), "two of three attempts of each job");
    assert_eq!(
        rule.toml(),
        r#"classify = [{ code = "E_PLAN", text = "the plan of client", as = "permanent" }]"#
    );
}

#[test]
fn g24_an_unknown_error_that_passes_is_suggested_as_transient() {
    let found = suggest(&jobs(10, |job| in_time(job, ODD)));
    let [(candidate, _, effect)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((candidate.today, candidate.suggested), (Class::Unknown, Class::Transient));
    assert_eq!(candidate.error.retried_to_success, 10);
    assert_eq!(effect.changed, 0, "it is retried today as well");
}

#[test]
fn g24_a_permanent_error_whose_replays_arrive_is_suggested_as_transient() {
    let found = suggest(&jobs(6, |job| replayed(job, NO_USER, Some(false))));
    let [(candidate, _, effect)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((candidate.today, candidate.suggested), (Class::Permanent, Class::Transient));
    assert_eq!(effect.changed, 6);
    for data_changed in [Some(true), None] {
        let found = suggest(&jobs(6, |job| replayed(job, NO_USER, data_changed)));
        assert!(found.is_empty(), "the correction may have done it: {found:?}");
    }
}

#[test]
fn g24_a_suggested_line_keeps_the_blame_of_today() {
    let written = |found: &[(Candidate, RuleText, Effect)]| {
        let [(_, rule, _)] = found else { panic!("{found:?}") };
        let line = rule.toml();
        let entry = line.split(", as = ").nth(1).unwrap().trim_end_matches(" }]").to_owned();
        (entry, rule.compile().blame)
    };
    let replays_arrive = |error| written(&suggest(&jobs(6, |job| replayed(job, error, Some(false)))));
    let [message, credential] = [
        (r#""transient", blame = "message""#.to_owned(), Blame::Message),
        (r#""transient", blame = "credential""#.to_owned(), Blame::Credential),
    ];
    assert_eq!(replays_arrive(("470", "come back another day")), message);
    assert_eq!(replays_arrive(("401", "the key is not active yet")), credential);

    let dies = |error| written(&suggest(&jobs(10, |job| in_vain(job, error))));
    let permanent = (r#""permanent""#.to_owned(), Blame::Message);
    assert_eq!(
        dies(BUSY),
        permanent,
        "of the provider today, who cannot be blamed for a message that never passes"
    );
    let of_the_account = (r#""permanent", blame = "credential""#.to_owned(), Blame::Credential);
    assert_eq!(dies(("SendingPaused", "sending is paused")), of_the_account);

    let (records, today) = (jobs(10, |job| in_time(job, ODD)), rules::named("general").unwrap());
    let own = RuleText { class: Class::Unknown, blame: Blame::Message, ..suggest(&records)[0].1.clone() };
    let today = today.preceded_by(vec![own.compile()]);
    assert_eq!(
        written(&suggest_beside(&today, "{}", &records)),
        message,
        "an own rule decides before the set"
    );
    assert_eq!(written(&suggest(&records)), (r#""transient""#.to_owned(), Blame::Provider));
}

/// The same records, of a company's jobs.
fn of_company(company: &str, mut records: Vec<AuditEvent>) -> Vec<AuditEvent> {
    records.iter_mut().for_each(|event| event.company_id = Some(company.into()));
    records
}

#[test]
fn g24_the_trouble_of_one_company_or_one_recipient_is_no_rule_for_all() {
    let bare = ("XQ85", "the provider answered XQ85 and nothing more");
    let died_at = |company: &'static str| {
        move |job: &str| of_company(company, in_vain(&format!("{company}-{job}"), bare))
    };
    let mut records = jobs(40, died_at("acme"));
    assert!(suggest(&records).is_empty(), "one company");
    records.extend(jobs(2, |job| of_company(&format!("company-of-{job}"), in_time(job, bare))));
    assert!(suggest(&records).is_empty(), "jobs of two others arrived");
    records.extend(jobs(1, died_at("beta")));
    records.extend(jobs(1, died_at("gama")));
    let found = suggest(&records);
    assert_eq!(found[0].1.toml(), r#"classify = [{ code = "XQ85", as = "permanent" }]"#, "three companies");

    let general = rules::named("general").unwrap();
    let to_ana = suggest_beside(&general, r#"{"to":"ana@x.com"}"#, &records);
    assert!(to_ana.is_empty(), "one recipient: {to_ana:?}");
    let broken = jobs(5, |job| of_company("acme", in_vain(job, ("451", "relay of acme is broken"))));
    let found = suggest_beside(&general, r#"{"to":"ana@x.com"}"#, &broken);
    assert!(found.is_empty(), "its words are left out: {found:?}");
}

#[test]
fn g24_no_code_that_a_built_in_rule_retries_is_given_up_without_words() {
    let bare = |today: &Classifier, (code, words): (&str, &str)| {
        let mut history = ErrorHistory::default();
        jobs(10, |job| in_vain(job, (code, words))).iter().for_each(|event| history.record(event));
        // As if a rule of the operator's had it retried, whatever the built-in one says.
        let found = history.candidates(|_| Some(Class::Unknown));
        let [candidate] = &found[..] else { panic!("{found:?}") };
        assert_eq!(candidate.suggested, Class::Permanent);
        let code = Some(code.into());
        candidate.rule(&Skeleton { code, is_of_several: true, ..Skeleton::default() }, today)
    };
    let general = rules::named("general").unwrap();
    for code in ["408", "421", "425", "450", "451", "452", "459", "500", "503", "599", "ServiceUnavailable"] {
        assert_eq!(bare(&general, (code, "relay is broken")), None, "{code}");
    }
    assert_eq!(bare(&general, ("550", "temporarily disabled")), None, "its words are what is retried");
    assert_eq!(bare(&general, ("451", "5.7.1 not here")), None, "with other words it is retried");
    for code in ["E_PLAN", "550", "470"] {
        assert_eq!(
            bare(&general, (code, "the plan was closed")).and_then(|rule| rule.code).as_deref(),
            Some(code)
        );
    }

    let found = suggest(&jobs(10, |job| of_company("acme", in_vain(job, ("451", "relay is broken")))));
    assert!(found.is_empty(), "no words of one company are shown");
    let found = suggest(&jobs(10, |job| in_vain(job, ("451", "relay is broken"))));
    assert_eq!(found[0].1.text.as_deref(), Some("relay is broken"), "words tell it from others");
}

#[test]
fn a_code_without_words_is_suggested_by_its_code() {
    let records = jobs(6, |job| in_vain(job, ("XQ85", "the provider answered XQ85 and nothing more")));
    let found = suggest(&records);
    let [(_, rule, _)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(rule.toml(), r#"classify = [{ code = "XQ85", as = "permanent" }]"#);
}

#[test]
fn rules_of_one_route_share_a_table_and_the_narrower_comes_first() {
    let rule = |route: &str, code: &str, text: Option<&str>| RuleText {
        route: recado_core::RouteName::new(route).unwrap(),
        code: Some(code.into()),
        text: text.map(Into::into),
        class: Class::Permanent,
        blame: Blame::Message,
        retries_permanent: false,
    };
    let rules =
        [rule("email", "554", None), rule("a.b", "1", None), rule("email", "554", Some("account closed"))];
    let expected = "[routes.\"a.b\"]\nclassify = [{ code = \"1\", as = \"permanent\" }]\n\n\
        [routes.email]\nclassify = [\n  { code = \"554\", text = \"account closed\", as = \"permanent\" },\n  \
        { code = \"554\", as = \"permanent\" },\n]\n";
    assert_eq!(route_tables(&rules.each_ref()), expected);
}

#[test]
fn jobs_of_many_companies_are_the_examples() {
    let error = ("E_PLAN", "the plan was closed");
    let mut records: Vec<_> = (0..20)
        .flat_map(|nth| {
            let mut life = in_vain(&format!("first-{nth}"), error);
            life.iter_mut().for_each(|event| event.company_id = Some("acme".into()));
            life
        })
        .collect();
    records.extend(jobs(2, |job| in_vain(job, error)));
    let found = candidates(&records);
    let companies: std::collections::BTreeSet<_> =
        found[0].error.examples.iter().map(|one| &*one.company).collect();
    assert_eq!(companies.len(), 3, "{companies:?}");
}

#[test]
fn an_outage_is_no_reason_to_give_up() {
    let alone = |job: &str| -> Vec<_> {
        in_vain(job, BUSY).into_iter().filter(|event| event.kind != AuditKind::Delivered).collect()
    };
    assert!(suggest(&jobs(50, alone)).is_empty(), "nothing else arrived meanwhile");
    let found = suggest(&jobs(50, |job| in_vain(job, BUSY)));
    assert_eq!(found.len(), 1, "others arrived: {found:?}");
    let timeouts = jobs(50, |job| {
        let mut records = in_vain(job, BUSY);
        records.iter_mut().for_each(|event| event.decision.error_code = Some("TIMEOUT".into()));
        records
    });
    assert!(suggest(&timeouts).is_empty(), "a network says nothing about a message");
}

#[test]
fn an_error_that_leads_to_another_has_no_blame_for_the_end() {
    let found = candidates(&jobs(50, |job| {
        vec![failed(job, AuditKind::RetryScheduled, 1, ODD), failed(job, AuditKind::Buried, 2, NO_USER)]
    }));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_rule_that_would_lose_deliveries_is_not_suggested() {
    // The words for the rule stand in the answers of a second error, which passes.
    let mut records = jobs(10, |job| in_vain(job, ("E_PLAN", "temporarily closed")));
    let passes = ("E_PLAN", "plan is temporarily closed");
    records.extend((0..30).flat_map(|nth| in_time(&format!("late-{nth}"), passes)));
    let found = suggest(&records);
    assert!(found.iter().all(|(candidate, ..)| candidate.suggested == Class::Transient), "{found:?}");
}

#[test]
fn what_a_rule_of_today_decides_already_is_not_suggested_again() {
    let mut history = ErrorHistory::default();
    jobs(10, |job| in_vain(job, ODD)).iter().for_each(|event| history.record(event));
    assert!(history.candidates(|_| Some(Class::Permanent)).is_empty());
    assert!(history.candidates(|_| None).is_empty(), "its route is gone");
}

proptest! {
    #[test]
    fn nothing_is_learned_below_the_minimum_and_confidence_rises_with_the_count(count in 1_u64..60) {
        let found = suggest(&jobs(count, |job| in_vain(job, ODD)));
        prop_assert_eq!(found.len(), usize::from(count >= JOBS_MIN));
        if let ([(few, ..)], [(more, ..)]) = (&found[..], &suggest(&jobs(count + 1, |job| in_vain(job, ODD)))[..]) {
            prop_assert!(few.confidence < more.confidence && more.confidence < 1.0);
        }
    }

    #[test]
    fn any_records_in_any_order_will_do(
        steps in prop::collection::vec((0_usize..8, 0_usize..4, 1_u32..4, 0_usize..3), 0..200)
    ) {
        let kinds = [
            AuditKind::RetryScheduled, AuditKind::Buried, AuditKind::Delivered, AuditKind::Replayed,
            AuditKind::Cancelled, AuditKind::Discarded, AuditKind::LeaseLost, AuditKind::PayloadRead,
        ];
        let records: Vec<_> = steps.into_iter().map(|(kind, job, attempt, error)| {
            failed(&format!("job-{job}"), kinds[kind], attempt, [ODD, BUSY, NO_USER][error])
        }).collect();
        for (candidate, _, effect) in suggest(&records) {
            prop_assert!(candidate.error.count <= records.len() as u64);
            prop_assert!(effect.changed <= records.len() as u64 && effect.lost <= effect.changed);
        }
    }
}
