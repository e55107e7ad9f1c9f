//! URLs in running text, and what somebody means who names one.

use std::collections::HashSet;

use url::{Host, Url};

/// Ends of file names that are top-level domains as well: `notes.md` alone is a file.
const FILES: [&str; 12] = [
    "md", "zip", "mov", "sh", "py", "rs", "pl", "ps", "so", "app", "bz", "cc",
];

/// Longest URL that is looked for, in bytes.
const LONGEST: usize = 4096;

/// A URL as it is compared: `http` and `https` are one, a fragment does not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Web {
    scheme: &'static str,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

impl Web {
    /// Reads one URL; the scheme may be missing.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text.len() > LONGEST || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let url = if text.contains("://") {
            Url::parse(text).ok()?
        } else {
            Url::parse(&format!("https://{text}")).ok()?
        };
        let scheme = match url.scheme() {
            "http" | "https" => "web",
            "ws" | "wss" => "socket",
            "ftp" => "ftp",
            _ => return None,
        };
        if !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        Some(Self {
            scheme,
            host: url.host_str()?.trim_end_matches('.').to_owned(),
            port: url.port(),
            path: url.path().to_owned(),
            query: url.query().map(str::to_owned),
        })
    }

    /// One text for one place.
    pub(super) fn to_key(&self) -> String {
        let port = self.port.map_or(String::new(), |port| format!(":{port}"));
        let query = self
            .query
            .as_ref()
            .map_or(String::new(), |query| format!("?{query}"));
        format!("{}://{}{port}{}{query}", self.scheme, self.host, self.path)
    }

    /// Whether this is the site of a domain: its host, or `www` before it, at the standard port.
    pub(super) fn is_site(&self, domain: &str) -> bool {
        let host = self.host.strip_prefix("www.").unwrap_or(&self.host);
        let domain = domain.strip_prefix("www.").unwrap_or(domain);
        self.scheme == "web" && self.port.is_none() && host.eq_ignore_ascii_case(domain)
    }

    /// The segments of the path.
    pub(super) fn segments(&self) -> impl Iterator<Item = &str> {
        self.path.split('/')
    }

    /// Whether the other is this, or stands below its path.
    fn is_above(&self, other: &Self) -> bool {
        let place = |web: &Self| (web.scheme, web.host.clone(), web.port);
        if place(self) != place(other) {
            return false;
        }
        match other.path.strip_prefix(self.path.as_str()) {
            Some("") => true,
            Some(rest) => self.path.ends_with('/') || rest.starts_with('/'),
            None => false,
        }
    }
}

/// The URLs and hosts that a text names.
#[derive(Debug, Default)]
pub(super) struct Urls {
    found: HashSet<Web>,
}

impl Urls {
    pub(super) fn new(text: &str) -> Self {
        let mut urls = Self::default();
        for (at, _) in text.match_indices("://") {
            let before = text.get(..at).unwrap_or_default();
            let scheme = before.len()
                - before
                    .trim_end_matches(|c: char| c.is_ascii_alphanumeric())
                    .len();
            let rest = text.get(at - scheme..).unwrap_or_default();
            urls.candidate(cut(rest));
        }
        let apart = |c: char| c.is_whitespace() || "\"'<>()[]{},;|`".contains(c);
        for word in text.split(apart) {
            let word = word.trim_matches(['*', '_', '.', ':', '!', '?']);
            if !word.contains("://") && names_host(word) {
                urls.candidate(word);
            }
        }
        urls
    }

    fn candidate(&mut self, text: &str) {
        let trimmed =
            text.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '*', '_']);
        for text in [text, trimmed] {
            self.found.extend(Web::read(text));
        }
    }

    /// Whether this very URL stands here.
    pub(super) fn has(&self, key: &str) -> bool {
        Web::read(key).is_some_and(|web| self.found.contains(&web))
    }

    /// Whether a URL on the host of this one stands here, at whatever path.
    pub(super) fn has_host_of(&self, key: &str) -> bool {
        let site = |web: &Web| (web.scheme, web.host.clone(), web.port);
        Web::read(key).is_some_and(|web| self.found.iter().any(|said| site(said) == site(&web)))
    }

    /// Whether every URL that stands here is this one, as [`Web::to_key`] writes it.
    pub(super) fn are_all(&self, key: &str) -> bool {
        self.found.iter().all(|web| web.to_key() == key)
    }

    /// Whether this URL, one above it, or its host stands here.
    pub(super) fn covers(&self, key: &str) -> bool {
        Web::read(key).is_some_and(|web| self.found.iter().any(|said| said.is_above(&web)))
    }
}

/// A URL's text up to where running text goes on.
fn cut(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || c.is_control() || "\"<>`|\\^".contains(c));
    let text = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    // Markdown: `[text](url)` where the text is a URL too.
    let text = text.split("](").next().unwrap_or(text);
    text.get(..text.floor_char_boundary(LONGEST))
        .unwrap_or_default()
}

/// Whether a word without a scheme begins with a host's name.
fn names_host(word: &str) -> bool {
    if !word.contains('.') {
        return false;
    }
    let end = word.find(['/', '?', '#', ':']).unwrap_or(word.len());
    let (host, rest) = word.split_at_checked(end).unwrap_or((word, ""));
    if host.contains('@') || word.len() > LONGEST {
        return false;
    }
    let Ok(Host::Domain(name)) = Host::parse(host) else {
        return false;
    };
    let mut labels = name.rsplit('.');
    let top = labels.next().unwrap_or_default();
    let more = labels.clone().count();
    let plain = labels.all(|label| !label.is_empty());
    let is_top =
        top.len() > 1 && (top.starts_with("xn--") || top.bytes().all(|b| b.is_ascii_alphabetic()));
    let is_file = more == 1 && rest.is_empty() && FILES.contains(&top);
    more > 0 && plain && is_top && !is_file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_in_a_sentence_is_found_whatever_stands_around_it() {
        for text in [
            "open https://a.example/x?q=1.",
            "(see HTTP://A.example/x?q=1)",
            "[here](https://a.example/x?q=1)",
            "<https://a.example:443/x?q=1>",
            "a.example/x?q=1, please",
            "https://a.example/x?q=1#top",
        ] {
            assert!(Urls::new(text).has("https://a.example/x?q=1"), "{text}");
        }
        for text in [
            "https://a.example/x?q=2",
            "https://a.example.evil.example/x?q=1",
            "https://u@a.example/x?q=1",
        ] {
            assert!(!Urls::new(text).has("https://a.example/x?q=1"), "{text}");
        }
    }

    #[test]
    fn a_named_host_means_all_of_it_and_a_url_what_is_below() {
        let said = Urls::new(
            "go to www.a.example and https://b.example/docs/1, not to ann@c.example or notes.md",
        );
        for key in [
            "https://www.a.example/any?x=1",
            "http://www.a.example/",
            "https://b.example/docs/1/2",
            "https://b.example/docs/1?p=2",
        ] {
            assert!(said.covers(key), "{key}");
        }
        for key in [
            "https://a.example/",
            "https://www.a.example:8443/",
            "https://b.example/docs/12",
            "https://b.example/",
            "https://b.example/docs/../x",
            "https://c.example/",
            "https://notes.md/",
            "wss://www.a.example/",
            "nonsense",
        ] {
            assert!(!said.covers(key), "{key}");
        }
        assert!(!said.has("https://www.a.example/any"));
    }
}
