//! A string that should be one URL, or a host: the value of a key that says so.

use super::code::Code;
use super::deny;
use super::find::{find, is_active, is_harmless};
use super::run::Found;
use super::target::{BLANK, Url, network};

/// Longest key that is read for its words, in bytes: it is read again for every element under it.
const LONGEST_KEY: usize = 256;

/// Words of a key that say that its value is a URL or a host.
const URL_WORDS: [&str; 17] = [
    "url",
    "urls",
    "uri",
    "uris",
    "href",
    "link",
    "links",
    "webhook",
    "webhooks",
    "website",
    "hostname",
    "hostnames",
    "host",
    "hosts",
    "domain",
    "domains",
    "endpoint",
];

/// Whether a key says that its value is a URL or a host: `url`, `image_url`, `callbackUri`, `host`.
pub(super) fn names_a_url(key: &str) -> bool {
    if key.len() > LONGEST_KEY {
        return false;
    }
    let mut words = String::with_capacity(key.len() + 4);
    let mut lower = false;
    for c in key.chars() {
        if c.is_uppercase() && lower {
            words.push(' ');
        }
        lower = c.is_lowercase();
        words.push(if c.is_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            ' '
        });
    }
    words.split(' ').any(|word| URL_WORDS.contains(&word))
}

/// Reads a string that should be one URL: absolute, scheme-relative, a path, or a name without scheme. A list of absolute
/// URLs, separated by white space or commas, is taken apart.
pub(super) fn whole(text: &str) -> Vec<Found> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let one = |bare, url| {
        vec![Found {
            span: 0..text.len(),
            bare,
            url,
        }]
    };
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        if !starts_with_scheme(text.trim_start()) {
            return find(text);
        }
        let listed: Vec<_> = text
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|piece| !piece.is_empty())
            .map(Url::read)
            .collect();
        // One URL with blanks is no list, nor is one with something else behind.
        if listed.len() > 1 && listed.iter().all(Result::is_ok) {
            return listed.into_iter().flat_map(|url| one(false, url)).collect();
        }
        return one(false, Err(BLANK));
    }
    if let Some(path) = text.strip_prefix(['/', '\\']) {
        return match path.strip_prefix(['/', '\\']) {
            Some(_) => one(true, Url::read(&format!("https:{text}"))),
            None => Vec::new(),
        };
    }
    if text.starts_with(['#', '?']) {
        return Vec::new();
    }
    if let Some((scheme, rest)) = text.split_once(':')
        && !scheme.contains(['.', '/', '@', '%'])
    {
        if is_harmless(scheme) {
            return Vec::new();
        }
        let port = rest.starts_with(|c: char| c.is_ascii_digit());
        if !port || network(scheme).is_some() {
            return one(false, Url::read(text));
        }
    }
    let lower = text.to_ascii_lowercase();
    let local = deny::is_loopback_name(&lower) || deny::is_metadata_name(&lower);
    // One word is a label more often than a host of the local network.
    if !text.contains(['.', ':', '/', '@', '%']) && !local {
        return Vec::new();
    }
    let bare = one(true, Url::read_bare(text));
    // Also a URL whose colon and slashes are escaped.
    let mut hidden = find(text);
    hidden.retain(|found| {
        let url = found.url.as_ref();
        !found.bare && url.map_or_else(|denied| denied.code == Code::SchemeNotAllowed, |_| true)
    });
    if hidden.is_empty() { bare } else { hidden }
}

fn starts_with_scheme(text: &str) -> bool {
    text.split_once(':')
        .is_some_and(|(scheme, _)| network(scheme).is_some() || is_active(scheme))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_that_hold_urls_are_known_by_their_words() {
        for key in [
            "url",
            "URL",
            "image_url",
            "callbackUrl",
            "Webhook-URI",
            "href",
            "host",
            "target_host",
            "apiEndpoint",
            "domain",
        ] {
            assert!(names_a_url(key), "{key}");
        }
        for key in ["body", "curly", "linked", "hosting_plan", "origin", ""] {
            assert!(!names_a_url(key), "{key}");
        }
    }

    #[test]
    fn a_url_field_may_lack_its_scheme_and_nothing_else() {
        for (text, host) in [
            ("https://a.example/x", "a.example"),
            ("a.example/x", "a.example"),
            ("a.example:443", "a.example"),
            ("www.a.example", "www.a.example"),
            ("//a.example/x", "a.example"),
            ("localhost", "localhost"),
            ("Metadata", "metadata"),
            ("169.254.169.254", "169.254.169.254"),
        ] {
            let found = whole(text);
            let [Found { url: Ok(url), .. }] = &found[..] else {
                panic!("{text}: {found:?}")
            };
            assert_eq!(url.target.host.to_string(), host, "{text}");
        }
        for text in [
            "https://a.example\t/",
            "https://a.example /",
            " https://a.example/",
            "https://a.example/\n",
            "https:a.example",
            "/\\a.example",
            "\\\\a.example\\x",
            "a.example@b.example",
            "javascript:alert(1)",
            "data:,x",
            "https%3A%2F%2Fa.example%40b.example",
            "2130706433:80/x.y",
        ] {
            assert!(whole(text).iter().any(|found| found.url.is_err()), "{text}");
        }
        for text in [
            "",
            "home",
            "/orders/7",
            "#top",
            "?q=1",
            "mailto:bob@a.example",
        ] {
            assert_eq!(whole(text), [], "{text}");
        }
    }

    #[test]
    fn a_list_of_urls_and_a_sentence_are_taken_apart() {
        let list = whole("https://a.example/x, https://b.example\n");
        assert_eq!(list.iter().filter(|found| found.url.is_ok()).count(), 2);
        let sentence = whole("see https://a.example/x");
        assert_eq!(sentence.iter().filter(|found| found.url.is_ok()).count(), 1);
    }

    proptest! {
        #[test]
        fn reading_a_field_never_panics(text in "\\PC{0,40}") {
            whole(&text);
        }
    }
}
