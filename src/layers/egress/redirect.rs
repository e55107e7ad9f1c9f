//! Redirects: each hop is judged anew.

use std::collections::HashSet;

use super::code::{Code, Denied};
use super::rules::Rule;
use super::target::{BACKSLASH, BLANK, CONTROL, Url};

/// Most hops that are followed.
pub const MAX_HOPS: usize = 10;

const EMPTY: Denied = Denied::new(Code::RedirectNotAllowed, "a redirect without a location");
const NOT_ALLOWED: Denied = Denied::new(
    Code::RedirectNotAllowed,
    "the redirect leads where the rule does not allow",
);
const UNREADABLE: Denied = Denied::new(
    Code::RedirectNotAllowed,
    "the redirect's location cannot be read unambiguously",
);
const WORSE: Denied = Denied::new(
    Code::RedirectNotAllowed,
    "the redirect leads from a secure scheme to one that is not",
);
const CIRCLE: Denied = Denied::new(Code::RedirectLoop, "redirects lead in a circle");
const MANY: Denied = Denied::new(Code::RedirectLoop, "more than ten redirects");

/// A chain of redirects.
#[derive(Clone, Debug)]
pub struct Redirects<'r> {
    rule: &'r Rule,
    at: Url,
    seen: HashSet<Url>,
}

impl<'r> Redirects<'r> {
    /// Begins a chain.
    ///
    /// # Errors
    /// What the rule says of its first URL.
    pub fn new(rule: &'r Rule, start: Url) -> Result<Self, Denied> {
        rule.judge(&start)?;
        Ok(Self {
            rule,
            seen: HashSet::from([start.clone()]),
            at: start,
        })
    }

    /// Judges the next hop, and where it leads. Credentials go along only while [`Url::target`] stays the same.
    ///
    /// # Errors
    /// [`Code::RedirectNotAllowed`] and [`Code::RedirectLoop`]; the chain ends there.
    pub fn follow(&mut self, location: &str) -> Result<&Url, Denied> {
        let next = redirect(self.rule, &self.at, location)?;
        if self.seen.len() > MAX_HOPS {
            return Err(MANY);
        }
        if !self.seen.insert(next.clone()) {
            return Err(CIRCLE);
        }
        self.at = next;
        Ok(&self.at)
    }
}

/// Judges one redirect by itself: where it leads must be allowed, by the same scheme or a secure one.
///
/// # Errors
/// [`Code::RedirectNotAllowed`], with words that say why.
pub fn redirect(rule: &Rule, from: &Url, location: &str) -> Result<Url, Denied> {
    let next = resolved(from, location).map_err(|denied| match denied {
        EMPTY => EMPTY,
        _ => UNREADABLE,
    })?;
    let (old, new) = (from.target.scheme, next.target.scheme);
    if !(old == new || matches!((old, new), ("http", "https") | ("ws", "wss"))) {
        return Err(WORSE);
    }
    rule.judge(&next).map_err(|_| NOT_ALLOWED)?;
    Ok(next)
}

/// RFC 3986 section 5.2 where its reading and the WHATWG standard's agree.
fn resolved(from: &Url, location: &str) -> Result<Url, Denied> {
    if location.is_empty() {
        return Err(EMPTY);
    }
    if location.chars().any(char::is_control) {
        return Err(CONTROL);
    }
    if location.chars().any(char::is_whitespace) {
        return Err(BLANK);
    }
    let path = location.find(['?', '#']).unwrap_or(location.len());
    let (path, _) = location.split_at_checked(path).unwrap_or((location, ""));
    if path.contains('\\') {
        return Err(BACKSLASH);
    }
    if location.starts_with("//") {
        return Url::read(&format!("{}:{location}", from.target.scheme));
    }
    // A colon before any slash ends a scheme.
    let first = path.split('/').next().unwrap_or_default();
    if first.contains(':') {
        return Url::read(location);
    }
    let base = url::Url::parse(&from.to_string()).map_err(|_| UNREADABLE)?;
    let joined = base.join(location).map_err(|_| UNREADABLE)?;
    Url::read(joined.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::*;

    fn followed(start: &str, locations: &[&str]) -> Result<String, Code> {
        let mut rule = Rule::new();
        rule.schemes = vec!["http".to_owned(), "https".to_owned()];
        for entry in ["a.example", "*.b.example", "c.example/in"] {
            rule.allow(Entry::read(entry).unwrap());
        }
        let run = || -> Result<String, Denied> {
            let mut chain = Redirects::new(&rule, Url::read(start)?)?;
            let mut last = start.to_owned();
            for location in locations {
                last = chain.follow(location)?.to_string();
            }
            Ok(last)
        };
        run().map_err(|denied| denied.code)
    }

    #[test]
    fn locations_are_resolved_against_the_hop_before() {
        for (location, end) in [
            ("/y", "https://a.example/y"),
            ("y", "https://a.example/d/y"),
            ("../y", "https://a.example/y"),
            ("?q=1", "https://a.example/d/x?q=1"),
            ("//x.b.example/z", "https://x.b.example/z"),
            ("https://x.b.example", "https://x.b.example/"),
            ("HTTPS://X.B.example:443/", "https://x.b.example/"),
            ("https://c.example/in/side", "https://c.example/in/side"),
            (
                "/y?to=https://evil.example",
                "https://a.example/y?to=https://evil.example",
            ),
        ] {
            assert_eq!(
                followed("https://a.example/d/x", &[location]).as_deref(),
                Ok(end)
            );
        }
        let better = followed("http://a.example/", &["https://a.example/"]);
        assert_eq!(better.as_deref(), Ok("https://a.example/"));
    }

    #[test]
    fn what_a_hop_may_not_lead_to() {
        for location in [
            "https://evil.example/",
            "//evil.example/",
            "///evil.example/",
            "/\\evil.example/",
            "\\\\evil.example/",
            "https:evil.example",
            "https:/evil.example",
            "https://a.example@evil.example/",
            "https://u@a.example/",
            "http://a.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://b.example/",
            "https://a.example:8443/",
            "https://c.example/out",
            "https://a.example\t.evil.example/",
            " /y",
            "",
        ] {
            assert_eq!(
                followed("https://a.example/", &[location]),
                Err(Code::RedirectNotAllowed),
                "{location}"
            );
        }
    }

    #[test]
    fn circles_and_long_chains_end() {
        let circle = followed("https://a.example/1", &["/2", "/1"]);
        assert_eq!(circle, Err(Code::RedirectLoop));
        let itself = followed("https://a.example/1", &["#x"]);
        assert_eq!(itself, Err(Code::RedirectLoop));
        let hops: Vec<_> = (0..11).map(|i| format!("/hop{i}")).collect();
        let hops: Vec<_> = hops.iter().map(String::as_str).collect();
        assert!(followed("https://a.example/", &hops[..10]).is_ok());
        assert_eq!(
            followed("https://a.example/", &hops),
            Err(Code::RedirectLoop)
        );
        let bad = followed("https://evil.example/", &["https://a.example/"]);
        assert_eq!(bad, Err(Code::HostNotAllowed));
    }
}
