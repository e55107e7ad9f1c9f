//! Addresses and names that nobody outside may be sent to: what server-side request forgery aims at.
//!
//! The table is the one of IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890 and its updates), with what clouds
//! serve their metadata on. Of IPv6 only global unicast, `2000::/3`, is public at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 that is not public.
const V4: [([u8; 4], u8); 17] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    // Azure's wire server: a public address that each machine there reaches by itself.
    ([168, 63, 129, 16], 32),
    ([255, 255, 255, 255], 32),
];

/// IPv6 within `2000::/3` that is not public, or carries an IPv4 address.
const V6: [([u16; 8], u8); 5] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // protocol assignments: Teredo, benchmarks, ORCHID
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), // 6to4
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation
    ([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16), // the former 6bone
];

/// Whole ranges of IPv6 outside of `2000::/3`, for rules that name a part of one.
const V6_OTHER: [([u16; 8], u8); 3] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 3),
    ([0x4000, 0, 0, 0, 0, 0, 0, 0], 2),
    ([0x8000, 0, 0, 0, 0, 0, 0, 0], 1),
];

/// Where clouds serve credentials to whoever asks.
const METADATA: [IpAddr; 7] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Names of the same.
const METADATA_NAMES: [&str; 7] = [
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.azure.com",
];

/// Names of the machine itself.
const LOOPBACK_NAMES: [&str; 5] = [
    "localhost",
    "localhost.localdomain",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
];

/// Top-level domains, and names below them, that no public name has (RFC 6761, 6762, 8375, 9476, ICANN's `internal`), and
/// the usual ones of company networks.
const LOCAL_DOMAINS: [&str; 14] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
    "onion",
    "alt",
    "in-addr.arpa",
    "ip6.arpa",
];

static NETS: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let v4 = V4
        .iter()
        .filter_map(|(a, bits)| Ipv4Net::new(Ipv4Addr::from(*a), *bits).ok())
        .map(IpNet::V4);
    let v6 = V6
        .iter()
        .chain(&V6_OTHER)
        .filter_map(|(a, bits)| Ipv6Net::new(Ipv6Addr::from(*a), *bits).ok())
        .map(IpNet::V6);
    v4.chain(v6).collect()
});

/// Whether an address is private, local, reserved or a cloud's metadata, itself or as the IPv4 address that it carries. IPv6
/// that carries any IPv4 address by a standard mapping is never public here.
pub fn is_private(address: IpAddr) -> bool {
    let listed = NETS.iter().any(|net| net.contains(&address));
    match address {
        IpAddr::V4(_) => listed,
        IpAddr::V6(v6) => listed || is_isatap(v6),
    }
}

/// Whether a whole range lies within one range of the table: who lists such a range means private addresses.
pub(super) fn is_within_private(net: &IpNet) -> bool {
    NETS.iter().any(|private| private.contains(net))
}

/// Whether a cloud serves its metadata there.
pub fn is_metadata(address: IpAddr) -> bool {
    let inside = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => embedded(v6).map(IpAddr::V4),
    };
    METADATA.contains(&address) || inside.is_some_and(|inside| METADATA.contains(&inside))
}

/// The IPv4 address that an IPv6 address carries by one of the standard mappings: IPv4-compatible and -mapped (RFC 4291),
/// -translated (RFC 2765), NAT64 (RFC 6052, 8215), 6to4 (RFC 3056), Teredo (RFC 4380) and ISATAP (RFC 5214).
pub fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, _, _, _, _, _]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(v4(high, low)),
        // The local-use prefix is /48, and the network behind it chooses how the rest is laid out: both usual ways.
        [0x64, 0xff9b, 1, a, b, c, high, low] => Some(if a == 0 && b == 0 && c == 0 {
            v4(high, low)
        } else {
            // RFC 6052 section 2.2: bits 64 to 71 are zero, the address stands around them.
            v4(a, ((b & 0xff) << 8) | (c >> 8))
        }),
        // Obscured by inversion.
        [0x2001, 0, _, _, _, _, high, low] => Some(v4(!high, !low)),
        _ => None,
    }
}

fn is_isatap(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _])
}

/// Whether the name is the machine's own.
pub fn is_loopback_name(name: &str) -> bool {
    LOOPBACK_NAMES.contains(&name) || is_below(name, "localhost")
}

/// Whether a cloud serves its metadata under the name.
pub fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.contains(&name) || is_below(name, "metadata.google.internal")
}

/// Whether the name could be a public one: it has a dot, and ends in no domain of local networks.
pub fn is_public_name(name: &str) -> bool {
    name.contains('.')
        && !is_loopback_name(name)
        && !is_metadata_name(name)
        && !LOCAL_DOMAINS
            .iter()
            .any(|domain| name == *domain || is_below(name, domain))
}

/// Strictly below a domain.
pub(super) fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private(text: &str) -> bool {
        is_private(text.parse().unwrap())
    }

    #[test]
    fn every_range_of_the_table_is_private_from_its_first_to_its_last_address() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("::", "::1"),
            ("::ffff:0.0.0.0", "::ffff:255.255.255.255"),
            ("::1.2.3.4", "::255.255.255.255"),
            ("64:ff9b::", "64:ff9b::255.255.255.255"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            ("100::", "100::ffff:ffff:ffff:ffff"),
            ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert!(private(first), "{first}");
            assert!(private(last), "{last}");
        }
    }

    #[test]
    fn their_neighbours_are_public() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:2800:220:1:248:1893:25c8:1946",
            "2a00:1450:4001:81b::200e",
            "2001:4860:4860::8888",
        ] {
            assert!(!private(address), "{address}");
        }
    }

    #[test]
    fn an_ipv4_address_is_found_in_every_embedding() {
        let v4 = Some(Ipv4Addr::new(10, 0, 0, 5));
        for text in [
            "::ffff:10.0.0.5",
            "::10.0.0.5",
            "::ffff:0:10.0.0.5",
            "64:ff9b::10.0.0.5",
            "64:ff9b:1::10.0.0.5",
            "64:ff9b:1:a00:0:500::",
            "2002:a00:5::1",
            "2001:0:4136:e378:8000:63bf:f5ff:fffa",
            "2a00:1450::5efe:10.0.0.5",
            "fe80::200:5efe:10.0.0.5",
        ] {
            let address: Ipv6Addr = text.parse().unwrap();
            assert_eq!(embedded(address), v4, "{text}");
            assert!(is_private(IpAddr::V6(address)), "{text}");
        }
        assert_eq!(embedded("2606:2800:220:1::1".parse().unwrap()), None);
        assert!(is_metadata("::ffff:169.254.169.254".parse().unwrap()));
        assert!(is_metadata("fd00:ec2::254".parse().unwrap()));
    }

    #[test]
    fn names_of_local_networks_are_not_public() {
        for name in [
            "localhost",
            "db.localhost",
            "router",
            "printer.local",
            "vault.corp",
            "metadata.google.internal",
            "x.internal",
            "nas.home.arpa",
        ] {
            assert!(!is_public_name(name), "{name}");
        }
        for name in [
            "shop.test",
            "localhost.test",
            "internal.example",
            "notlocal.example",
        ] {
            assert!(is_public_name(name), "{name}");
        }
    }
}
