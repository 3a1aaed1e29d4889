//! A fixed number of inputs for every target, from fixed seeds: the same ones each time.

use recado_config::fault::Source;
use recado_config::{Config, Inputs};
use recado_core::{Payload, Random};
use recado_email::Email;
use recado_fuzz::{Target, run};
use recado_wire::bulk::BulkRequest;
use recado_wire::decisions::DecisionRequest;
use recado_wire::jobs::JobRequest;
use recado_wire::leases::LeaseRequest;
use recado_wire::read;
use recado_wire::tenants::TenantChange;

const SEED: u64 = 18;

fn bounded(name: &str) {
    let target = Target::named(name).expect("a target");
    assert!(!target.kept().is_empty(), "{name} has no kept inputs");
    let ended = run(target, SEED, |count| count < target.inputs);
    let count = ended.unwrap_or_else(|broken| {
        let file = broken.kept_as.display();
        panic!("{}\nTo repeat it: cargo xtask fuzz {name} --input {file}", broken.why)
    });
    assert!(count >= target.inputs, "only {count} inputs");
}

macro_rules! targets {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            bounded(stringify!($name));
        })+

        #[test]
        fn every_target_has_its_test() {
            assert_eq!(recado_fuzz::TARGETS.map(|target| target.name), [$(stringify!($name)),+]);
        }
    };
}

targets! { retry_after email config request_body api_request smtp_reply sandbox_script embedded_row redis_record lua_arguments }

/// A target whose inputs are all refused at the door would prove nothing about what lies behind it.
#[test]
fn kept_inputs_are_taken() {
    let kept = |target: &str, name: &str| {
        let path = Target::named(target).expect("a target").corpus().join(name);
        std::fs::read_to_string(path).expect("a kept input")
    };
    for name in ["plain", "full"] {
        let data = Payload::new(&kept("email", name)).expect("JSON");
        Email::read(&data).unwrap_or_else(|faults| panic!("email/{name}: {faults:?}"));
    }
    let body = |name| kept("request_body", name);
    read::body::<JobRequest>(&body("job")).expect("JSON").into_result().expect("a job");
    read::body::<BulkRequest>(&body("bulk")).expect("JSON").into_result().expect("a bulk act");
    read::body::<DecisionRequest>(&body("decision")).expect("JSON").into_result().expect("a decision");
    read::body::<LeaseRequest>(&body("lease")).expect("JSON").into_result().expect("a lease");
    read::body::<TenantChange>(&body("tenant")).expect("JSON").into_result().expect("a tenant's terms");
    for name in ["sections", "rules"] {
        let file = Source { name: name.to_owned(), text: kept("config", name), ..Source::default() };
        let inputs = Inputs { file: Some(file), ..Inputs::default() };
        Config::load_as_written(&inputs).unwrap_or_else(|faults| panic!("config/{name}: {faults}"));
    }
}

#[test]
fn a_broken_promise_is_kept_with_the_input_that_breaks_it() {
    fn breaks(input: &[u8]) {
        assert!(!input.contains(&b'x'), "an x");
    }
    let target = Target { name: "of_a_test", check: breaks, words: &["x"], inputs: 0 };
    let broken = run(&target, SEED, |_| true).expect_err("the word x comes sooner or later");
    let kept = std::fs::read(&broken.kept_as).expect("a file");
    std::fs::remove_dir_all(target.corpus()).expect("the corpus of this test goes");
    assert!(broken.why.contains("an x") && kept.contains(&b'x'), "{broken:?}");
}

#[test]
fn a_seed_repeats_its_inputs() {
    let kept = [br#"{"a":[1,2],"b":"c"}"#.to_vec(), b"421 try later\r\n".to_vec()];
    let inputs = |seed| {
        let random = Random::from_seed(seed);
        (0..200).map(|_| recado_fuzz::mutate::mutate(&kept, &["w"], &random)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
    assert!(inputs(1).iter().all(|input| input.len() <= recado_fuzz::INPUT_MAX_BYTES));
}
