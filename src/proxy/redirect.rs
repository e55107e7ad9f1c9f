//! Where an upstream's redirect leads: an item, for a client follows it by itself, past the proxy.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use url::Url;

use super::refuse::Refused;
use crate::item::EgressTarget;
use crate::protocols::Refusal;
use crate::verdict::{Finding, Reason};

/// What an answer's head says of another place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Redirect {
    /// Nothing, or nothing that clients follow.
    None,
    /// Another path of the same host, as the text of the header has it.
    Here(EgressTarget),
    /// A place with a host of its own, or one that readers see differently.
    Elsewhere(EgressTarget),
    /// Two places: clients differ in which they follow.
    Ambiguous,
}

/// Reads the head of an answer to a request of `method` for `base`, an absolute URL.
pub(crate) fn redirect(
    status: StatusCode,
    headers: &HeaderMap,
    base: &str,
    method: &str,
) -> Redirect {
    if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
        return Redirect::None;
    }
    let mut locations = headers.get_all(header::LOCATION).iter();
    let location = match (locations.next(), locations.next()) {
        (None, _) => return Redirect::None,
        (Some(_), Some(_)) => return Redirect::Ambiguous,
        (Some(location), None) => String::from_utf8_lossy(location.as_bytes()),
    };
    let (url, here) = absolute(base, &location);
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let target = EgressTarget {
        authority: rest.get(..end).unwrap_or_default().into(),
        url: Some(Arc::from(&*url)),
        // RFC 9110 section 15.4.4: the other place is asked with GET.
        method: if status == StatusCode::SEE_OTHER {
            "GET"
        } else {
            method
        }
        .into(),
        body: None,
    };
    if here {
        Redirect::Here(target)
    } else {
        Redirect::Elsewhere(target)
    }
}

/// What the agent is told where the place is not one that the policy allows.
pub(crate) fn refusal(finding: &Finding) -> Refused {
    let mut refusal = Refusal::of(finding, None);
    if finding.reason != Reason::Undecided {
        let message = "The answer leads to another place, which the policy does not allow, so it was not passed on. The request was carried out; retrying does not help.";
        message.clone_into(&mut refusal.message);
    }
    Box::new(refusal)
}

/// The place as a whole URL, where it can be made so without guessing, and whether it has no host of its own. What readers see
/// differently stays as it is, for the matcher to refuse.
fn absolute<'t>(base: &str, text: &'t str) -> (Cow<'t, str>, bool) {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\' || c == '\u{fffd}';
    let begins = text.split(['/', '?', '#']).next().unwrap_or_default();
    if text.contains(odd) || begins.contains(':') {
        return (Cow::Borrowed(text), false);
    }
    if let Some(rest) = text.strip_prefix("//") {
        let scheme = base.split_once(':').map_or("http", |(scheme, _)| scheme);
        return (Cow::Owned(format!("{scheme}://{rest}")), false);
    }
    match Url::parse(base).and_then(|base| base.join(text)) {
        Ok(url) => (Cow::Owned(url.into()), true),
        Err(_) => (Cow::Borrowed(text), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, locations: &[&str]) -> Redirect {
        let mut headers = HeaderMap::new();
        for location in locations {
            let value = http::HeaderValue::from_bytes(location.as_bytes()).unwrap();
            headers.append(header::LOCATION, value);
        }
        let status = StatusCode::from_u16(status).unwrap();
        redirect(status, &headers, "https://a.example/x/y?q", "POST")
    }

    fn target(authority: &str, url: &str, method: &str) -> EgressTarget {
        EgressTarget {
            authority: authority.into(),
            url: Some(url.into()),
            method: method.into(),
            body: None,
        }
    }

    #[test]
    fn a_place_is_made_whole_where_readers_agree() {
        for (location, url) in [
            ("/z", "https://a.example/z"),
            ("z?b=:", "https://a.example/x/z?b=:"),
            ("?b", "https://a.example/x/y?b"),
            ("../../z", "https://a.example/z"),
        ] {
            assert_eq!(
                of(302, &[location]),
                Redirect::Here(target("a.example", url, "POST")),
                "{location}"
            );
        }
        for (location, authority, url) in [
            ("http://b.example/", "b.example", "http://b.example/"),
            ("//b.example:1/z", "b.example:1", "https://b.example:1/z"),
            ("HTTP://u@b.example", "u@b.example", "HTTP://u@b.example"),
            // Odd forms stay as they are.
            ("/\\b.example", "", "/\\b.example"),
            ("http:/b.example", "", "http:/b.example"),
            ("https:b.example", "", "https:b.example"),
            ("\thttps://b.example", "b.example", "\thttps://b.example"),
            ("javascript:x", "", "javascript:x"),
        ] {
            assert_eq!(
                of(307, &[location]),
                Redirect::Elsewhere(target(authority, url, "POST")),
                "{location}"
            );
        }
        assert_eq!(
            of(303, &["/z"]),
            Redirect::Here(target("a.example", "https://a.example/z", "GET"))
        );
    }

    #[test]
    fn only_a_redirect_with_one_place_is_one() {
        assert_eq!(of(302, &[]), Redirect::None);
        assert_eq!(of(304, &["https://b.example"]), Redirect::None);
        assert_eq!(of(201, &["https://b.example"]), Redirect::None);
        assert_eq!(of(302, &["/a", "/a"]), Redirect::Ambiguous);
    }
}
