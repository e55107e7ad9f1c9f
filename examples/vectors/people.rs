//! Kinds that reach people and accounts.

use bytes::Bytes;
use holdpoint::item::Arguments;
use holdpoint::layers::egress::read_domain;
use holdpoint::layers::recipients;
use holdpoint::policy::{List, Permit, Plus, RecipientKind, RecipientRule, Region, Selector};
use serde_json::Value;

use super::vectors::{Decided, selectors, switch, text, texts};

/// What the policy allows, as the library's rule and list.
pub fn decide(kind: &str, policy: &Value, input: &str) -> Decided {
    let of_kind = match kind {
        "email" => RecipientKind::Email,
        "email_raw" => RecipientKind::RawEmail,
        "phone" => RecipientKind::Phone,
        "iban" => RecipientKind::Iban,
        "chat" => RecipientKind::Chat,
        "calendar" => RecipientKind::Calendar,
        "share" => RecipientKind::Share,
        _ => return Err(format!("there is no kind `{kind}`")),
    };
    let at = match of_kind {
        RecipientKind::RawEmail => vec![Selector::parse("/raw")?],
        RecipientKind::Share => vec![Selector::parse("")?],
        _ => selectors(policy, "fields")?,
    };
    let mut rule = RecipientRule::new("vector", at, of_kind);
    rule.plus = match policy.get("plus").and_then(Value::as_str) {
        None | Some("distinct") => Plus::Distinct,
        Some("fold") => Plus::Fold,
        Some(other) => return Err(format!("`plus` is `{other}`")),
    };
    if policy.get("default_region").is_some() {
        let region = text(policy, "default_region")?;
        let named = Region::named(region);
        rule.region = Some(named.ok_or_else(|| format!("there is no region `{region}`"))?);
    }
    for (permit, key, _) in Permit::SWITCHES {
        if switch(policy, key, false)? {
            rule.permits.insert(permit);
        }
    }
    let domains = |key| -> Result<Vec<String>, String> {
        texts(policy, key)?
            .iter()
            .map(|text| domain(text))
            .collect()
    };
    let accounts = texts(policy, "ibans")?.into_iter();
    let emails: Result<_, String> = texts(policy, "addresses")?
        .iter()
        .map(|text| email(text))
        .collect();
    let mut list = List {
        emails: emails?,
        email_domains: domains("domains")?.into_iter().collect(),
        email_subdomains_of: domains("subdomains_of")?.into_iter().collect(),
        phones: texts(policy, "numbers")?.into_iter().collect(),
        accounts: accounts
            .map(|iban| iban.replace(' ', "").to_ascii_uppercase())
            .collect(),
        chats: texts(policy, "ids")?.into_iter().collect(),
        ..List::default()
    };
    if of_kind == RecipientKind::Share {
        list.share_domains = domains("domains")?.into_iter().collect();
    }
    // Arguments that are not strict JSON, or no map, are refused before any layer sees them.
    let Ok(args) = Arguments::read(Bytes::copy_from_slice(input.as_bytes())) else {
        return Ok(Err("malformed_recipient"));
    };
    Ok(recipients::judge(&rule, &list, &args).map_err(|objection| objection.code.as_str()))
}

/// An entry of a list, as A-labels.
fn domain(text: &str) -> Result<String, String> {
    read_domain(text).map_err(|denied| format!("`{text}` is not a domain: {}", denied.why))
}

/// An entry of a list: the local part in lower case.
fn email(text: &str) -> Result<String, String> {
    let (local, of) = text
        .rsplit_once('@')
        .ok_or_else(|| format!("`{text}` is not an address"))?;
    Ok(format!("{}@{}", local.to_ascii_lowercase(), domain(of)?))
}
