//! Named allowlists, each entry in the one form in which layers compare it.

use std::collections::HashMap;

use email_address::{EmailAddress, Options};
use url::Host;

use super::hosts;
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
    let hosts = kind(&mut fields, "hosts", hosts::entry);
    let emails = kind(&mut fields, "emails", email);
    let email_domains = kind(&mut fields, "email_domains", email_domain);
    let email_subdomains_of = kind(&mut fields, "email_subdomains_of", email_domain);
    let share_domains = kind(&mut fields, "share_domains", email_domain);
    let accounts = kind(&mut fields, "accounts", account);
    let phones = kind(&mut fields, "phones", phone);
    let chats = kind(&mut fields, "chats", chat);
    let list = List {
        hosts: hosts?,
        emails: emails?.into_iter().collect(),
        email_domains: email_domains?.into_iter().collect(),
        email_subdomains_of: email_subdomains_of?.into_iter().collect(),
        share_domains: share_domains?.into_iter().collect(),
        accounts: accounts?.into_iter().collect(),
        phones: phones?.into_iter().collect(),
        chats: chats?.into_iter().collect(),
    };
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
    let number = read_phone(text, None).ok().flatten();
    if number.is_none() {
        field.error(
            format!("`{text}` is not a phone number in international form"),
            "write `+`, the calling code and the number, such as `+44 7700 900123`, in quotes",
        );
    }
    number
}

/// As it stands; an integer by its digits.
fn chat(field: &Field<'_>) -> Option<String> {
    if let Kind::Number(number) = &field.node().kind {
        // YAML reads no more than 64 bits exactly, and drops leading zeros.
        let id = read_integer(&number.to_string()).ok();
        let exact = id.filter(|id| id == field.node().source());
        if exact.is_none() {
            field.error("this number is not an exact id", "write the id in quotes");
        }
        return exact;
    }
    let text = field.text()?;
    let id = read_chat(text).ok().flatten();
    if id.is_none() {
        field.error(
            format!("`{text}` is not the id of a chat"),
            "write the id as the service gives it, without white space around",
        );
    }
    id
}
