//! The head of a request to the forward proxy: the two forms of target that a proxy takes, and what of the headers goes on.

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::uri::Scheme;
use http::{Method, Version};

use crate::item::EgressTarget;
use crate::layers::egress::{Head, Host, Target, read_authority};
use crate::proxy::admission::{not_looped, unambiguous};
use crate::proxy::headers::{HOP_BY_HOP, OVERRIDES, OWN, connection_names};
use crate::proxy::refuse::{self, ErrorCode};
use crate::settings::{SessionSource, Settings};

/// What is asked for, as it came: the item that is judged.
pub(super) fn target(parts: &Parts) -> Result<EgressTarget, &'static ErrorCode> {
    let authority = parts.uri.authority().ok_or(&refuse::PROXY_FORM_INVALID)?;
    let connect = parts.method == Method::CONNECT;
    let whole = if connect {
        // Authority form, and always with a port (RFC 9112 section 3.2.3).
        parts.uri.scheme().is_none() && authority.port().is_some()
    } else {
        parts.uri.scheme() == Some(&Scheme::HTTP)
    };
    if !whole || authority.as_str().contains('@') {
        return Err(&refuse::PROXY_FORM_INVALID);
    }
    Ok(EgressTarget {
        authority: authority.as_str().into(),
        url: (!connect).then(|| parts.uri.to_string().into()),
        method: parts.method.as_str().into(),
        body: None,
    })
}

/// Refuses a head that two readers may take for different requests.
pub(super) fn check(parts: &Parts, pseudonym: &str) -> Result<(), &'static ErrorCode> {
    // First: the other check calls a second `Host` a doubled header.
    host(parts)?;
    unambiguous(parts)?;
    let headers = &parts.headers;
    let length = headers.get(header::CONTENT_LENGTH);
    let bodied = headers.contains_key(header::TRANSFER_ENCODING)
        || length.is_some_and(|length| length.as_bytes() != b"0");
    if parts.method == Method::CONNECT && bodied {
        // To some readers the first bytes of the tunnel.
        return Err(&refuse::FRAMING_INVALID);
    }
    let named = connection_names(headers);
    let taken = [
        "host",
        "authorization",
        "content-length",
        "transfer-encoding",
        "cookie",
        "via",
    ];
    if taken.iter().any(|name| named.contains(*name)) {
        return Err(&refuse::CONNECTION_INVALID);
    }
    not_looped(headers, pseudonym)
}

/// One `Host` that leads where the target does. HTTP/1.0 has none.
fn host(parts: &Parts) -> Result<(), &'static ErrorCode> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| &refuse::HOST_INVALID)?,
        (None, _) if parts.version == Version::HTTP_10 => return Ok(()),
        _ => return Err(&refuse::HOST_INVALID),
    };
    let scheme = if parts.method == Method::CONNECT {
        "https"
    } else {
        "http"
    };
    let authority = parts.uri.authority().ok_or(&refuse::PROXY_FORM_INVALID)?;
    let read = |text| read_authority(scheme, text);
    match (read(host), read(authority.as_str())) {
        (Ok(host), Ok(target)) if host == target => Ok(()),
        // What the matcher cannot read it refuses by itself, with its reason.
        (_, Err(_)) if host.eq_ignore_ascii_case(authority.as_str()) => Ok(()),
        _ => Err(&refuse::HOST_INVALID),
    }
}

/// The head as the matcher takes it.
pub(super) fn matcher<'p>(parts: &'p Parts, target: &'p EgressTarget) -> Head<'p> {
    let headers = parts.headers.iter();
    Head {
        method: parts.method.as_str(),
        target: target.url.as_deref().unwrap_or(&target.authority),
        headers: headers
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect(),
    }
}

/// The headers for the peer: none that is for one connection or for the proxy alone, none from which frameworks take another
/// method or path than was judged.
pub(super) fn outgoing(
    parts: &Parts,
    to: &Target,
    settings: &Settings,
    pseudonym: &str,
) -> HeaderMap {
    let came = &parts.headers;
    let named = connection_names(came);
    let session = match &settings.session {
        SessionSource::Header(name) => Some(name),
        SessionSource::Fixed(_) | SessionSource::Token => None,
    };
    let mut headers = HeaderMap::with_capacity(came.len() + 2);
    if let Ok(host) = HeaderValue::from_str(&authority(to)) {
        headers.insert(header::HOST, host);
    }
    for (name, value) in came {
        let dashed = name.as_str().replace('_', "-");
        let dashed = dashed.as_str();
        let stays = HOP_BY_HOP.contains(&dashed)
            || OVERRIDES.contains(&dashed)
            || matches!(dashed, "host" | "expect" | "http2-settings")
            || named.contains(name.as_str())
            || dashed.starts_with(OWN)
            || dashed.starts_with("proxy-")
            || session.is_some_and(|session| session == dashed);
        if !stays {
            headers.append(name.clone(), value.clone());
        }
    }
    let version = if parts.version == Version::HTTP_10 {
        "1.0"
    } else {
        "1.1"
    };
    if let Ok(via) = HeaderValue::from_str(&format!("{version} {pseudonym}")) {
        headers.append(header::VIA, via);
    }
    headers
}

fn authority(to: &Target) -> String {
    match (&to.host, to.port) {
        (host, None) => host.to_string(),
        (host, Some(port)) => format!("{host}:{port}"),
    }
}

/// The peer's headers for the agent. Its body passes as it came, so what is said of it stays.
pub(super) fn returning(came: &HeaderMap) -> HeaderMap {
    let named = connection_names(came);
    let rechunked = came.contains_key(header::TRANSFER_ENCODING);
    let mut headers = HeaderMap::with_capacity(came.len());
    for (name, value) in came {
        let text = name.as_str();
        // `Alt-Svc` and `Refresh` lead a client elsewhere, unseen.
        let stays = HOP_BY_HOP.contains(&text)
            || matches!(text, "alt-svc" | "refresh")
            || (rechunked && *name == header::CONTENT_LENGTH)
            || (named.contains(text)
                && !matches!(text, "content-type" | "content-encoding" | "location"))
            || text.starts_with(OWN)
            || text.starts_with("proxy-");
        if !stays {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

/// Host and port of what is asked for, where the matcher's own reading is not to be had: a name that a layer in shadow lets
/// pass.
pub(super) fn place(target: &EgressTarget) -> Option<(Host, u16)> {
    let (scheme, default) = if target.url.is_some() {
        ("http", 80)
    } else {
        ("https", 443)
    };
    let read = read_authority(scheme, &target.authority).ok()?;
    Some((read.host, read.port.unwrap_or(default)))
}
