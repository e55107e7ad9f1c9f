//! Where browsers reach the listener: which names it has, and from which pages forms come.

use http::{HeaderMap, HeaderName, header};
use url::{Host, Url};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names under which browsers come.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    url: Option<Url>,
}

impl Place {
    pub(crate) const fn new(url: Option<Url>) -> Self {
        Self { url }
    }

    /// A page of ours, for messages elsewhere; `None` where nobody has said under which name.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let url = self.url.as_ref()?.join(path.trim_start_matches('/'));
        url.ok().map(String::from)
    }

    /// Whether the request came under a name of ours: that of `url`, or without one of this machine. A name that leads here
    /// and is not ours belongs to somebody who wants a browser to take us for theirs. IP addresses cannot be rebound.
    pub(crate) fn is_ours(&self, headers: &HeaderMap) -> bool {
        let Some(host) = one(headers, &header::HOST) else {
            return false;
        };
        let Ok(asked) = Url::parse(&format!("http://{host}/")) else {
            return false;
        };
        match (asked.host(), self.url.as_ref().and_then(Url::host)) {
            (Some(Host::Domain("localhost") | Host::Ipv4(_) | Host::Ipv6(_)), _) => true,
            (Some(asked), Some(own)) => asked == own,
            _ => false,
        }
    }

    /// Whether a page of ours sent the request. Browsers say `Origin` with every POST.
    pub(crate) fn is_from_us(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(&SEC_FETCH_SITE)
            && one(headers, &SEC_FETCH_SITE) != Some("same-origin")
        {
            return false;
        }
        let Some(origin) = one(headers, &header::ORIGIN) else {
            return false;
        };
        if let Some(url) = &self.url
            && origin == url.origin().ascii_serialization()
        {
            return true;
        }
        // Without a proxy between: what the browser connected to is what the page came from.
        let host = one(headers, &header::HOST);
        let plain = origin.strip_prefix("http://");
        let authority = plain.or_else(|| origin.strip_prefix("https://"));
        self.is_ours(headers) && host.is_some() && authority == host
    }

    /// Whether another site led the browser here: its cookie stays at home then (`SameSite=Strict`).
    pub(crate) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
        matches!(
            one(headers, &SEC_FETCH_SITE),
            Some("cross-site" | "same-site")
        )
    }
}

/// The value of a header that comes once.
pub(crate) fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    /// Header fields, and what is said of them.
    type Case = (&'static [(&'static str, &'static str)], bool, bool);

    #[test]
    fn forms_come_from_our_own_pages() {
        let named = Place::new(Some("https://approve.example/".parse().unwrap()));
        let bare = Place::new(None);
        let cases: [Case; 11] = [
            (
                &[
                    ("host", "approve.example"),
                    ("origin", "https://approve.example"),
                ],
                true,
                false,
            ),
            (
                &[
                    ("host", "10.0.0.1:8081"),
                    ("origin", "https://approve.example"),
                ],
                true,
                false,
            ),
            (
                &[
                    ("host", "127.0.0.1:8081"),
                    ("origin", "http://127.0.0.1:8081"),
                ],
                true,
                true,
            ),
            (
                &[
                    ("host", "localhost:8081"),
                    ("origin", "http://localhost:8081"),
                ],
                true,
                true,
            ),
            (
                &[
                    ("host", "localhost:8081"),
                    ("origin", "http://localhost:3000"),
                ],
                false,
                false,
            ),
            (
                &[
                    ("host", "evil.example:8081"),
                    ("origin", "http://evil.example:8081"),
                ],
                false,
                false,
            ),
            (
                &[("host", "localhost:8081"), ("origin", "null")],
                false,
                false,
            ),
            (&[("host", "localhost:8081")], false, false),
            (
                &[
                    ("host", "localhost:1"),
                    ("origin", "http://localhost:1"),
                    ("sec-fetch-site", "cross-site"),
                ],
                false,
                false,
            ),
            (
                &[
                    ("host", "localhost:1"),
                    ("origin", "http://localhost:1"),
                    ("sec-fetch-site", "same-origin"),
                ],
                true,
                true,
            ),
            (
                &[
                    ("host", "localhost:1"),
                    ("origin", "http://localhost:1"),
                    ("origin", "http://evil"),
                ],
                false,
                false,
            ),
        ];
        for (pairs, with_name, without) in cases {
            let headers = headers(pairs);
            assert_eq!(named.is_from_us(&headers), with_name, "{pairs:?}");
            assert_eq!(bare.is_from_us(&headers), without, "{pairs:?}");
        }
    }

    #[test]
    fn links_stand_below_the_url() {
        let named = Place::new(Some("https://approve.example/".parse().unwrap()));
        let link = named.link("/tickets/tkt_1");
        assert_eq!(
            link.as_deref(),
            Some("https://approve.example/tickets/tkt_1")
        );
        assert_eq!(Place::new(None).link("/"), None);
    }
}
