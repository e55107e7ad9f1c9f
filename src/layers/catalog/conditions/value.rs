//! Single values against single tests. Numbers are compared as decimals, digit by digit as they are written.

use std::net::IpAddr;

use rust_decimal::Decimal;

use crate::policy::{Scalar, Test};
use crate::wire::json::{Kind, MAX_SAFE_INTEGER, Node};

/// Most digits before and after the dot: sums of such numbers stay exact.
const WHOLE: usize = 18;
const FRACTION: usize = 9;

/// Largest mantissa of a fraction that a double keeps: 15 digits, so that a backend that reads one sees the same number.
const SAFE: u64 = 999_999_999_999_999;

/// A number from its digits.
///
/// # Errors
/// What makes it inexact, or two readers see two numbers: fixed words.
pub fn number(text: &str) -> Result<Decimal, &'static str> {
    let bare = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match bare.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (bare, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !fraction.is_none_or(digits) {
        return Err("digits with at most one dot, and no exponent");
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Err("a zero in front");
    }
    if whole.len() > WHOLE || fraction.is_some_and(|fraction| fraction.len() > FRACTION) {
        return Err("more digits than are added up exactly");
    }
    Decimal::from_str_exact(text).map_err(|_| "more digits than are held exactly")
}

/// What an argument is worth.
///
/// # Errors
/// No number, or one that is not exact.
pub(crate) fn amount(node: &Node, raw: &[u8]) -> Result<Decimal, &'static str> {
    match &node.kind {
        Kind::String(text) => number(text),
        Kind::Number => {
            let text = std::str::from_utf8(raw).map_err(|_| "not a number")?;
            let decimal = number(text)?;
            let plain = decimal.normalize();
            let most = if plain.scale() == 0 {
                MAX_SAFE_INTEGER
            } else {
                SAFE
            };
            if plain.mantissa().unsigned_abs() > u128::from(most) {
                return Err("a number that a double does not keep: it must come as a text");
            }
            Ok(decimal)
        }
        _ => Err("not a number"),
    }
}

/// Why a value of the arguments does not pass; `None`: it passes all.
pub(super) fn fails(node: &Node, raw: &[u8], tests: &[Test]) -> Option<&'static str> {
    tests.iter().find_map(|test| match test {
        Test::AtLeast(_) | Test::AtMost(_) => match amount(node, raw) {
            Ok(amount) => bound(&amount, test),
            Err(why) => Some(why),
        },
        Test::OneOf(scalars) => {
            let scalar = match &node.kind {
                Kind::Bool(value) => Scalar::Bool(*value),
                Kind::String(text) => Scalar::Text(text.to_string()),
                Kind::Number => match amount(node, raw) {
                    Ok(number) => Scalar::Number(number),
                    Err(why) => return Some(why),
                },
                _ => return Some("not a text, number or truth value"),
            };
            (!scalars.contains(&scalar)).then_some("none of `one_of`")
        }
        Test::Matches(regex) => {
            let integer = || raw.iter().all(u8::is_ascii_digit);
            let text = match &node.kind {
                Kind::String(text) => text,
                Kind::Number if integer() => std::str::from_utf8(raw).unwrap_or_default(),
                _ => return Some("not a text"),
            };
            (!regex.is_match(text)).then_some("not what `matches` says")
        }
        Test::InCidr(_) => text_fails(node.as_str().unwrap_or_default(), test),
    })
}

fn bound(amount: &Decimal, test: &Test) -> Option<&'static str> {
    match test {
        Test::AtLeast(least) if amount < least => Some("less than `at_least`"),
        Test::AtMost(most) if amount > most => Some("more than `at_most`"),
        _ => None,
    }
}

/// The same for a text by itself.
pub(super) fn text_fails(value: &str, test: &Test) -> Option<&'static str> {
    match test {
        Test::AtLeast(_) | Test::AtMost(_) => match number(value) {
            Ok(amount) => bound(&amount, test),
            Err(why) => Some(why),
        },
        Test::OneOf(scalars) => {
            let listed = scalars.contains(&Scalar::Text(value.to_owned()));
            (!listed).then_some("none of `one_of`")
        }
        Test::Matches(regex) => (!regex.is_match(value)).then_some("not what `matches` says"),
        Test::InCidr(networks) => {
            // Octal, short and integer spellings are no addresses here; what carries an address of the other kind is not taken
            // apart.
            let Ok(address) = value.parse::<IpAddr>() else {
                return Some("not an address");
            };
            let inside = networks.iter().any(|network| network.contains(&address));
            (!inside).then_some("in none of the networks of `in_cidr`")
        }
    }
}

/// Whether a value of the policy passes tests of the policy: what could never hold is told at start.
pub fn passes(scalar: &Scalar, tests: &[Test]) -> bool {
    tests.iter().all(|test| match scalar {
        Scalar::Text(text) => text_fails(text, test).is_none(),
        Scalar::Number(number) => match test {
            Test::AtLeast(_) | Test::AtMost(_) => bound(number, test).is_none(),
            Test::OneOf(_) => true,
            Test::Matches(regex) => regex.is_match(&number.to_string()),
            Test::InCidr(_) => false,
        },
        Scalar::Bool(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        for (text, same) in [
            ("50", "50.00"),
            ("-0.10", "-0.1"),
            ("0", "-0"),
            ("0.000000001", "0.000000001"),
        ] {
            assert_eq!(number(text), number(same), "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "+1",
            "1e3",
            "1E3",
            "0x10",
            "007",
            "1,5",
            "1_000",
            " 1",
            "1 ",
            "\u{661}",
            "NaN",
            "1.0.0",
            "1234567890123456789",
            "0.1234567890",
            "--1",
        ] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(number("0.3").unwrap() == number("0.1").unwrap() + number("0.2").unwrap());
    }

    proptest! {
        #[test]
        fn numbers_compare_as_their_digits_do(a in 0_i64..1_000_000, b in 0_i64..1_000_000) {
            let text = |cents: i64| format!("{}.{:02}", cents / 100, cents % 100);
            prop_assert_eq!(number(&text(a)).unwrap().cmp(&number(&text(b)).unwrap()), a.cmp(&b));
        }
    }
}
