//! Which addresses count as public, held against tables of this file's own and against the standard
//! library's idea of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use recado_transport_webhook::{Guard, IpNet};

use super::guard;

/// Returns true if this address may be connected to over TLS.
fn permits(guard: &Guard, ip: IpAddr) -> bool {
    let url = match ip {
        IpAddr::V4(ip) => format!("https://{ip}/"),
        IpAddr::V6(ip) => format!("https://[{ip}]/"),
    };
    guard.check_url(&url.parse().expect("a URL")).is_ok()
}

const REFUSED_V4: [&str; 16] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

const REFUSED_V6: [&str; 24] = [
    "::/128",
    "::1/128",
    "::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "200::/7",
    "2001::/32",
    "2001:2::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "4000::/2",
    "5f00::/16",
    "8000::/1",
    "fc00::/7",
    "fd00:ec2::/32",
    "fe00::/9",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

fn permitted(ip: impl Into<IpAddr>) -> bool {
    permits(&Guard::default(), ip.into())
}

fn nets(ranges: &[&str]) -> Vec<IpNet> {
    ranges.iter().map(|range| range.parse().expect("a range")).collect()
}

fn is_listed(ip: Ipv4Addr) -> bool {
    nets(&REFUSED_V4).iter().any(|net| net.contains(&IpAddr::V4(ip)))
}

/// IPv6 addresses by which an IPv4 one can be reached, where its kind of traffic flows at all.
fn translated(ip: Ipv4Addr) -> [Ipv6Addr; 2] {
    [ip.to_ipv6_mapped(), v6(0x0064_ff9b << 96, 0, ip)]
}

/// IPv6 addresses that hold an IPv4 one for a relay to unpack.
fn relayed(ip: Ipv4Addr, noise: u128) -> [Ipv6Addr; 5] {
    let bits = u128::from(ip.to_bits());
    [
        v6(0, 0, ip),
        v6(0x0064_ff9b_0001 << 80, noise & (u128::MAX >> 48) & !0xffff_ffff, ip),
        Ipv6Addr::from_bits(0x2002 << 112 | bits << 80 | noise & (u128::MAX >> 48)),
        // Teredo: the server's address in the clear, the client's turned over.
        Ipv6Addr::from_bits(0x2001_0000 << 96 | bits << 64 | noise & u128::from(u64::MAX)),
        Ipv6Addr::from_bits(
            0x2001_0000 << 96 | noise & (u128::MAX >> 32) & !0xffff_ffff | bits ^ 0xffff_ffff,
        ),
    ]
}

fn v6(prefix: u128, middle: u128, ip: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(prefix | middle | u128::from(ip.to_bits()))
}

/// Any address of a listed range.
fn inside(ranges: &'static [&'static str]) -> impl Strategy<Value = IpAddr> {
    (0..ranges.len(), any::<u128>()).prop_map(|(which, noise)| match nets(ranges)[which] {
        IpNet::V4(net) => {
            IpAddr::V4(Ipv4Addr::from_bits(net.network().to_bits() | noise as u32 & net.hostmask().to_bits()))
        }
        IpNet::V6(net) => {
            IpAddr::V6(Ipv6Addr::from_bits(net.network().to_bits() | noise & net.hostmask().to_bits()))
        }
    })
}

proptest! {
    #[test]
    fn no_address_of_a_refused_range_passes_whatever_its_embedding(
        ip in inside(&REFUSED_V4), noise in any::<u128>()
    ) {
        let IpAddr::V4(ip) = ip else { unreachable!() };
        prop_assert!(!permitted(ip), "{ip}");
        for embedded in translated(ip).into_iter().chain(relayed(ip, noise)) {
            prop_assert!(!permitted(embedded), "{ip} as {embedded}");
        }
    }

    #[test]
    fn no_address_of_a_refused_ipv6_range_passes(ip in inside(&REFUSED_V6)) {
        prop_assert!(!permitted(ip), "{ip}");
    }

    #[test]
    fn every_other_ipv4_address_passes_also_mapped_and_translated(bits in any::<u32>(), noise in any::<u128>()) {
        let ip = Ipv4Addr::from_bits(bits);
        prop_assert_eq!(permitted(ip), !is_listed(ip), "{}", ip);
        for translated in translated(ip) {
            prop_assert_eq!(permitted(translated), !is_listed(ip), "{} as {}", ip, translated);
        }
        for relayed in relayed(ip, noise) {
            prop_assert!(!permitted(relayed), "{} as {}", ip, relayed);
        }
    }

    #[test]
    fn what_the_standard_library_calls_special_never_passes(low in any::<u32>(), bits in any::<u128>()) {
        let v4 = Ipv4Addr::from_bits(low);
        let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
        prop_assert!(!special || !permitted(v4), "{v4}");
        let v6 = Ipv6Addr::from_bits(bits);
        let special = v6.is_loopback() || v6.is_unspecified() || v6.is_multicast() || v6.is_unique_local()
            || v6.is_unicast_link_local();
        prop_assert!(!special || !permitted(v6), "{v6}");
    }

    #[test]
    fn an_allow_list_adds_its_own_range_and_nothing_else(bits in any::<u32>()) {
        let ip = Ipv4Addr::from_bits(bits);
        let guard = guard(&["10.1.0.0/16"]);
        let allowed = ip.octets()[..2] == [10, 1];
        prop_assert_eq!(permits(&guard, ip.into()), allowed || permitted(ip), "{}", ip);
    }
}

#[test]
fn every_refused_range_ends_where_it_ends() {
    for net in nets(&REFUSED_V4) {
        let IpNet::V4(net) = net else { unreachable!() };
        assert!(!permitted(net.network()) && !permitted(net.broadcast()), "{net}");
        let neighbours = [net.network().to_bits().checked_sub(1), net.broadcast().to_bits().checked_add(1)];
        for neighbour in neighbours.into_iter().flatten().map(Ipv4Addr::from_bits) {
            assert_eq!(permitted(neighbour), !is_listed(neighbour), "{neighbour} beside {net}");
        }
    }
}

#[test]
fn public_servers_are_within_reach() {
    for ip in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2003::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "3ffe::1",
    ] {
        assert!(permitted(ip.parse::<IpAddr>().unwrap()), "{ip}");
    }
}

#[test]
fn a_range_allowed_in_ipv4_covers_its_mapped_form_and_no_other() {
    let guard = guard(&["10.1.0.0/16"]);
    assert!(permits(&guard, "::ffff:10.1.2.3".parse().unwrap()));
    for ip in ["::ffff:10.2.0.1", "64:ff9b::10.1.2.3", "::10.1.2.3", "2002:a01:203::1"] {
        assert!(!permits(&guard, ip.parse().unwrap()), "{ip}");
    }
}
