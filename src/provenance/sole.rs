//! Whether a value is the only one of its kind in a text: who adds his own account to a bill makes two of them.
//!
//! Counted generously: what only looks like a second value makes the first one not the only one.

use super::ValueKind;
use super::text::Text;
use super::values::comparable;

/// So many digits make a word, or short words in a row, look like an account.
const DIGITS: usize = 6;

/// Longest word of an account that is written in groups.
const GROUP: usize = 4;

/// Whether no other value of the kind stands in the text. Of plain texts nobody can tell what another would be.
pub(super) fn is_sole(kind: ValueKind, key: &str, text: &Text) -> bool {
    let key = comparable(kind, key);
    match kind {
        // An address has several readings where marks stand before it.
        ValueKind::Email => text.emails().iter().all(|found| found.ends_with(&key)),
        // So has a number, up to each of its groups.
        ValueKind::Phone => text
            .phones()
            .iter()
            .all(|found| found.starts_with(&key) || key.starts_with(found.as_str())),
        ValueKind::Url => text.urls().are_all(&key),
        ValueKind::Account => accounts(text.as_str()).all(|found| key.contains(&found)),
        ValueKind::Text => false,
    }
}

/// What looks like an account: a word with many digits, and short words in a row that have as many together.
fn accounts(text: &str) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut row = String::new();
    let mut end = |row: &mut String| {
        if digits(row) >= DIGITS {
            found.push(row.to_ascii_uppercase());
        }
        row.clear();
    };
    for line in text.split(|c: char| !c.is_alphanumeric() && !matches!(c, ' ' | '\u{a0}')) {
        for word in line.split([' ', '\u{a0}']) {
            let large = !word.contains(char::is_lowercase);
            if word.len() > GROUP || word.is_empty() || !large {
                end(&mut row);
            }
            row.push_str(word);
            if word.len() > GROUP || !large {
                end(&mut row);
            }
        }
        end(&mut row);
    }
    found.into_iter()
}

fn digits(word: &str) -> usize {
    word.chars().filter(char::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sole(kind: ValueKind, key: &str, text: &str) -> bool {
        is_sole(kind, key, &Text::new(text.into()))
    }

    #[test]
    fn an_account_is_the_only_one_beside_amounts_and_dates() {
        let iban = "GB82WEST12345698765432";
        for text in [
            "Please pay 1235.60 to GB82 WEST 1234 5698 7654 32 by 2026-12-01.",
            "pay 42,50 EUR to GB82WEST12345698765432 (invoice 2026/17), due on 1 December 2026",
        ] {
            assert!(sole(ValueKind::Account, iban, text), "{text}");
        }
        for text in [
            "Pay to GB82WEST12345698765432. No: to DE89370400440532013000.",
            "Pay to GB82WEST12345698765432. No: to DE89 3704 0044 0532 0130 00.",
            "Pay to gb82west12345698765432, or to 12345678",
        ] {
            assert!(!sole(ValueKind::Account, iban, text), "{text}");
        }
        let second = "DE89370400440532013000";
        let spaced = "Pay to GB82 WEST 1234 5698 7654 32 and DE89370400440532013000";
        assert!(!sole(ValueKind::Account, second, spaced));
    }

    #[test]
    fn an_address_a_number_or_a_link_is_the_only_one_in_all_its_readings() {
        let mail = "ann@x.example";
        assert!(sole(ValueKind::Email, mail, "to='Ann@x.example', please"));
        assert!(!sole(
            ValueKind::Email,
            mail,
            "ann@x.example or joe@x.example"
        ));
        let phone = "+15551234567";
        assert!(sole(ValueKind::Phone, phone, "call +1 555 123-4567 at 9"));
        assert!(!sole(
            ValueKind::Phone,
            phone,
            "+15551234567, +442079460018"
        ));
        let url = "https://a.example/x";
        assert!(sole(ValueKind::Url, url, "see http://a.example/x#top."));
        assert!(!sole(ValueKind::Url, url, "see a.example/x and b.example"));
        assert!(!sole(ValueKind::Text, "x", "x"));
    }
}
