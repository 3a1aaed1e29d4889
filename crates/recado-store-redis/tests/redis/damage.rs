//! Bytes that change in the server: what is damaged is found before it goes out, and stops nothing else.

use recado_core::{Damage, NewJob, Payload};
use recado_store::Store;

use crate::given::{HOUR, T0, claim, job};
use crate::place::Place;

#[tokio::test]
async fn damaged_data_is_found_when_its_job_is_claimed_and_a_damaged_head_holds_nothing_back() {
    let place = Place::single();
    let store = place.store().await;
    let data = Payload::new(r#"{"amount":"AMOUNT-1000"}"#).unwrap();
    // One that is for later has keys of its own.
    let of = |name: &str| NewJob { data: data.clone(), due_at: T0.plus(HOUR / 2), ..job(name) };
    store.enqueue(vec![of("struck"), of("headless"), of("no-text"), of("whole")]).await.unwrap();
    let key = |what: &str, seq: u64| format!("{}:{{0}}:{what}:{seq}", place.options.prefix);
    let set = |key: &str, at: &str, byte: &str| place.server.ask::<u64>(&["SETRANGE", key, at, byte]);
    let stored: String = place.server.ask(&["GET", &key("data", 1)]);
    let at = stored.find("1000").expect("the data lies elsewhere").to_string();
    set(&key("data", 1), &at, "9");
    // A priority that there is none of.
    set(&key("job", 2), "12", "z");
    place.server.ask::<String>(&[
        "EVAL",
        "return redis.call('SET', KEYS[1], '{\"amount\":\"\\255\"}')",
        "1",
        &key("data", 3),
    ]);

    let mut when_due = claim(10);
    when_due.now = T0.plus(HOUR / 2);
    let leases = store.claim(when_due).await.unwrap().leases;
    let mut found: Vec<_> = leases.iter().map(|lease| (lease.job.id.as_str(), lease.job.damage())).collect();
    found.sort_by_key(|(name, _)| *name);
    let damaged = Some(Damage::Data);
    assert_eq!(found, [("no-text", damaged), ("struck", damaged), ("whole", None)]);
}
