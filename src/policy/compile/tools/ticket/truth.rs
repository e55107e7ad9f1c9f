//! What tells the truth about a call apart from the call: the state of what it names, and whether it took effect.

use std::time::Duration;

use super::super::conditions::scalars;
use super::super::ownership::{parameter, with};
use super::super::{Names, id, selector};
use crate::policy::{Reconcile, Sign, StateRule};
use crate::source::Field;

/// A call may be on its way for so long where the policy does not say.
const AFTER: Duration = Duration::from_mins(5);

/// Longest such time.
const LONGEST_AFTER: Duration = Duration::from_hours(7 * 24);

pub(super) fn state(field: &Field<'_>, names: &Names<'_>) -> Option<StateRule> {
    let mut fields = field.map()?;
    let resource = fields.required("resource").and_then(|f| selector(&f));
    let bind = fields.required("as").and_then(|f| parameter(&f, f.text()?));
    let with = fields.optional_or("with", Vec::new(), |f| with(f, bind.as_deref()));
    let optional = fields.optional_or("optional", false, Field::bool);
    let lookup = fields.required("lookup").and_then(|f| names.lookup(&f));
    let columns = fields.required("columns").and_then(|f| {
        let read: Vec<_> = f.one_or_more()?.iter().map(Field::text).collect();
        let columns: Vec<_> = read.into_iter().collect::<Option<_>>()?;
        Some(columns.into_iter().map(str::to_owned).collect())
    });
    Some(StateRule {
        id: id(field),
        resource: resource?,
        bind: bind?,
        with: with?,
        optional: optional?,
        lookup: lookup?,
        columns: columns?,
    })
}

pub(super) fn reconcile(field: &Field<'_>, names: &Names<'_>) -> Option<Reconcile> {
    let mut fields = field.map()?;
    let lookup = fields.required("lookup").and_then(|f| names.lookup(&f));
    let with = fields.optional_or("with", Vec::new(), |f| with(f, Some("ticket")));
    let done = fields.optional_or("done", Sign::Row, sign);
    let not_done = fields.optional_or("not_done", Sign::NoRow, sign);
    let after = fields.optional_or("after", AFTER, |f| {
        let after = f.duration()?;
        if after > LONGEST_AFTER {
            f.error(
                format!("`{}` must be at most 168h", f.path()),
                "write how long a call may still be on its way, such as `5m`",
            );
            return None;
        }
        Some(after)
    });
    let (done, not_done) = (done?, not_done?);
    if done == Sign::NoRow || not_done == Sign::Row || overlap(&done, &not_done) {
        field.error(
            "`done` and `not_done` cannot tell a call that took effect from one that did not",
            "`done` is `row` or a column's values, `not_done` is `no_row` or others of its values",
        );
        return None;
    }
    Some(Reconcile {
        id: id(field),
        lookup: lookup?,
        with: with?,
        done,
        not_done,
        after: after?,
    })
}

/// Whether one answer could be both.
fn overlap(done: &Sign, not_done: &Sign) -> bool {
    match (done, not_done) {
        (
            Sign::Column { column, one_of },
            Sign::Column {
                column: other,
                one_of: others,
            },
        ) => column != other || !one_of.is_disjoint(others),
        // A row is done whatever it says.
        (Sign::Row, Sign::Column { .. }) => true,
        _ => false,
    }
}

fn sign(field: &Field<'_>) -> Option<Sign> {
    if !field.is_map() {
        return field.choice(&[("row", Sign::Row), ("no_row", Sign::NoRow)]);
    }
    let mut fields = field.map()?;
    let column = fields.required("column").and_then(|f| f.text());
    let one_of = fields.required("one_of").and_then(|f| scalars(&f));
    Some(Sign::Column {
        column: column?.to_owned(),
        one_of: one_of?,
    })
}
