//! Phone numbers, compared in E.164.

use super::code::{Code, Fault};
use super::regions::Region;

/// Longest and shortest numbers with their calling codes (E.164 section 6.2: at most 15 digits).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// One number as `+` and digits. Spaces, dots, hyphens and balanced round brackets are left out; `00` is read as `+`; a number
/// in national form needs a region. A blank text names nobody.
///
/// # Errors
/// Everything else: extensions, pauses, letters, digits of other scripts, several numbers.
pub fn read_phone(text: &str, region: Option<Region>) -> Result<Option<String>, Fault> {
    let malformed = |why| Fault::new(Code::MalformedPhone, why);
    if text.bytes().all(|b| b == b' ') {
        return Ok(None);
    }
    let mut digits = String::with_capacity(text.len().min(32));
    let mut open = 0_usize;
    let mut plus = false;
    for c in text.chars() {
        match c {
            '0'..='9' => digits.push(c),
            ' ' | '.' | '-' => {}
            '(' => open += 1,
            ')' => {
                open = open
                    .checked_sub(1)
                    .ok_or(malformed("a bracket without its other half"))?;
            }
            '+' if digits.is_empty() && !plus => plus = true,
            _ => return Err(malformed("a character that belongs to no phone number")),
        }
    }
    if open > 0 {
        return Err(malformed("a bracket without its other half"));
    }
    let number = if plus {
        digits
    } else if let Some(rest) = digits.strip_prefix("00") {
        rest.to_owned()
    } else {
        let region = region.ok_or(malformed("not in the international form +…"))?;
        region
            .international(&digits)
            .ok_or(malformed("not as dialled within the rule's region"))?
    };
    if !DIGITS.contains(&number.len()) || number.starts_with('0') {
        return Err(malformed("too short, too long, or no calling code"));
    }
    Ok(Some(format!("+{number}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gb(text: &str) -> Result<Option<String>, Fault> {
        read_phone(text, Region::named("GB"))
    }

    #[test]
    fn spellings_of_one_number_are_one() {
        for text in [
            "+447700900123",
            "+44 7700 900123",
            "+44-7700-900.123",
            "+44 (7700) 900123",
            "(+44) 7700 900123",
            "00447700900123",
            "00 44 7700 900 123",
            "07700 900123",
            "(07700) 900123",
            " 07700-900-123 ",
        ] {
            assert_eq!(
                gb(text).unwrap().as_deref(),
                Some("+447700900123"),
                "{text}"
            );
        }
        let read = |region, text| read_phone(text, Region::named(region)).unwrap().unwrap();
        assert_eq!(read("US", "(202) 555-0143"), "+12025550143");
        assert_eq!(read("US", "1-202-555-0143"), "+12025550143");
        assert_eq!(read("IT", "06 1234 5678"), "+390612345678");
        assert_eq!(read("HU", "06 20 123 4567"), "+36201234567");
        assert_eq!(read("IN", "98765 43210"), "+919876543210");
        assert_eq!(read("ES", "612 345 678"), "+34612345678");
        assert_eq!(
            read_phone("+12025550143", None).unwrap().unwrap(),
            "+12025550143"
        );
        assert_eq!(read_phone("  ", None).unwrap(), None);
    }

    #[test]
    fn another_number_stays_another() {
        // Read by its digits: no zero is left out behind a calling code, and nothing is added before a bare one.
        assert_eq!(gb("+44 (0)7700 900123").unwrap().unwrap(), "+4407700900123");
        assert_ne!(
            read_phone("447700900123", Region::named("US"))
                .unwrap()
                .unwrap(),
            "+447700900123"
        );
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "+447700900123p1",
            "+447700900123;+19005550199",
            "+447700900123,+19005550199",
            "+447700900123 +19005550199",
            "+447700900123 ext 5",
            "+447700900123x5",
            "+447700900123#5",
            "+447700900123,,1",
            "*67+447700900123",
            "+44 7700 CALLME",
            "tel:+447700900123",
            "+\u{664}\u{664}7700900123",
            "\u{ff0b}447700900123",
            "+44\u{a0}7700900123",
            "+44\u{2011}7700900123",
            "+44\u{200b}7700900123",
            "+44\t7700900123",
            "+44 7700 900123\n",
            "(07700 900123",
            "07700) 900123",
            ")07700( 900123",
            "[07700] 900123",
            "++447700900123",
            "+",
            "+0447700900123",
            "000447700900123",
            "44+7700900123",
            "7700900123",
            "447700900123",
            "+4477009001231234",
            "+4477",
            "999",
            "ann",
        ] {
            let fault = gb(text).unwrap_err();
            assert_eq!(fault.code, Code::MalformedPhone, "{text}");
        }
        assert!(read_phone("07700 900123", None).is_err());
    }

    proptest! {
        #[test]
        fn separators_change_nothing_and_digits_do(
            digits in "[1-9][0-9]{6,13}",
            gaps in proptest::collection::vec(prop_oneof![Just(""), Just(" "), Just("."), Just("-"), Just("()")], 14),
            other in "[0-9]",
        ) {
            let spelled: String = digits.chars().zip(&gaps).flat_map(|(d, gap)| [d.to_string(), (*gap).to_owned()]).collect();
            let plain = format!("+{digits}");
            prop_assert_eq!(read_phone(&format!("+{spelled}"), None).unwrap(), Some(plain.clone()));
            prop_assert_ne!(read_phone(&format!("+{spelled}{other}"), None).ok().flatten(), Some(plain));
        }

        #[test]
        fn reading_never_panics(text in "\\PC{0,40}") {
            let _ = read_phone(&text, Region::named("HU"));
        }
    }
}
