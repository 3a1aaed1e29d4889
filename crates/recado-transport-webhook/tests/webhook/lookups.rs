//! Names, and the addresses behind them: what was checked is what is connected to.
//!
//! No test may reach out to a public address, so here `127.0.0.1`, which the operator allows, stands for
//! the outside, and `127.0.0.2`, which stays refused, for the inside.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use recado_core::{Fault, FaultKind, NetworkKind};
use recado_testkit::far_end::FarEnd;
use recado_testkit::http::{Act, raw};
use recado_transport_webhook::{Guard, Lookup, Webhook, WebhookConfig};

use super::trap::Trap;
use super::{Book, ENDPOINT, accepted, config, fault, guard, order, target};

const OUTSIDE: &str = "127.0.0.1";
const INSIDE: &str = "127.0.0.2";

/// Answers one lookup after another, each with other addresses.
#[derive(Debug, Default)]
struct Fickle {
    answers: Mutex<VecDeque<Vec<&'static str>>>,
    asked: Mutex<Vec<String>>,
}

impl Fickle {
    fn new(answers: &[&[&'static str]]) -> Arc<Fickle> {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Arc::new(Fickle { answers: Mutex::new(answers), ..Fickle::default() })
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("asked").len()
    }
}

#[async_trait]
impl Lookup for Fickle {
    async fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().expect("asked").push(name.to_owned());
        let answer = self.answers.lock().expect("answers").pop_front();
        let answer = answer.ok_or_else(|| io::Error::other("no such name"))?;
        // A port of the lookup's own must not count.
        Ok(answer.into_iter().map(|ip| SocketAddr::new(ip.parse().expect("an address"), 1)).collect())
    }
}

fn webhook(url: &str, guard: Guard, lookup: &Arc<Fickle>) -> Webhook {
    let book = Book([(ENDPOINT, target(url))].into());
    let lookup: Arc<dyn Lookup> = Arc::clone(lookup) as _;
    Webhook::with_lookup(WebhookConfig { guard, ..config() }, Arc::new(book), lookup).expect("a Webhook")
}

fn outside() -> Guard {
    guard(&["127.0.0.1/32"])
}

fn is_refused(fault: &Fault) {
    assert_eq!((fault.kind, fault.code.as_deref()), (FaultKind::Answer, Some("ADDRESS_REFUSED")));
    assert!(fault.text.contains("`webhooks.allow`"), "{}", fault.text);
    assert!(!fault.text.contains("127.") && !fault.text.contains("10."), "{}", fault.text);
    assert!(!fault.uncertain);
}

/// Listens inside, on a port where another server listens outside as well.
async fn twins(script: impl IntoIterator<Item = Act>) -> (FarEnd, Trap) {
    let receiver = FarEnd::scripted(script);
    let trap = Trap::at(&format!("{INSIDE}:{}", receiver.port()));
    (receiver, trap)
}

#[tokio::test]
async fn a_name_that_moves_inside_after_the_first_lookup_never_leads_there() {
    let last = || raw("200 OK", "Connection: close\r\n", "");
    let (receiver, trap) = twins([last(), last()]).await;
    let lookup = Fickle::new(&[&[OUTSIDE], &[INSIDE], &[OUTSIDE]]);
    let url = format!("http://rebinding.example.com:{}/", receiver.port());
    let webhook = webhook(&url, outside(), &lookup);

    accepted(&webhook, &order()).await;
    assert_eq!(lookup.asked(), 1, "one connection takes one lookup, or the second could say something else");
    is_refused(&fault(&webhook, &order()).await);
    assert_eq!(lookup.asked(), 2, "the name has to have moved");
    accepted(&webhook, &order()).await;

    trap.assert_untouched();
    assert_eq!(receiver.ledger().len(), 2);
    assert_eq!(*lookup.asked.lock().unwrap(), ["rebinding.example.com"; 3]);
}

#[tokio::test]
async fn of_several_addresses_only_the_permitted_ones_are_connected_to() {
    let (receiver, trap) = twins([raw("200 OK", "", "")]).await;
    let lookup = Fickle::new(&[&[INSIDE, "::ffff:127.0.0.2", "10.0.0.1", "::1", OUTSIDE]]);
    let url = format!("http://mixed.example.com:{}/", receiver.port());
    accepted(&webhook(&url, outside(), &lookup), &order()).await;
    receiver.only("");
    trap.assert_untouched();
}

#[tokio::test]
async fn the_guard_stands_in_front_of_tls_too() {
    let (receiver, trap) = twins([]).await;
    let lookup = Fickle::new(&[&[INSIDE], &[INSIDE, OUTSIDE]]);
    let webhook = webhook(&format!("https://rebinding.example.com:{}/", receiver.port()), outside(), &lookup);
    is_refused(&fault(&webhook, &order()).await);
    let fault = fault(&webhook, &order()).await;
    assert_eq!(fault.kind, FaultKind::Network(NetworkKind::Tls), "{}", fault.text);
    assert_eq!(receiver.tls_hellos(), 1);
    trap.assert_untouched();
}

#[tokio::test]
async fn a_name_with_nothing_but_refused_addresses_is_refused() {
    for address in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00::1", "0.0.0.0"]
    {
        let lookup = Fickle::new(&[&[address]]);
        is_refused(&fault(&webhook("https://hooks.example.com/", Guard::default(), &lookup), &order()).await);
        assert_eq!(lookup.asked(), 1, "{address}");
    }
}

#[tokio::test]
async fn an_internal_name_is_followed_into_the_allow_list_and_nowhere_else() {
    for name in ["redis", "localhost", "hooks.internal", "printer.local."] {
        let (receiver, trap) = twins([raw("200 OK", "", "")]).await;
        let lookup = Fickle::new(&[&[INSIDE], &["1.1.1.1"], &["1.1.1.1", OUTSIDE]]);
        let webhook = webhook(&format!("http://{name}:{}/", receiver.port()), outside(), &lookup);
        is_refused(&fault(&webhook, &order()).await);
        is_refused(&fault(&webhook, &order()).await);
        accepted(&webhook, &order()).await;
        receiver.only("");
        trap.assert_untouched();
        assert_eq!(lookup.asked(), 3, "{name}");
    }
}

#[tokio::test]
async fn plain_http_to_a_public_address_is_refused_once_the_name_is_known_to_lead_there() {
    let lookup = Fickle::new(&[&["1.1.1.1"]]);
    let fault = fault(&webhook("http://hooks.example.com/", outside(), &lookup), &order()).await;
    is_refused(&fault);
    assert!(fault.text.contains("https://"), "{}", fault.text);
    assert_eq!(lookup.asked(), 1);
}

#[tokio::test]
async fn f8_an_unknown_host_name_is_a_dns_failure_and_worth_another_try() {
    let lookup = Fickle::new(&[]);
    let fault = fault(&webhook("https://hooks.example.com/", Guard::default(), &lookup), &order()).await;
    assert_eq!((fault.kind, fault.uncertain), (FaultKind::Network(NetworkKind::Dns), false));
    assert_eq!((fault.code, lookup.asked()), (None, 1));
}

#[tokio::test]
async fn a_name_without_addresses_is_a_network_failure() {
    let lookup = Fickle::new(&[&[]]);
    let fault = fault(&webhook("https://hooks.example.com/", Guard::default(), &lookup), &order()).await;
    assert!(matches!(fault.kind, FaultKind::Network(_)) && !fault.uncertain, "{fault:?}");
}

#[tokio::test]
async fn an_address_that_is_written_down_is_never_looked_up() {
    let trap = Trap::at(&format!("{INSIDE}:0"));
    for host in [INSIDE, "2130706434", "0x7f.2", "[::ffff:127.0.0.2]"] {
        let lookup = Fickle::new(&[&[OUTSIDE]]);
        let url = format!("http://{host}:{}/", trap.port());
        is_refused(&fault(&webhook(&url, outside(), &lookup), &order()).await);
        assert_eq!(lookup.asked(), 0, "{host}");
        trap.assert_untouched();
    }
}

#[tokio::test]
async fn the_systems_own_lookup_is_guarded() {
    let receiver = FarEnd::scripted([raw("200 OK", "", "")]);
    let url = format!("http://localhost:{}/", receiver.port());
    let allowed = WebhookConfig { guard: outside(), ..config() };
    accepted(&super::webhook_with(allowed, target(&url)), &order()).await;
    receiver.only("");
    let other = WebhookConfig { guard: guard(&["192.168.7.0/24"]), ..config() };
    is_refused(&fault(&super::webhook_with(other, target(&url)), &order()).await);
    receiver.only("");
}
