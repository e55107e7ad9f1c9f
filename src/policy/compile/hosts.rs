//! Entries of `hosts`: names, wildcards and addresses, with ports and paths.

use std::net::Ipv6Addr;

use super::shared;
use crate::layers::egress::{Entry, Pattern};
use crate::source::Field;

pub(super) fn entry(field: &Field<'_>) -> Option<Entry> {
    let text = field.text()?;
    let address = text.parse::<Ipv6Addr>().is_ok();
    if address
        || ["://", "@", "?", "#", "\\"]
            .iter()
            .any(|part| text.contains(part))
    {
        let fault = if address {
            "needs brackets"
        } else {
            "is more than a host"
        };
        field.error(format!("`{text}` {fault}"), host_help(text));
        return None;
    }
    let entry = match Entry::read(text) {
        Ok(entry) => entry,
        Err(denied) => {
            field.error(
                format!("`{text}` is not a host: {}", denied.why),
                "write `api.example.com`, `api.example.com:8443`, `api.example.com/v1`, `*.example.com`, `192.0.2.1`, `[2001:db8::1]` or `10.0.0.0/8`",
            );
            return None;
        }
    };
    if let Pattern::Below(domain) = &entry.pattern
        && !domain.contains('.')
    {
        field.error(
            format!("`{text}` allows a whole top-level domain"),
            format!("name the domain below it, such as `*.example.{domain}`"),
        );
        return None;
    }
    if let Some(shared) = shared::warning(&entry) {
        field.warn(shared.message, shared.help);
    }
    Some(entry)
}

/// What to write instead of a URL or a bare IPv6 address.
fn host_help(text: &str) -> String {
    let (scheme, after) = text.split_once("://").unwrap_or(("", text));
    let after = after.split(['?', '#', '\\']).next().unwrap_or_default();
    let after = after.rsplit('@').next().unwrap_or_default();
    if after.parse::<Ipv6Addr>().is_ok() {
        return format!("write it in brackets: \"[{after}]\"");
    }
    let slash = after.find('/').unwrap_or(after.len());
    let (authority, path) = after.split_at_checked(slash).unwrap_or((after, ""));
    let own = if scheme == "http" { ":80" } else { ":443" };
    let host = authority.strip_suffix(own).unwrap_or(authority);
    let host = host.strip_suffix(':').unwrap_or(host);
    if host.is_empty() {
        return "write a host such as `api.example.com`".to_owned();
    }
    let path = path.trim_end_matches('/');
    format!(
        "write only the host, with its path if only that is meant: `{host}{path}`; schemes stand in the rule"
    )
}
