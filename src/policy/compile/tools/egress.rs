//! Rules for URLs in arguments.

use super::allowed::allowed;
use super::{Names, all, id, otherwise, selectors};
use crate::policy::{EgressRule, List, Selector};
use crate::source::{Field, Fields};

pub(super) fn egress(field: &Field<'_>, names: &Names<'_>) -> Option<EgressRule> {
    let mut fields = field.map()?;
    let at = selectors(&mut fields);
    egress_rest(&mut fields, at, names)
}

/// The rule for tools that have none of their own: every argument.
pub(in crate::policy::compile) fn egress_for_all(
    field: &Field<'_>,
    names: &Names<'_>,
) -> Option<EgressRule> {
    let mut fields = field.map()?;
    egress_rest(&mut fields, Some(vec![Selector::everything()]), names)
}

fn egress_rest(
    fields: &mut Fields<'_>,
    at: Option<Vec<Selector>>,
    names: &Names<'_>,
) -> Option<EgressRule> {
    let no_hosts = |list: &List| {
        let lack = list.hosts.is_empty() && list.host_suffixes.is_empty();
        lack.then(|| ("has no hosts".to_owned(), "add `hosts: [...]` to it"))
    };
    let allow = fields
        .required("allow")
        .and_then(|field| all(&field, |entry| allowed(entry, no_hosts, names)));
    let otherwise = otherwise(fields);
    Some(EgressRule {
        id: id(fields.field()),
        at: at?,
        allow: allow?,
        otherwise: otherwise?,
    })
}
