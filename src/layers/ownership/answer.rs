//! What a look-up's answer says of one resource.

use crate::layers::support::{Answer, Binds, Row};
use crate::policy::Owners;
use crate::principal::Principal;
use crate::store::sql::SqlValue;

/// Why it is not the principal's, in words for the operator; `None`: it is.
///
/// # Errors
/// An owner that is neither text nor an integer.
pub(super) fn judge(
    answer: &Answer,
    binds: &Binds,
    owners: Owners,
    principal: &Principal,
) -> Result<Option<&'static str>, &'static str> {
    if answer.is_empty() {
        return Ok(Some("the look-up returned no row"));
    }
    // A backend may act on every row that the database takes for the id: one that is another is enough.
    if answer.iter().any(|row| !is_echo(row, binds)) {
        return Ok(Some("the look-up answered for another id than was asked"));
    }
    let mut objection = None;
    for row in answer {
        match (objection_to(row, principal)?, owners) {
            (None, Owners::Any) => return Ok(None),
            (Some(detail), Owners::All) => return Ok(Some(detail)),
            (Some(detail), Owners::Any) => objection = objection.or(Some(detail)),
            (None, Owners::All) => {}
        }
    }
    Ok(objection)
}

/// Byte for byte: a number and its digits are one id.
fn is_echo(row: &Row, binds: &Binds) -> bool {
    row.echo.iter().all(|(name, echo)| {
        let asked = binds.iter().find(|(bind, _)| bind == name);
        let asked = asked.and_then(|(_, value)| text(value));
        asked.is_some() && text(echo) == asked
    })
}

fn objection_to(row: &Row, principal: &Principal) -> Result<Option<&'static str>, &'static str> {
    if let Some(tenant) = &row.tenant
        && text(tenant).as_deref() != Some(&*principal.tenant)
    {
        return Ok(Some("the resource belongs to another tenant"));
    }
    Ok(match &row.owner {
        SqlValue::Null => Some("the resource has no owner"),
        SqlValue::Real(_) | SqlValue::Blob(_) => {
            return Err("the owner is neither text nor an integer");
        }
        owner if text(owner).as_deref() == Some(&*principal.subject) => None,
        _ => Some("the resource belongs to another subject"),
    })
}

fn text(value: &SqlValue) -> Option<String> {
    match value {
        SqlValue::Text(text) => Some(text.clone()),
        SqlValue::Integer(number) => Some(number.to_string()),
        SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => None,
    }
}
