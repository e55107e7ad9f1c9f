//! Rules for people and accounts in arguments.

use super::allowed::allowed;
use super::{Names, all, id, otherwise, selectors};
use crate::policy::{List, RecipientKind, RecipientRule};
use crate::source::Field;

pub(super) fn recipients(field: &Field<'_>, names: &Names<'_>) -> Option<RecipientRule> {
    let mut fields = field.map()?;
    let at = selectors(&mut fields);
    let kind = fields.required("kind").and_then(|field| {
        field.choice(&[
            ("email", RecipientKind::Email),
            ("account", RecipientKind::Account),
            ("iban", RecipientKind::Iban),
        ])
    });
    let allow = fields.required("allow").and_then(|field| {
        all(&field, |entry| {
            let fault = |list: &List| kind.and_then(|kind| no_recipients(list, kind));
            allowed(entry, fault, names)
        })
    });
    let otherwise = otherwise(&mut fields);
    Some(RecipientRule {
        id: id(field),
        at: at?,
        kind: kind?,
        allow: allow?,
        otherwise: otherwise?,
    })
}

fn no_recipients(list: &List, kind: RecipientKind) -> Option<(String, &'static str)> {
    let (lack, help) = match kind {
        RecipientKind::Email if list.emails.is_empty() && list.email_domains.is_empty() => (
            "has no e-mail addresses".to_owned(),
            "add `emails: [...]` or `email_domains: [...]` to it",
        ),
        RecipientKind::Account | RecipientKind::Iban if list.accounts.is_empty() => {
            ("has no accounts".to_owned(), "add `accounts: [...]` to it")
        }
        RecipientKind::Iban => {
            let mut wrong: Vec<_> = list
                .accounts
                .iter()
                .filter(|account| account.parse::<iban::Iban>().is_err())
                .collect();
            wrong.sort_unstable();
            let first = wrong.first()?;
            (
                format!("holds `{first}`, which is no valid IBAN"),
                "correct it, or write `kind: account`",
            )
        }
        _ => return None,
    };
    Some((lack, help))
}
