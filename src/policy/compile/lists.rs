//! Named allowlists, each entry in the one form in which layers compare it.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use email_address::{EmailAddress, Options};
use url::Host;

use crate::layers::recipients::{read_chat, read_integer, read_phone};
use crate::names::ListName;
use crate::policy::List;
use crate::source::{Field, Fields, Kind};

/// Every list by name; `None` where it is broken, so that its users are still checked.
pub(super) fn lists(field: &Field<'_>) -> HashMap<ListName, Option<List>> {
    let entries = field.entries().unwrap_or_default();
    let named = entries.iter().map(|(key, value)| {
        key.name();
        (ListName::from(key.text()), list(value))
    });
    named.collect()
}

fn list(field: &Field<'_>) -> Option<List> {
    let mut fields = field.map()?;
    let hosts = kind(&mut fields, "hosts", host_pattern);
    let emails = kind(&mut fields, "emails", email);
    let email_domains = kind(&mut fields, "email_domains", email_domain);
    let email_subdomains_of = kind(&mut fields, "email_subdomains_of", email_domain);
    let share_domains = kind(&mut fields, "share_domains", email_domain);
    let accounts = kind(&mut fields, "accounts", account);
    let phones = kind(&mut fields, "phones", phone);
    let chats = kind(&mut fields, "chats", chat);
    let mut list = List {
        emails: emails?.into_iter().collect(),
        email_domains: email_domains?.into_iter().collect(),
        email_subdomains_of: email_subdomains_of?.into_iter().collect(),
        share_domains: share_domains?.into_iter().collect(),
        accounts: accounts?.into_iter().collect(),
        phones: phones?.into_iter().collect(),
        chats: chats?.into_iter().collect(),
        ..List::default()
    };
    for pattern in hosts? {
        match pattern {
            Pattern::Exact(host) => {
                list.hosts.insert(host);
            }
            Pattern::Below(domain) => list.host_suffixes.push(domain),
        }
    }
    if list == List::default() {
        field.error(
            format!("the list `{}` is empty", last(field.path())),
            "give it `hosts`, `emails`, `email_domains`, `email_subdomains_of`, `share_domains`, `phones`, `chats` or `accounts`",
        );
        return None;
    }
    Some(list)
}

/// The entries of one kind; nothing if one of them is broken.
fn kind<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: fn(&Field<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(field) = fields.optional(key) else {
        return Some(Vec::new());
    };
    let read: Vec<_> = field.filled_list()?.iter().map(read).collect();
    read.into_iter().collect()
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

enum Pattern {
    Exact(String),
    Below(String),
}

fn host_pattern(field: &Field<'_>) -> Option<Pattern> {
    let text = field.text()?;
    let Some(domain) = text.strip_prefix("*.") else {
        return host_and_port(field, text).map(Pattern::Exact);
    };
    if domain.contains([':', '/']) {
        field.error(
            format!("`{text}`: a wildcard has no port and no path"),
            "write `*.` and a domain; name a host with a port by itself",
        );
        return None;
    }
    let domain = host(field, domain)?;
    if !domain.contains('.') {
        field.error(
            format!("`{text}` allows a whole top-level domain"),
            format!("name the domain below it, such as `*.example.{domain}`"),
        );
        return None;
    }
    if Host::parse(&domain).is_ok_and(|host| !matches!(host, Host::Domain(_))) {
        field.error(
            format!("`{text}`: an address has nothing below it"),
            "name each address",
        );
        return None;
    }
    Some(Pattern::Below(domain))
}

/// `host` or `host:port`, as the egress layer compares it: A-label, lower case, no trailing dot; IPv6 in brackets; the port
/// only where it is not the scheme's own.
fn host_and_port(field: &Field<'_>, text: &str) -> Option<String> {
    let more = ["://", "/", "@", "?", "#", "\\"];
    let address = text.parse::<Ipv6Addr>().is_ok();
    if address || more.iter().any(|part| text.contains(part)) {
        let fault = if address {
            "needs brackets"
        } else {
            "is more than a host"
        };
        field.error(format!("`{text}` {fault}"), host_help(text));
        return None;
    }
    let (bare, port) = split_port(text);
    let host = host(field, bare)?;
    let Some(port) = port else {
        return Some(host);
    };
    match port.parse::<u16>() {
        Ok(80 | 443) => {
            let help = format!("write `{host}`: the ports 80 and 443 go without saying");
            field.error(format!("`{text}` would never match"), help);
        }
        Ok(port) if port > 0 => return Some(format!("{host}:{port}")),
        _ => field.error(
            format!("`{port}` is not a port"),
            "write a number from 1 to 65535, or only the host",
        ),
    }
    None
}

fn host(field: &Field<'_>, text: &str) -> Option<String> {
    if text.contains('*') {
        field.error(
            format!("`{text}` is not a host"),
            "a wildcard is `*.` before a domain, such as `*.example.com`; it is the only one",
        );
        return None;
    }
    let parsed = Host::parse(text.strip_suffix('.').unwrap_or(text));
    if parsed.is_err() {
        field.error(
            format!("`{text}` is not a host"),
            "write a host such as `api.example.com`, `192.0.2.1` or `[2001:db8::1]`",
        );
    }
    parsed.ok().map(|host| host.to_string())
}

/// What stands before and after the colon of a port, outside brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((bare, port)) if !port.contains(']') => (bare, Some(port)),
        _ => (text, None),
    }
}

/// What to write instead of a URL or a bare IPv6 address.
fn host_help(text: &str) -> String {
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#', '\\']).next();
    let authority = authority.unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.parse::<Ipv6Addr>().is_ok() {
        return format!("write it in brackets: \"[{host}]\"");
    }
    let host = match split_port(host) {
        (bare, Some("" | "80" | "443")) => bare,
        _ => host,
    };
    if host.is_empty() {
        return "write a host such as `api.example.com`".to_owned();
    }
    format!("write only the host: `{host}`; scheme and path are not compared")
}

/// Local part lower-cased in ASCII, domain as A-label.
fn email(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let options = Options::default()
        .without_display_text()
        .without_domain_literal();
    let parsed = EmailAddress::parse_with_options(text, options).ok();
    let plain = parsed.filter(|address| !address.local_part().starts_with('"'));
    let domain = plain.as_ref().and_then(|a| domain(a.domain()));
    let (Some(address), Some(domain)) = (&plain, domain) else {
        let help = match text.strip_prefix('@') {
            Some(domain) => format!("for a whole domain write `email_domains: [{domain}]`"),
            None => "write one plain address such as `ann@example.com`".to_owned(),
        };
        field.error(format!("`{text}` is not an e-mail address"), help);
        return None;
    };
    let local = address.local_part().to_ascii_lowercase();
    Some(format!("{local}@{domain}"))
}

fn email_domain(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let found = domain(text);
    if found.is_none() {
        let bare = text
            .trim_start_matches(['*', '.', '@'])
            .trim_end_matches('.');
        let help = match text.rsplit_once('@') {
            _ if text.starts_with("*.") => {
                format!("for every subdomain write `email_subdomains_of: [{bare}]`")
            }
            Some((local, _)) if !local.is_empty() => {
                format!("for one address write `emails: [{text}]`")
            }
            _ if domain(bare).is_some() => format!("write `{bare}`"),
            _ => "write a domain such as `example.com`".to_owned(),
        };
        field.error(format!("`{text}` is not an e-mail domain"), help);
    }
    found
}

fn domain(text: &str) -> Option<String> {
    // No address has a domain with an empty label: an entry like `example.com.` would never match.
    let labels = text.contains('.') && text.split('.').all(|label| !label.is_empty());
    let fine = labels && !text.contains(['*', '@', ':', '/', '[']);
    match Host::parse(text) {
        Ok(Host::Domain(domain)) if fine => Some(domain),
        _ => None,
    }
}

/// Without spaces, upper case.
fn account(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let account: String = text
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_ascii_uppercase())
        .collect();
    if account.is_empty() || !account.chars().all(|c| c.is_ascii_graphic()) {
        field.error(
            format!("`{text}` is not an account"),
            "write it in printable ASCII, with spaces only where the bank does",
        );
        return None;
    }
    Some(account)
}

/// E.164.
fn phone(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    match read_phone(text, None) {
        Ok(Some(number)) => Some(number),
        _ => {
            field.error(
                format!("`{text}` is not a phone number in international form"),
                "write `+`, the calling code and the number, such as `+44 7700 900123`, in quotes",
            );
            None
        }
    }
}

/// As it stands; an integer by its digits.
fn chat(field: &Field<'_>) -> Option<String> {
    if let Kind::Number(number) = &field.node().kind {
        // YAML reads no more than 64 bits exactly, and drops leading zeros.
        match read_integer(&number.to_string()) {
            Ok(id) if id == field.node().source() => return Some(id),
            _ => {}
        }
        field.error("this number is not an exact id", "write the id in quotes");
        return None;
    }
    let text = field.text()?;
    match read_chat(text) {
        Ok(Some(id)) => Some(id),
        _ => {
            field.error(
                format!("`{text}` is not the id of a chat"),
                "write the id as the service gives it, without white space around",
            );
            None
        }
    }
}
