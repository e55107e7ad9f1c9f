//! Checks of tokens that carry their own proof.

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use serde_json::Value;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Whether the last six characters are the CRC-32 of those before them, in base 62: tokens of GitHub and npm.
pub(super) fn crc(body: &str) -> bool {
    let Some((random, said)) = body
        .len()
        .checked_sub(6)
        .and_then(|at| body.split_at_checked(at))
    else {
        return false;
    };
    let mut left = crc32fast::hash(random.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        let index = usize::try_from(left % 62).unwrap_or_default();
        *digit = DIGITS.get(index).copied().unwrap_or_default();
        left /= 62;
    }
    left == 0 && digits == said.as_bytes()
}

/// Whether a number is written with its check digit (ISO/IEC 7812: Luhn).
pub(super) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit.wrapping_sub(b'0'));
            match (index % 2, digit * 2) {
                (0, _) => digit,
                (_, twice) if twice > 9 => twice - 9,
                (_, twice) => twice,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Base64 in either alphabet, padded or not.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=').as_bytes();
    let whole = bare.len() - usize::from(bare.len() % 4 == 1);
    let bare = bare.get(..whole)?;
    let url = bare.iter().any(|b| matches!(b, b'-' | b'_'));
    let mut specification = if url {
        BASE64URL_NOPAD.specification()
    } else {
        BASE64_NOPAD.specification()
    };
    specification.check_trailing_bits = false;
    specification.encoding().ok()?.decode(bare).ok()
}

/// Base64url of a JSON object with this member.
pub(super) fn json_part(part: &str, member: Option<&str>) -> bool {
    let object = decoded(part).and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let object = object.as_ref().and_then(Value::as_object);
    object.is_some_and(|object| member.is_none_or(|member| object.contains_key(member)))
}

/// `user:password` in base64.
pub(super) fn login(text: &str) -> Option<String> {
    let text = String::from_utf8(decoded(text)?).ok()?;
    let (user, password) = text.split_once(':')?;
    let plain = text.chars().all(|c| !c.is_control());
    (plain && !user.is_empty() && password.len() > 2).then(|| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_token_is_its_checksum() {
        // 0xcbf43926 is the CRC-32 of these nine digits by every table.
        let tail = |mut left: u32| {
            let mut digits = Vec::new();
            for _ in 0..6 {
                digits.push(char::from(DIGITS[usize::try_from(left % 62).unwrap()]));
                left /= 62;
            }
            digits.iter().rev().collect::<String>()
        };
        let token = format!("123456789{}", tail(0xcbf4_3926));
        assert!(crc(&token), "{token}");
        assert!(!crc(&token.replace('5', "6")));
        assert!(!crc("short"));
    }

    #[test]
    fn a_check_digit_tells_a_card_from_an_order() {
        assert!(luhn(b"4111111111111111"));
        assert!(luhn(b"378282246310005"));
        assert!(!luhn(b"4111111111111112"));
    }
}
