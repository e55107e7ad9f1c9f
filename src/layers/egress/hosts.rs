//! Which hosts a rule allows: a pure function on lists and a host, the same for arguments and for the forward proxy.

use std::collections::HashSet;

use super::target::{Host, Target};
use crate::policy::List;

/// The hosts of several lists.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    exact: HashSet<String>,
    above: HashSet<String>,
}

impl Hosts {
    /// Everything that any of the lists allows.
    pub fn new<'l>(lists: impl IntoIterator<Item = &'l List>) -> Self {
        let mut hosts = Self::default();
        for list in lists {
            hosts.exact.extend(list.hosts.iter().cloned());
            hosts.above.extend(list.host_suffixes.iter().cloned());
        }
        hosts
    }

    /// Whether the target may be reached. A name matches exactly or below a wildcard, never by substring; an address only
    /// where it is listed itself; a port that is not the scheme's own only as an exact entry `host:port`.
    pub fn allow(&self, target: &Target) -> bool {
        let name = target.host.to_string();
        if let Some(port) = target.port {
            return self.exact.contains(&format!("{name}:{port}"));
        }
        if self.exact.contains(&name) {
            return true;
        }
        match &target.host {
            Host::Domain(name) => parents(name).any(|parent| self.above.contains(parent)),
            // Lists may write an IPv6 address with or without brackets.
            Host::Ip(address) => self.exact.contains(&address.to_string()),
        }
    }
}

/// `b.c` and `c` of `a.b.c`.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.')
        .filter_map(|(dot, _)| name.get(dot + 1..))
}

#[cfg(test)]
mod tests {
    use super::super::target::read;
    use super::*;

    #[test]
    fn names_match_exactly_or_strictly_below_a_wildcard() {
        let list = List {
            hosts: ["a.example", "192.0.2.7", "2001:db8::1", "b.example:8443"]
                .map(str::to_owned)
                .into(),
            host_suffixes: vec!["cdn.example".to_owned()],
            ..List::default()
        };
        let hosts = Hosts::new([&list]);
        for (url, allowed) in [
            ("https://a.example/", true),
            ("https://A.EXAMPLE./", true),
            ("https://x.a.example/", false),
            ("https://aa.example/", false),
            ("https://a.example.evil.example/", false),
            ("https://x.cdn.example/", true),
            ("https://x.y.cdn.example/", true),
            ("https://cdn.example/", false),
            ("https://xcdn.example/", false),
            ("http://192.0.2.7/", true),
            ("http://192.0.2.8/", false),
            ("http://[2001:db8:0::1]/", true),
            ("https://b.example:8443/", true),
            ("https://b.example/", false),
            ("https://a.example:8443/", false),
            ("https://x.cdn.example:8443/", false),
        ] {
            assert_eq!(hosts.allow(&read(url).unwrap()), allowed, "{url}");
        }
    }
}
