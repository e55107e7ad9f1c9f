//! Where a URL leads, path included: for rules that allow a server by its address.

use std::net::IpAddr;

use super::code::{Code, Denied};
use super::deny;
use super::target::{Host, Target, read};

const PATH: Denied = Denied::new(
    Code::AmbiguousPath,
    "a path that readers resolve or decode each in their own way",
);
const EMBEDDED: Denied = Denied::new(
    Code::AmbiguousIp,
    "an IPv6 address that carries an IPv4 address",
);

/// A server and a path on it. Query and fragment are not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Scheme, host and port.
    pub target: Target,
    /// Path without trailing slash: empty for the root.
    path: String,
}

impl Location {
    /// Reads an absolute URL with the one reader, and its path as it is written.
    ///
    /// # Errors
    /// What the reader refuses, and a path with dot segments, backslashes, or escapes of a dot, a slash or a NUL.
    pub fn read(url: &str) -> Result<Self, Denied> {
        let target = read(url)?;
        if let Host::Ip(IpAddr::V6(address)) = target.host
            && deny::embedded(address).is_some()
        {
            return Err(EMBEDDED);
        }
        let after = url.split_once("://").map_or("", |(_, after)| after);
        let end = after.find(['?', '#']).unwrap_or(after.len());
        let whole = after.get(..end).unwrap_or_default();
        let path = whole.find('/').and_then(|start| whole.get(start..));
        let path = path.unwrap_or_default();
        let lower = path.to_ascii_lowercase();
        let hidden = ["\\", "%2e", "%2f", "%5c", "%00", "%25"];
        let dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
        if dots || hidden.iter().any(|hidden| lower.contains(hidden)) {
            return Err(PATH);
        }
        Ok(Self {
            target,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// Whether the other is the same place or below it, by whole path segments.
    pub fn covers(&self, other: &Self) -> bool {
        let rest = other.path.strip_prefix(self.path.as_str());
        self.target == other.target
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_covers_itself_and_what_is_below_by_whole_segments() {
        for (listed, asked, covered) in [
            ("https://a.example/", "https://a.example", true),
            ("https://a.example", "https://A.example./mcp?x=1#y", true),
            ("https://a.example:443/mcp", "https://a.example/mcp/", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/v1", true),
            ("https://a.example/mcp", "https://a.example/mcps", false),
            ("https://a.example/mcp", "https://a.example/MCP", false),
            ("https://a.example/mcp", "https://a.example/", false),
            ("https://a.example/", "http://a.example/", false),
            ("https://a.example/", "https://a.example:8443/", false),
            ("https://a.example/", "https://b.a.example/", false),
            (
                "https://a.example/",
                "https://a.example.evil.example/",
                false,
            ),
        ] {
            let read = |url| Location::read(url).unwrap();
            assert_eq!(
                read(listed).covers(&read(asked)),
                covered,
                "{listed} {asked}"
            );
        }
    }

    #[test]
    fn a_path_that_can_be_read_in_two_ways_is_refused() {
        for url in [
            "https://a.example/mcp/../admin",
            "https://a.example/mcp/%2e%2E/admin",
            "https://a.example/mcp%2Fx",
            "https://a.example/mcp\\..\\admin",
            "https://a.example/%252e",
            "https://a.example/.",
            "https://user@a.example/mcp",
            "a.example/mcp",
            "javascript:alert(1)",
            "",
        ] {
            assert!(Location::read(url).is_err(), "{url}");
        }
    }
}
