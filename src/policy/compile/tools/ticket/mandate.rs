//! To what an approver may widen an approval.

use rust_decimal::Decimal;

use super::super::conditions::{decimal, window};
use super::pointer::pointer;
use crate::policy::MandateRule;
use crate::source::Field;

/// Most calls that one mandate may stand for.
const MOST_USES: u32 = 1_000;

pub(super) fn mandate(field: &Field<'_>) -> Option<MandateRule> {
    let mut fields = field.map()?;
    let amount_field = fields.optional("amount");
    let amount = match &amount_field {
        Some(field) => pointer(field).map(Some),
        None => Some(None),
    };
    let currency = fields.optional("currency");
    let currency = match &currency {
        Some(field) if amount_field.is_none() => {
            field.error(
                "`currency` has no meaning without `amount`",
                "add `amount` with the amount's JSON Pointer, or remove `currency`",
            );
            None
        }
        Some(field) => pointer(field).map(Some),
        None => Some(None),
    };
    let most = fields.optional("at_most");
    let at_most = match (&most, &amount_field) {
        (Some(field), Some(_)) => positive(field).map(Some),
        (Some(field), None) => {
            field.error(
                "`at_most` has no meaning without `amount`",
                "add `amount` with the amount's JSON Pointer, or remove `at_most`",
            );
            None
        }
        (None, Some(amount)) => {
            amount.error(
                "an amount without `at_most` is not limited",
                "add `at_most`, the most that all calls of a mandate may come to",
            );
            None
        }
        (None, None) => Some(None),
    };
    let uses = fields.required("uses").and_then(|f| {
        let uses = f.whole::<u32>()?;
        if !(2..=MOST_USES).contains(&uses) {
            f.error(
                format!("`{}` must be from 2 to {MOST_USES}", f.path()),
                "write the most calls that one mandate may stand for; a single one is a ticket",
            );
            return None;
        }
        Some(uses)
    });
    let within = fields.required("for").and_then(|f| window(&f));
    let same = fields.optional_or("same", Vec::new(), |f| {
        let read: Vec<_> = f.one_or_more()?.iter().map(pointer).collect();
        read.into_iter().collect()
    });
    Some(MandateRule {
        amount: amount?,
        currency: currency?,
        at_most: at_most?,
        uses: uses?,
        within: within?,
        same: same?,
    })
}

fn positive(field: &Field<'_>) -> Option<Decimal> {
    let most = decimal(field)?;
    if most <= Decimal::ZERO {
        field.error(
            format!("`{}` must be more than 0", field.path()),
            "write the most that all calls of a mandate may come to, such as \"50.00\"",
        );
        return None;
    }
    Some(most)
}
