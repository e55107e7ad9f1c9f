//! Kinds that reach people and accounts.

use bytes::Bytes;
use holdpoint::item::Arguments;
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
    for (key, permit) in [
        ("allow_guest_invite", Permit::GuestInvite),
        ("allow_public", Permit::Public),
        ("allow_anyone", Permit::Anyone),
        ("allow_ownership_transfer", Permit::OwnershipTransfer),
    ] {
        if switch(policy, key, false)? {
            rule.permits.insert(permit);
        }
    }
    let lower = |key| -> Result<_, String> {
        let texts = texts(policy, key)?;
        Ok(texts.into_iter().map(|text| text.to_ascii_lowercase()))
    };
    let accounts = texts(policy, "ibans")?.into_iter();
    let domains = || lower("domains");
    let mut list = List {
        emails: lower("addresses")?.collect(),
        email_domains: domains()?.collect(),
        email_subdomains_of: lower("subdomains_of")?.collect(),
        phones: texts(policy, "numbers")?.into_iter().collect(),
        accounts: accounts.map(|iban| iban.replace(' ', "").to_ascii_uppercase()).collect(),
        chats: texts(policy, "ids")?.into_iter().collect(),
        ..List::default()
    };
    if of_kind == RecipientKind::Share {
        list.share_domains = domains()?.collect();
    }
    // Arguments that are not strict JSON, or no map, are refused before any layer sees them.
    let Ok(args) = Arguments::read(Bytes::copy_from_slice(input.as_bytes())) else {
        return Ok(Err("malformed_recipient"));
    };
    Ok(recipients::judge(&rule, &list, &args).map_err(|objection| objection.code.as_str()))
}
