//! Kinds that reach people and accounts.

use std::collections::HashSet;

use bytes::Bytes;
use holdpoint::item::Arguments;
use holdpoint::layers::egress::read_domain;
use holdpoint::layers::recipients::{Address, judge, read_iban, read_list, read_phone};
use holdpoint::policy::{List, Permit, Plus, RecipientKind, RecipientRule, Region, Selector};
use serde_json::Value;

use super::vectors::{Decided, texts};

/// Judges arguments, as they are written in the file, by one rule.
pub fn decide(kind: &str, policy: &Value, input: &str) -> Decided {
    let kind = match kind {
        "email" => RecipientKind::Email,
        "email_raw" => RecipientKind::RawEmail,
        "phone" => RecipientKind::Phone,
        "iban" => RecipientKind::Iban,
        "chat" => RecipientKind::Chat,
        "calendar" => RecipientKind::Calendar,
        "share" => RecipientKind::Share,
        _ => return Err(format!("there is no kind `{kind}`")),
    };
    let args = Arguments::read(Bytes::copy_from_slice(input.as_bytes()));
    let args = args.map_err(|error| format!("the input: {error}"))?;
    let judged = judge(&rule(kind, policy)?, &list(policy)?, &args);
    Ok(judged.map_err(|objection| objection.code.as_str()))
}

fn rule(kind: RecipientKind, policy: &Value) -> Result<RecipientRule, String> {
    let places = match kind {
        RecipientKind::Share => vec![String::new()],
        RecipientKind::RawEmail => vec!["/raw".to_owned()],
        _ => {
            let fields = texts(policy, "fields")?;
            let place = |field: &String| {
                let bare = field.trim_start_matches("$.").replace("[*]", ".*");
                format!("/{}", bare.replace('.', "/"))
            };
            fields.iter().map(place).collect()
        }
    };
    let at: Result<_, _> = places.iter().map(|place| Selector::parse(place)).collect();
    let mut rule = RecipientRule::new("vector", at?, kind);
    if policy["plus"] == "fold" {
        rule.plus = Plus::Fold;
    }
    if let Some(region) = policy["default_region"].as_str() {
        let known = Region::named(region);
        rule.region = Some(known.ok_or_else(|| format!("there is no region `{region}`"))?);
    }
    for (permit, key, _) in Permit::SWITCHES {
        if policy[key] == true {
            rule.permits.insert(permit);
        }
    }
    Ok(rule)
}

/// Entries in the form in which recipients are compared; one that cannot be read allows nobody.
fn list(policy: &Value) -> Result<List, String> {
    let set = |key: &str, read: fn(&str) -> Option<String>| -> Result<HashSet<String>, String> {
        Ok(texts(policy, key)?
            .iter()
            .filter_map(|text| read(text))
            .collect())
    };
    let domain = |text: &str| read_domain(text).ok();
    Ok(List {
        emails: set("addresses", |text| {
            let read = read_list(text).ok()?;
            read.first().map(Address::to_key)
        })?,
        email_domains: set("domains", domain)?,
        email_subdomains_of: set("subdomains_of", domain)?,
        share_domains: set("domains", domain)?,
        phones: set("numbers", |text| read_phone(text, None).ok().flatten())?,
        accounts: set("ibans", |text| read_iban(text).ok())?,
        chats: ids(policy)?,
        ..List::default()
    })
}

/// Ids, as texts or as integers.
fn ids(policy: &Value) -> Result<HashSet<String>, String> {
    let Some(ids) = policy.get("ids") else {
        return Ok(HashSet::new());
    };
    let ids = ids.as_array().ok_or("`ids` is not a list")?;
    let one = |id: &Value| match id {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        _ => Err("`ids` holds what is no id".to_owned()),
    };
    ids.iter().map(one).collect()
}
