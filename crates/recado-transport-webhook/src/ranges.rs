//! Public addresses: the tables of the IANA special-purpose registries, read strictly.
//!
//! A range that carries no servers for the public is left out even where the registry calls it reachable.
//! An IPv6 address that embeds an IPv4 one is judged by it where that is how traffic still flows (mapped,
//! NAT64), and refused where it is a relic (compatible, 6to4, Teredo).
//!
//! Absent on purpose: NAT64 prefixes that a network chose for itself, which look like any other address.
//! Its network must keep it from translating to private ranges, as RFC 6052 asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const NOT_PUBLIC_V4: [Ipv4Net; 16] = [
    v4([0, 0, 0, 0], 8),        // this network
    v4([10, 0, 0, 0], 8),       // private
    v4([100, 64, 0, 0], 10),    // shared by carriers
    v4([127, 0, 0, 0], 8),      // loopback
    v4([168, 63, 129, 16], 32), // public by number, yet it is Azure's own interface to a machine
    v4([169, 254, 0, 0], 16),   // link-local, and where clouds keep a machine's credentials
    v4([172, 16, 0, 0], 12),    // private
    v4([192, 0, 0, 0], 24),     // protocol assignments
    v4([192, 0, 2, 0], 24),     // documentation
    v4([192, 88, 99, 0], 24),   // relays of 6to4
    v4([192, 168, 0, 0], 16),   // private
    v4([198, 18, 0, 0], 15),    // benchmarks
    v4([198, 51, 100, 0], 24),  // documentation
    v4([203, 0, 113, 0], 24),   // documentation
    v4([224, 0, 0, 0], 4),      // multicast
    v4([240, 0, 0, 0], 4),      // reserved, and broadcast at its end
];

/// All that is handed out as global unicast. Loopback, unique local, link-local, site-local, multicast,
/// compatible addresses and the local NAT64 prefix are outside of it.
const UNICAST_V6: Ipv6Net = v6([0x2000, 0, 0], 3);

const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0], 23),     // protocol assignments, among them Teredo and benchmarks
    v6([0x2001, 0xdb8, 0], 32), // documentation
    v6([0x2002, 0, 0], 16),     // 6to4
    v6([0x3fff, 0, 0], 20),     // documentation
];

/// The prefix by which a machine without IPv4 reaches one without IPv6.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 96);

pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) if NAT64.contains(&ip) => {
            let [.., a, b, c, d] = ip.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(ip) => UNICAST_V6.contains(&ip) && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&ip)),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|net| net.contains(&ip))
}

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c]: [u16; 3], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}
