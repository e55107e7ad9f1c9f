//! On whose behalf agents act, what ties a conversation together, and who may approve.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER_PERMISSIVE;
use http::HeaderName;

use super::default_session;
use super::secrets::Secrets;
use crate::names::SessionKey;
use crate::principal::Principal;
use crate::settings::{Approver, Principals, SessionSource};
use crate::source::{Field, Fields};

/// Who vouches for a principal of the config.
const ISSUER: &str = "config";

pub(super) fn principals(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<Principals> {
    let mut fields = field.map()?;
    match fields.exactly_one(&["fixed", "api_keys"])? {
        ("fixed", field) => {
            let mut fields = field.map()?;
            principal(&mut fields).map(Principals::Fixed)
        }
        (_, field) => api_keys(&field, secrets),
    }
}

fn principal(fields: &mut Fields<'_>) -> Option<Arc<Principal>> {
    let subject = fields.required("subject").and_then(|f| f.text());
    let tenant = fields.optional_or("tenant", "default", Field::text);
    let agent = fields.optional_or("agent", "default", Field::text);
    let scopes = fields.optional_or("scopes", BTreeSet::new(), |field| {
        let texts: Vec<_> = field.list()?.iter().map(Field::text).collect();
        texts.into_iter().map(|text| text.map(Arc::from)).collect()
    });
    Some(Arc::new(Principal {
        tenant: tenant?.into(),
        issuer: ISSUER.into(),
        subject: subject?.into(),
        agent: agent?.into(),
        scopes: scopes?,
    }))
}

fn api_keys(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<Principals> {
    let mut fields = field.map()?;
    let header = fields.optional_or("header", http::header::AUTHORIZATION, header);
    let mut keys = HashMap::new();
    let mut whole = true;
    for entry in fields.required("keys")?.filled_list()? {
        let Some(mut fields) = entry.map() else {
            whole = false;
            continue;
        };
        let key =
            fields
                .exactly_one(&["key_sha256", "key_env"])
                .and_then(|(key, field)| match key {
                    "key_env" => secrets.key(&field).map(|secret| sha256(&secret.0)),
                    _ => hex(&field),
                });
        let principal = principal(&mut fields);
        let (Some(key), Some(principal)) = (key, principal) else {
            whole = false;
            continue;
        };
        if keys.insert(key, principal).is_some() {
            entry.error(
                "an entry above has the same key",
                "give each principal a key of its own",
            );
        }
    }
    Some(Principals::ApiKeys {
        header: header?,
        keys: whole.then_some(keys)?,
    })
}

fn sha256(key: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    bytes
}

fn hex(field: &Field<'_>) -> Option<[u8; 32]> {
    let text = field.text()?;
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    if bytes.is_none() {
        // Perhaps the key itself: not in the message.
        field.error(
            format!(
                "`{}` is not a SHA-256 in 64 hexadecimal digits",
                field.path()
            ),
            "make it with `printf %s \"$KEY\" | sha256sum`; never write the key itself",
        );
    }
    bytes
}

/// Headers that belong to the connection or the message, and carry nothing of an agent.
const RESERVED: [&str; 11] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn header(field: &Field<'_>) -> Option<HeaderName> {
    let text = field.text()?;
    let header = text.to_ascii_lowercase().parse::<HeaderName>().ok();
    let Some(header) = header.filter(|header| !RESERVED.contains(&header.as_str())) else {
        field.error(
            format!("`{text}` cannot be used here as a header"),
            "write a header's name, such as `authorization` or `x-api-key`",
        );
        return None;
    };
    Some(header)
}

pub(super) fn session(
    fields: &mut Fields<'_>,
    principals: Option<&Principals>,
) -> Option<SessionSource> {
    let Some(field) = fields.optional("session") else {
        return Some(default_session());
    };
    let mut fields = field.map()?;
    match fields.exactly_one(&["header", "fixed"])? {
        ("header", field) => {
            let header = header(&field)?;
            if let Some(Principals::ApiKeys { header: key, .. }) = principals
                && *key == header
            {
                field.error(
                    format!("`{header}` already carries the API key"),
                    "name another header, such as `holdpoint-session`",
                );
                return None;
            }
            Some(SessionSource::Header(header))
        }
        (_, field) => {
            let key = field.text()?;
            if matches!(principals, Some(Principals::ApiKeys { .. })) {
                field.error(
                    "one fixed session for several principals would mix their conversations",
                    "use `session: {header: holdpoint-session}`, or `principal: {fixed: ...}`",
                );
                return None;
            }
            Some(SessionSource::Fixed(SessionKey::from(key)))
        }
    }
}

pub(super) fn approvers(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<Vec<Approver>> {
    let mut approvers: Vec<Approver> = Vec::new();
    let mut whole = true;
    for entry in field.filled_list()? {
        let Some(approver) = approver(&entry, secrets) else {
            whole = false;
            continue;
        };
        let same = |other: &Approver| {
            let what = (other.subject == approver.subject, other.key == approver.key);
            match what {
                (true, _) => Some("subject"),
                (_, true) => Some("key"),
                _ => None,
            }
        };
        if let Some(what) = approvers.iter().find_map(same) {
            entry.error(
                format!("an approver above has the same {what}"),
                "name each person once, with a key of their own",
            );
        }
        approvers.push(approver);
    }
    whole.then_some(approvers)
}

fn approver(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<Approver> {
    let mut fields = field.map()?;
    let subject = fields.required("subject").and_then(|f| f.text());
    let key = fields.required("key_env").and_then(|f| secrets.key(&f));
    let roles = fields.optional_or("roles", Vec::new(), |field| {
        let roles: Vec<_> = field.list()?.iter().map(Field::name).collect();
        let roles = roles.into_iter();
        roles.map(|role| role.map(str::to_owned)).collect()
    });
    Some(Approver {
        subject: subject?.into(),
        key: key?,
        roles: roles?,
    })
}
