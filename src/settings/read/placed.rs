//! Secrets that agents write as placeholders.

use std::collections::BTreeSet;

use http::HeaderValue;

use super::secrets::Secrets;
use super::{key_name, name};
use crate::names::{SecretName, UpstreamName};
use crate::settings::{PlacedSecret, SecretPlace};
use crate::source::{Field, did_you_mean};

/// Shortest value: a shorter one stands in answers by chance, and would be taken out of them.
const SHORTEST: usize = 8;

pub(super) fn placed(
    field: &Field<'_>,
    root: &Field<'_>,
    secrets: &Secrets<'_>,
) -> Option<Vec<PlacedSecret>> {
    let mut all = Vec::new();
    let mut whole = true;
    for (key, value) in field.entries()? {
        let name = key_name(&key).map(SecretName::from);
        match name.and_then(|name| one(name, &value, root, secrets)) {
            Some(secret) => all.push(secret),
            None => whole = false,
        }
    }
    whole.then_some(all)
}

fn one(
    name: SecretName,
    field: &Field<'_>,
    root: &Field<'_>,
    secrets: &Secrets<'_>,
) -> Option<PlacedSecret> {
    let mut fields = field.map()?;
    let source = fields.required("value_env");
    let value = source.as_ref().and_then(|field| secrets.get(field));
    let upstreams = fields
        .required("upstreams")
        .and_then(|field| upstreams(&field, root));
    let places = fields.optional_or("in", BTreeSet::from([SecretPlace::Header]), |field| {
        let words = SecretPlace::ALL.map(|place| (place.as_str(), place));
        let read: Vec<_> = field
            .filled_list()?
            .iter()
            .map(|f| f.choice(&words))
            .collect();
        read.into_iter().collect()
    });
    let value = value?;
    let fault = if value.0.len() < SHORTEST {
        Some("is shorter than 8 bytes")
    } else if HeaderValue::from_str(&value.0).is_err() {
        Some("has a line break or another control character")
    } else if value.0.contains("{{") {
        Some("looks like a placeholder itself")
    } else {
        None
    };
    if let Some(fault) = fault {
        source?.error(
            format!("the value of the secret `{name}` {fault}"),
            "set the variable to the whole secret as its service gave it",
        );
        return None;
    }
    Some(PlacedSecret {
        name,
        value,
        upstreams: upstreams?,
        places: places?,
    })
}

fn upstreams(field: &Field<'_>, root: &Field<'_>) -> Option<BTreeSet<UpstreamName>> {
    let all = root.peek("upstreams");
    let known = all.and_then(|all| all.keys()).unwrap_or_default();
    let mut named = BTreeSet::new();
    for entry in field.filled_list()? {
        let text = name(&entry)?;
        if !known.contains(&text) {
            entry.error(
                format!("there is no upstream `{text}`"),
                did_you_mean("upstreams", text, known.iter().copied()),
            );
            return None;
        }
        named.insert(UpstreamName::from(text));
    }
    Some(named)
}
