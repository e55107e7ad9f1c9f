//! Rules for secrets in what leaves.

use std::collections::BTreeSet;

use super::allowed::field_path;
use super::{all, id, one_otherwise, selector};
use crate::layers::egress::Class;
use crate::policy::compile::matcher::matcher;
use crate::policy::{PrivateRule, SecretsRule, ToolSecrets};
use crate::source::Field;

/// `secrets` of the policy: `off`, or what is looked for.
#[expect(
    clippy::option_option,
    reason = "broken, off, and a rule are three things"
)]
pub(in crate::policy::compile) fn secrets(field: &Field<'_>) -> Option<Option<SecretsRule>> {
    if !field.is_map() {
        return field.choice(&[("off", ())]).map(|()| None);
    }
    let mut fields = field.map()?;
    let usual = SecretsRule::usual();
    let words = Class::SCANNED.map(|class| (class.as_str(), class));
    let kinds = fields.optional_or("kinds", usual.classes.clone(), |field| {
        field.filled_list()?;
        let read: BTreeSet<_> = all(field, |entry| entry.choice(&words))?
            .into_iter()
            .collect();
        Some(read)
    });
    let otherwise = one_otherwise(&mut fields);
    let reads = fields.optional_or("reads", false, |field| {
        field.choice(&[("check", true), ("skip", false)])
    });
    Some(Some(SecretsRule {
        id: id(field),
        classes: kinds?,
        otherwise: otherwise?,
        reads: reads?,
        written: true,
    }))
}

/// `secrets` of a tool's rule: `check`, `allow`, or `{allow_at: …}`.
pub(super) fn tool_secrets(field: &Field<'_>) -> Option<ToolSecrets> {
    if !field.is_map() {
        return field.choice(&[("check", ToolSecrets::Check), ("allow", ToolSecrets::Allow)]);
    }
    let mut fields = field.map()?;
    let at = fields.required("allow_at")?.one_or_more()?;
    let read: Option<Vec<_>> = at.iter().map(selector).collect();
    read.map(ToolSecrets::AllowAt)
}

/// `private` of the policy.
pub(in crate::policy::compile) fn private(field: &Field<'_>) -> Option<Vec<PrivateRule>> {
    field.filled_list()?;
    all(field, |entry| {
        let mut fields = entry.map()?;
        let tool = fields.required("tool").and_then(|field| matcher(&field));
        let paths = fields.required("fields").and_then(|field| {
            let read: Vec<_> = field.one_or_more()?.iter().map(field_path).collect();
            read.into_iter().collect()
        });
        let to = fields.optional_or("to", Vec::new(), |field| {
            let read: Vec<_> = field.one_or_more()?.iter().map(matcher).collect();
            read.into_iter().collect()
        });
        let otherwise = one_otherwise(&mut fields);
        Some(PrivateRule {
            id: id(entry),
            tool: tool?,
            fields: paths?,
            to: to?,
            otherwise: otherwise?,
        })
    })
}
