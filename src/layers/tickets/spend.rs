//! What a call spends of a mandate.

use crate::item::ToolCall;
use crate::layers::catalog::amount;
use crate::policy::{MandateRule, Selector};
use crate::store::tickets::Spend;
use crate::wire::json::{BODY_DEPTH, Document, Node};

/// The amount that is not told exactly.
#[derive(Debug)]
pub(super) struct Uncounted;

/// The amount and currency of the call; `None` where the rule counts calls alone.
pub(super) fn spend(call: &ToolCall, rule: &MandateRule) -> Result<Option<Spend>, Uncounted> {
    let Some(at) = &rule.amount else {
        return Ok(None);
    };
    let document = Document::read(call.args.raw.clone(), BODY_DEPTH).map_err(|_| Uncounted)?;
    let node = only(&document, at)?;
    let amount = amount(node, &document.raw(node)).map_err(|_| Uncounted)?;
    if amount.is_sign_negative() {
        return Err(Uncounted);
    }
    let currency = match &rule.currency {
        None => None,
        Some(at) => Some(only(&document, at)?.as_str().ok_or(Uncounted)?.to_owned()),
    };
    Ok(Some(Spend { amount, currency }))
}

/// The one argument that any reader takes for the named one: to many backends `Amount` is `amount`.
fn only<'d>(document: &'d Document, at: &str) -> Result<&'d Node, Uncounted> {
    let selector = Selector::parse(at).map_err(|_| Uncounted)?;
    let mut found = selector.select(document.root()).into_iter();
    match (found.next(), found.next()) {
        (Some((_, node)), None) => Ok(node),
        _ => Err(Uncounted),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::item::Arguments;

    fn spent(args: &'static str) -> Option<(String, Option<String>)> {
        let rule = MandateRule {
            amount: Some("/amount".to_owned()),
            currency: Some("/currency".to_owned()),
            at_most: None,
            uses: 3,
            within: Duration::from_secs(1),
            same: Vec::new(),
        };
        let args = Arguments::read(Bytes::from_static(args.as_bytes())).unwrap();
        let spend = spend(&ToolCall::new("pay".into(), args), &rule)
            .ok()?
            .unwrap();
        Some((spend.amount.to_string(), spend.currency))
    }

    #[test]
    fn only_an_exact_amount_of_a_named_currency_is_counted() {
        let eur = |amount: &str| Some((amount.to_owned(), Some("EUR".to_owned())));
        assert_eq!(
            spent(r#"{"amount": "19.90", "currency": "EUR"}"#),
            eur("19.90")
        );
        assert_eq!(spent(r#"{"amount": 7, "currency": "EUR"}"#), eur("7"));
        for none in [
            r#"{"currency": "EUR"}"#,
            r#"{"amount": "19.90"}"#,
            r#"{"amount": "-1", "currency": "EUR"}"#,
            r#"{"amount": "1e3", "currency": "EUR"}"#,
            r#"{"amount": [1], "currency": "EUR"}"#,
            r#"{"amount": 1, "Amount": 900, "currency": "EUR"}"#,
            r#"{"amount": 1, "currency": 5}"#,
        ] {
            assert_eq!(spent(none), None, "{none}");
        }
    }
}
