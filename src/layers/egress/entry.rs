//! One entry of an allowlist for destinations: `api.example.com`, `*.example.com`, `*`, `10.0.0.0/8`, with a port or a path.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::code::{Code, Denied};
use super::deny;
use super::path::Prefix;
use super::target::{Host, read_authority};

/// Which hosts an entry is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// One name, A-label, lower case, without trailing dot.
    Exact(String),
    /// `*.example.com` as `example.com`: any name strictly below it.
    Below(String),
    /// `*`: every name that could be a public one.
    Public,
    /// Addresses that may be named themselves.
    Net(IpNet),
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Which hosts.
    pub pattern: Pattern,
    /// At these ports only; empty: at those of the rule.
    pub ports: Vec<u16>,
    /// With this path or one below it only.
    pub path: Option<Prefix>,
}

/// Why a text is no entry: fixed words.
const WILDCARD: Denied = Denied::new(
    Code::MalformedUrl,
    "a wildcard is `*.` before a domain, or `*` alone; it is the only one",
);

impl Entry {
    /// An entry for a pattern, at the rule's ports and with every path.
    pub const fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            ports: Vec::new(),
            path: None,
        }
    }

    /// Reads `*` or `*.domain`, a host or a range of addresses, each but the last with `:port` and `/path` where it is meant
    /// for these only. IPv6 stands in brackets where a port follows.
    ///
    /// # Errors
    /// Whatever else.
    pub fn read(text: &str) -> Result<Self, Denied> {
        if let Some(net) = net(text) {
            return Ok(Self::new(Pattern::Net(net)));
        }
        let slash = text.find('/').unwrap_or(text.len());
        let (authority, path) = text.split_at_checked(slash).unwrap_or((text, ""));
        let path = match path {
            "" => None,
            path => Some(Prefix::read(path)?),
        };
        let (name, wild) = match authority.strip_prefix('*') {
            None => (authority, false),
            Some("") => {
                let mut entry = Self::new(Pattern::Public);
                entry.path = path;
                return Ok(entry);
            }
            Some(rest) => (rest.strip_prefix('.').ok_or(WILDCARD)?, true),
        };
        if name.contains('*') {
            return Err(WILDCARD);
        }
        // Without a scheme of its own, so that no port goes without saying.
        let target = read_authority("", name)?;
        let bits = text.rsplit('/').next().unwrap_or_default();
        if matches!(target.host, Host::Ip(_)) && path.is_some() && bits.parse::<u16>().is_ok() {
            return Err(Denied::new(Code::AmbiguousIp, "not a range of addresses"));
        }
        let pattern = match (target.host, wild) {
            (Host::Domain(name), true) => Pattern::Below(name),
            (Host::Ip(_), true) => {
                return Err(Denied::new(
                    Code::AmbiguousIp,
                    "an address has nothing below it",
                ));
            }
            (Host::Domain(name), false) => Pattern::Exact(name),
            (Host::Ip(address), false) => Pattern::Net(IpNet::from(address)),
        };
        Ok(Self {
            pattern,
            ports: target.port.into_iter().collect(),
            path,
        })
    }

    /// Whether the entry is for the host. A private address passes only where the entry itself names private addresses, and
    /// a cloud's metadata only where it names nothing else.
    pub(super) fn is_for(&self, host: &Host, deny_private: bool) -> bool {
        match (&self.pattern, host) {
            (Pattern::Exact(name), Host::Domain(asked)) => name == asked,
            (Pattern::Below(domain), Host::Domain(asked)) => deny::is_below(asked, domain),
            (Pattern::Public, Host::Domain(asked)) => deny::is_public_name(asked),
            (Pattern::Net(net), Host::Ip(address)) => {
                lists(net, *address) && (!deny_private || names_private(net, *address))
            }
            _ => false,
        }
    }

    /// How precisely it names hosts: the most precise entries for a host decide about paths.
    pub(super) fn precision(&self) -> usize {
        match &self.pattern {
            Pattern::Exact(_) | Pattern::Net(_) => usize::MAX,
            Pattern::Below(domain) => domain.len(),
            Pattern::Public => 0,
        }
    }
}

/// An embedded IPv4 address is never named by a range, not even by the one of its embedding.
fn lists(net: &IpNet, address: IpAddr) -> bool {
    let embeds = matches!(address, IpAddr::V6(v6) if deny::embedded(v6).is_some());
    !embeds && net.contains(&address)
}

fn names_private(net: &IpNet, address: IpAddr) -> bool {
    if deny::is_metadata(address) {
        return net.prefix_len() == net.max_prefix_len();
    }
    !deny::is_private(address) || deny::is_within_private(net)
}

/// `10.0.0.0/8`, `192.0.2.7`, `2001:db8::1`: without brackets, port or path.
fn net(text: &str) -> Option<IpNet> {
    match text.split_once('/') {
        Some((address, bits)) => {
            // `/08` is not how anybody writes it.
            let plain = !bits.starts_with('0') || bits == "0";
            let net = text.parse::<IpNet>().ok()?;
            (plain && address.parse::<IpAddr>().is_ok()).then(|| net.trunc())
        }
        None => text.parse::<IpAddr>().ok().map(IpNet::from),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Exact(name) => f.write_str(name)?,
            Pattern::Below(domain) => write!(f, "*.{domain}")?,
            Pattern::Public => f.write_str("*")?,
            Pattern::Net(net) if net.prefix_len() == net.max_prefix_len() => {
                Host::Ip(net.addr()).fmt(f)?;
            }
            Pattern::Net(net) => net.fmt(f)?,
        }
        for port in &self.ports {
            write!(f, ":{port}")?;
        }
        self.path.as_ref().map_or(Ok(()), |path| path.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_every_form() {
        for (text, shown) in [
            ("API.Example.", "api.example"),
            ("api.example:8443", "api.example:8443"),
            ("api.example/v1/", "api.example/v1"),
            ("api.example:8443/v1", "api.example:8443/v1"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("*.example.com", "*.example.com"),
            ("*.example.com/static", "*.example.com/static"),
            ("*", "*"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:8080", "192.0.2.7:8080"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("2001:db8::1", "[2001:db8::1]"),
            ("[2001:db8::1]:8443", "[2001:db8::1]:8443"),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(Entry::read(text).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            "*example.com",
            "a.*.example",
            "*.*.example",
            "*.10.0.0.1",
            "https://a.example",
            "a.example:",
            "a.example:0",
            "a.example:99999",
            "a.example?x",
            "a.example/../x",
            "a.example/%2e%2e",
            "user@a.example",
            "10.1/8",
            "0x0a.0.0.1",
            "10.0.0.0/33",
        ] {
            assert!(Entry::read(text).is_err(), "{text}");
        }
    }
}
