//! Whose signed tickets are taken.

use std::collections::HashSet;

use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;

use crate::source::Field;
use crate::store::tickets::issued::{Issuer, IssuerKey};

/// Length of a public key of Ed25519.
const KEY: usize = 32;

pub(super) fn issuers(field: &Field<'_>) -> Option<Vec<Issuer>> {
    let mut issuers: Vec<Issuer> = Vec::new();
    let mut kids = HashSet::new();
    let mut whole = true;
    for entry in field.filled_list()? {
        match issuer(&entry, &mut kids) {
            Some(issuer) => {
                if issuers.iter().any(|known| known.name == issuer.name) {
                    entry.error(
                        format!("an issuer above has the name `{}` too", issuer.name),
                        "name each once, with all of its keys",
                    );
                    whole = false;
                }
                issuers.push(issuer);
            }
            None => whole = false,
        }
    }
    whole.then_some(issuers)
}

fn issuer(field: &Field<'_>, kids: &mut HashSet<String>) -> Option<Issuer> {
    let mut fields = field.map()?;
    let name = fields.required("name").and_then(|f| f.name());
    let keys = fields.required("keys").and_then(|f| {
        let read: Vec<_> = f
            .filled_list()?
            .iter()
            .map(|key| self::key(key, kids))
            .collect();
        read.into_iter().collect()
    });
    Some(Issuer {
        name: name?.to_owned(),
        keys: keys?,
    })
}

fn key(field: &Field<'_>, kids: &mut HashSet<String>) -> Option<IssuerKey> {
    let mut fields = field.map()?;
    let kid = fields.required("kid").and_then(|f| kid(&f, kids));
    let public = fields.required("public").and_then(|f| public(&f));
    let from = fields.optional_or("from", None, |f| moment(f).map(Some));
    let until = fields.optional("until");
    let until_at = match &until {
        Some(field) => moment(field).map(Some),
        None => Some(None),
    };
    if let (Some(Some(from)), Some(Some(at)), Some(field)) = (from, until_at, &until)
        && from >= at
    {
        field.error(
            "this key can never count: `until` is not after `from`",
            "exchange the two, or correct one",
        );
        return None;
    }
    Some(IssuerKey {
        kid: kid?,
        public: public?,
        from: from?,
        until: until_at?,
    })
}

fn kid(field: &Field<'_>, kids: &mut HashSet<String>) -> Option<String> {
    let text = field.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.len() > 64 || !text.chars().all(plain) {
        field.error(
            format!("`{text}` cannot be the id of a key"),
            "write what `holdpoint ticket key new` prints: letters, digits, `-` and `_`",
        );
        return None;
    }
    if !kids.insert(text.to_owned()) {
        field.error(
            format!("a key above has the id `{text}` too"),
            "give each key an id of its own",
        );
        return None;
    }
    Some(text.to_owned())
}

fn public(field: &Field<'_>) -> Option<[u8; KEY]> {
    let text = field.text()?;
    let decoded = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let key = decoded.and_then(|bytes| bytes.try_into().ok());
    if key.is_none() {
        field.error(
            format!("`{}` is no public key of Ed25519", field.path()),
            "write what `holdpoint ticket key new` prints: 32 bytes in base64url, 43 characters",
        );
    }
    key
}

fn moment(field: &Field<'_>) -> Option<Timestamp> {
    let text = field.text()?;
    let moment = text.parse().ok();
    if moment.is_none() {
        field.error(
            format!("`{text}` is not a moment"),
            "write it as RFC 3339, such as `2026-12-31T00:00:00Z`",
        );
    }
    moment
}
