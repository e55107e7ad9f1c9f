//! Where people, webhooks and identity providers are.

use url::{Host, Url};

use super::upstreams::is_local;
use crate::layers::egress::{is_private, is_public_name};
use crate::source::Field;

/// Nobody on the way can read or change it.
pub(super) fn is_safe(url: &Url) -> bool {
    let safe = url.scheme() == "https" || (url.scheme() == "http" && is_local(url));
    safe && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}

/// A URL that nobody on the way reads.
pub(super) fn safe_url(field: &Field<'_>) -> Option<Url> {
    let url = Url::parse(field.text()?).ok().filter(is_safe);
    if url.is_none() {
        field.error(
            format!("`{}` is not a URL with `https`", field.path()),
            "write the whole URL with `https`; `http` is for this machine alone",
        );
    }
    url
}

/// Browsers keep the cookie of a log-in (`__Host-`) only for `https`, or on this machine.
pub(super) fn public_url(field: &Field<'_>) -> Option<Url> {
    let url = safe_url(field)?;
    if url.path() != "/" || url.query().is_some() {
        field.error(
            format!("`{}` has a path", field.path()),
            "give the approver listener a host name of its own, such as `https://approve.shop.example`",
        );
        return None;
    }
    Some(url)
}

/// Whether a URL's host could be a public one. What its name leads to is looked at when it is connected to.
pub(super) fn is_public(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_public_name(name),
        Some(Host::Ipv4(address)) => !is_private(address.into()),
        Some(Host::Ipv6(address)) => !is_private(address.into()),
        None => false,
    }
}
