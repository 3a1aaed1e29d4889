//! Addresses as users write them, in every notation that a URL knows.

use recado_transport_webhook::{Guard, Refusal};

use super::guard;

#[track_caller]
fn judged(guard: &Guard, url: &str) -> Result<(), Refusal> {
    guard.check_url(&url.parse().unwrap_or_else(|error| panic!("{url}: {error}")))
}

#[track_caller]
fn refused(guard: &Guard, hosts: &[&str]) {
    for host in hosts {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}/hook");
            assert_eq!(judged(guard, &url), Err(Refusal::Address), "{url}");
        }
    }
}

/// Also for an operator who allows plain HTTP, and one who allows some other range.
#[track_caller]
fn always_refused(hosts: &[&str]) {
    refused(&Guard { allow_http: true, ..Guard::default() }, hosts);
    refused(&guard(&["192.168.7.0/24"]), hosts);
}

#[test]
fn this_machine_is_refused_in_every_notation() {
    always_refused(&[
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.1",
        "0177.0.0.1",
        "0177.0x0.0.01",
        "017700000001",
        "0",
        "0.0.0.0",
        "１２７.０.０.１",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1",
        "0x7f.0.0.1:8080",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:FFFF:7F00:0001]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
    ]);
}

#[test]
fn private_and_link_local_addresses_are_refused_in_every_notation() {
    always_refused(&[
        "10.0.0.1",
        "167772161",
        "172.16.0.1",
        "192.168.0.1",
        "192.168.257",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fec0::1]",
        "[ff02::1]",
        "100.100.100.200",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
    ]);
}

#[test]
fn names_that_are_internal_by_nature_are_refused() {
    let guard = Guard { allow_http: true, ..Guard::default() };
    refused(
        &guard,
        &[
            "localhost",
            "LocalHost",
            "localhost.",
            "foo.localhost",
            "foo.localhost.",
            "%6cocalhost",
            "ｌｏｃａｌｈｏｓｔ",
            "localhost.localdomain",
            "printer.local",
            "metadata.google.internal",
            "metadata.google.internal.",
            "router.home.arpa",
            "redis",
            "redis.",
            "redis:6379",
        ],
    );
}

#[test]
fn names_that_only_look_internal_are_left_to_the_lookup() {
    for host in ["notlocal.example", "localhost.example.com", "my-localhost.dev", "internal.example.com"] {
        assert_eq!(judged(&Guard::default(), &format!("https://{host}/")), Ok(()), "{host}");
    }
}

#[test]
fn public_addresses_and_names_pass_over_https() {
    for host in
        ["1.1.1.1", "[2606:4700:4700::1111]", "hooks.example.com", "hooks.example.com.", "bücher.example"]
    {
        assert_eq!(judged(&Guard::default(), &format!("https://{host}:8443/a?b=c")), Ok(()), "{host}");
    }
}

#[test]
fn plain_http_is_refused_unless_the_operator_allows_it() {
    for host in ["1.1.1.1", "[2606:4700:4700::1111]", "hooks.example.com"] {
        let url = format!("http://{host}/");
        assert_eq!(judged(&Guard::default(), &url), Err(Refusal::Plain), "{host}");
        assert_eq!(judged(&Guard { allow_http: true, ..Guard::default() }, &url), Ok(()), "{host}");
    }
    assert_eq!(judged(&guard(&["1.1.1.0/24"]), "http://1.1.1.1/"), Ok(()));
    assert_eq!(judged(&guard(&["1.1.1.0/24"]), "http://1.1.2.1/"), Err(Refusal::Plain));
}

#[test]
fn a_listed_range_is_allowed_in_every_notation_and_nothing_beside_it() {
    let guard = guard(&["127.0.0.1/32", "fd00:7::/32"]);
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[fd00:7::1]"] {
        for scheme in ["http", "https"] {
            assert_eq!(judged(&guard, &format!("{scheme}://{host}:8080/")), Ok(()), "{host}");
        }
    }
    refused(&guard, &["127.0.0.2", "[::1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[fd00:8::1]"]);
}

#[test]
fn what_does_not_belong_into_a_webhooks_address_is_refused() {
    let long = format!("https://hooks.example.com/{}", "x".repeat(2_048 - 25));
    for (url, refusal) in [
        ("ftp://hooks.example.com/", Refusal::Scheme),
        ("file:///etc/passwd", Refusal::Scheme),
        ("gopher://127.0.0.1:6379/_FLUSHALL", Refusal::Scheme),
        ("data:text/plain,x", Refusal::Scheme),
        ("https://user@hooks.example.com/", Refusal::UserInfo),
        ("https://:pass@hooks.example.com/", Refusal::UserInfo),
        ("https://hooks.example.com@127.0.0.1/", Refusal::UserInfo),
        ("https://hooks.example.com/#there", Refusal::Fragment),
        ("https://hooks.example.com/#", Refusal::Fragment),
        ("https://hooks.example.com:0/", Refusal::Port),
        (&long, Refusal::TooLong),
    ] {
        assert_eq!(judged(&Guard::default(), url), Err(refusal), "{url}");
        assert!(refusal.to_string().contains("; "), "no advice in {refusal}");
    }
    assert_eq!(judged(&Guard::default(), &long[..2_048]), Ok(()));
}
