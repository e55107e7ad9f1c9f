//! On whose behalf cases run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::optional;
use crate::eval::tokens::Bearer;
use crate::principal::Principal;
use crate::source::Field;

type Callers = (
    BTreeMap<String, Arc<Principal>>,
    Option<BTreeMap<String, Bearer>>,
);

/// Principals with how each differs from what a good token of it would say.
pub(super) fn callers(
    root: &Field<'_>,
    named: BTreeMap<String, (Arc<Principal>, Option<Bearer>)>,
    by_token: bool,
) -> Option<Callers> {
    let told = named.values().any(|(_, bearer)| bearer.is_some());
    if told && !by_token {
        root.error(
            "a principal has a `token`, and principals come without tokens here",
            "write `tokens: true`, or remove `token`",
        );
        return None;
    }
    let mut principals = BTreeMap::new();
    let mut bearers = BTreeMap::new();
    for (name, (principal, bearer)) in named {
        bearers.insert(name.clone(), bearer.unwrap_or_default());
        principals.insert(name, principal);
    }
    Some((principals, by_token.then_some(bearers)))
}

fn bearer(field: &Field<'_>) -> Option<Bearer> {
    let mut fields = field.map()?;
    let text = |field: &Field<'_>| field.name().map(|text| Some(text.to_owned()));
    let signed_by = fields.optional_or("signed_by", None, text);
    let session = fields.optional_or("session", None, text);
    fields.finish();
    Some(Bearer {
        signed_by: signed_by?,
        session: session?,
    })
}

pub(super) fn principal(field: &Field<'_>) -> Option<(Arc<Principal>, Option<Bearer>)> {
    let mut fields = field.map()?;
    let tenant = fields.required("tenant").and_then(|f| f.text());
    let subject = fields.required("subject").and_then(|f| f.text());
    let issuer = fields
        .optional("issuer")
        .map_or(Some("config"), |f| f.text());
    let agent = fields.optional("agent").map_or(Some("eval"), |f| f.text());
    let scopes = optional(&mut fields, "scopes", |f| {
        let read: Vec<_> = f.list()?.iter().map(|f| f.text().map(Arc::from)).collect();
        read.into_iter().collect::<Option<BTreeSet<_>>>()
    });
    let bearer = fields.optional_or("token", None, |f| bearer(f).map(Some));
    fields.finish();
    let principal = Arc::new(Principal {
        tenant: tenant?.into(),
        issuer: issuer?.into(),
        subject: subject?.into(),
        agent: agent?.into(),
        actors: Vec::new(),
        scopes: scopes?,
    });
    Some((principal, bearer?))
}
