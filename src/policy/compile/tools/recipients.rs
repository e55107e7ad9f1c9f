//! Rules for people and accounts in arguments.

use std::collections::BTreeSet;

use super::allowed::allowed;
use super::{Names, all, id, otherwise, selector, selectors};
use crate::layers::recipients::lacks;
use crate::policy::{
    List, Permit, Plus, RecipientKind, RecipientRule, Region, Selector, Undeclared,
};
use crate::source::{Field, Fields, did_you_mean};

pub(super) fn recipients(field: &Field<'_>, names: &Names<'_>) -> Option<RecipientRule> {
    let mut fields = field.map()?;
    let words = RecipientKind::ALL.map(|kind| (kind.as_str(), kind));
    let kind = fields.required("kind").and_then(|f| f.choice(&words));
    let at = places(&mut fields, kind);
    let allow = fields.required("allow").and_then(|field| {
        all(&field, |entry| {
            let fault = |list: &List| kind.and_then(|kind| no_recipients(list, kind));
            allowed(entry, fault, names)
        })
    });
    let otherwise = otherwise(&mut fields, names.usual);
    let plus = plus(&mut fields, kind);
    let region = region(&mut fields, kind);
    let headers = headers(&mut fields, kind);
    let permits = permits(&mut fields, kind);
    let rule = RecipientRule {
        id: id(field),
        at: at?,
        kind: kind?,
        allow: allow?,
        otherwise: otherwise?,
        plus: plus?,
        region: region.ok()?,
        headers: headers?,
        permits: permits?,
    };
    nobody(field, &rule);
    Some(rule)
}

/// `undeclared_recipients`.
pub(in crate::policy::compile) fn undeclared(field: &Field<'_>) -> Option<Undeclared> {
    field.choice(&[("warn", Undeclared::Warn), ("deny", Undeclared::Deny)])
}

/// Grants are looked for in all arguments, unless the rule says where.
fn places(fields: &mut Fields<'_>, kind: Option<RecipientKind>) -> Option<Vec<Selector>> {
    if kind != Some(RecipientKind::Share) {
        return selectors(fields);
    }
    match fields.optional("at") {
        Some(at) => {
            let read: Vec<_> = at.one_or_more()?.iter().map(selector).collect();
            read.into_iter().collect()
        }
        None => Selector::parse("").ok().map(|whole| vec![whole]),
    }
}

/// A key that has a meaning for some kinds only: an error beside another.
fn fitting<'r>(
    fields: &mut Fields<'r>,
    key: &'static str,
    fits: impl Fn(RecipientKind) -> bool,
    kind: Option<RecipientKind>,
) -> Result<Option<Field<'r>>, ()> {
    let Some(field) = fields.optional(key) else {
        return Ok(None);
    };
    match kind {
        Some(kind) if !fits(kind) => {
            let kinds = RecipientKind::ALL.into_iter().filter(|kind| fits(*kind));
            let kinds: Vec<_> = kinds.map(|kind| format!("`{}`", kind.as_str())).collect();
            field.error(
                format!("`{key}` has no meaning with `kind: {}`", kind.as_str()),
                format!("remove it; it belongs to {}", kinds.join(", ")),
            );
            Err(())
        }
        _ => Ok(Some(field)),
    }
}

fn plus(fields: &mut Fields<'_>, kind: Option<RecipientKind>) -> Option<Plus> {
    match fitting(fields, "plus", RecipientKind::has_mailboxes, kind).ok()? {
        Some(field) => field.choice(&[("distinct", Plus::Distinct), ("fold", Plus::Fold)]),
        None => Some(Plus::default()),
    }
}

/// `Err` where it is wrong.
fn region(fields: &mut Fields<'_>, kind: Option<RecipientKind>) -> Result<Option<Region>, ()> {
    let fits = |kind| kind == RecipientKind::Phone;
    let Some(field) = fitting(fields, "region", fits, kind)? else {
        return Ok(None);
    };
    let code = field.text().ok_or(())?;
    let region = Region::named(code);
    if region.is_none() {
        let upper = code.to_ascii_uppercase();
        let help = match Region::named(&upper) {
            Some(_) => format!("write `{upper}`"),
            None => did_you_mean("regions", &upper, Region::codes()),
        };
        field.error(
            format!("`{code}` is no country whose national numbers can be read"),
            help,
        );
    }
    region.map(Some).ok_or(())
}

fn headers(fields: &mut Fields<'_>, kind: Option<RecipientKind>) -> Option<Vec<Selector>> {
    let fits = |kind| kind == RecipientKind::Email;
    let Some(field) = fitting(fields, "headers", fits, kind).ok()? else {
        return Some(Vec::new());
    };
    let read: Vec<_> = field.one_or_more()?.iter().map(selector).collect();
    read.into_iter().collect()
}

/// Switches, and `none: allow`.
fn permits(fields: &mut Fields<'_>, kind: Option<RecipientKind>) -> Option<BTreeSet<Permit>> {
    let mut permits = BTreeSet::new();
    let mut whole = true;
    if let Some(field) = fields.optional("none") {
        match field.choice(&[("deny", false), ("allow", true)]) {
            Some(true) => drop(permits.insert(Permit::Nobody)),
            Some(false) => {}
            None => whole = false,
        }
    }
    for (permit, key, of) in Permit::SWITCHES {
        match fitting(fields, key, |kind| kind == of, kind) {
            Ok(Some(field)) => match field.bool() {
                Some(true) => drop(permits.insert(permit)),
                Some(false) => {}
                None => whole = false,
            },
            Ok(None) => {}
            Err(()) => whole = false,
        }
    }
    whole.then_some(permits)
}

/// A rule that no call can pass is better said with `deny: true`.
fn nobody(field: &Field<'_>, rule: &RecipientRule) {
    let open = !rule.allow.is_empty() || !rule.permits.is_empty();
    if !open && !rule.otherwise.can_hold() {
        field.warn(
            "no call can pass this rule: it allows nobody, and a call without recipient is refused too",
            "name a list in `allow`, write `none: allow` or `otherwise: hold`, or deny the tool",
        );
    }
}

fn no_recipients(list: &List, kind: RecipientKind) -> Option<(String, &'static str)> {
    if let Some(keys) = lacks(list, kind) {
        let lack = format!("has no {keys}, so it allows nobody here");
        return Some((lack, "add such entries to it, or name another list"));
    }
    if kind != RecipientKind::Iban {
        return None;
    }
    let mut wrong: Vec<_> = list
        .accounts
        .iter()
        .filter(|account| account.parse::<iban::Iban>().is_err())
        .collect();
    wrong.sort_unstable();
    let first = wrong.first()?;
    Some((
        format!("holds `{first}`, which is no valid IBAN"),
        "correct it, or write `kind: account`",
    ))
}
