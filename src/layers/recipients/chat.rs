//! Ids of chats and channels: opaque, compared exactly. A name such as `#general` is one only where a list holds it.

use super::code::Fault;

/// The id that a text is; `None` for an empty one.
///
/// # Errors
/// Characters that are not seen, or white space around it: no id has them, and backends drop them.
pub fn read_chat(text: &str) -> Result<Option<String>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    super::email::check_hidden(text).map_err(|fault| Fault::malformed(fault.why))?;
    if text.trim() != text {
        return Err(Fault::malformed("white space around an id"));
    }
    Ok(Some(text.to_owned()))
}

/// The id that a JSON integer is: its digits as they are written, however many.
///
/// # Errors
/// A fraction, an exponent, or `-0`.
pub fn read_integer(digits: &str) -> Result<String, Fault> {
    let bare = digits.strip_prefix('-').unwrap_or(digits);
    let whole = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
    if !whole || digits == "-0" {
        return Err(Fault::malformed("a number that is no integer"));
    }
    Ok(digits.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_exact() {
        assert_eq!(read_chat("C0SHOP123").unwrap().unwrap(), "C0SHOP123");
        assert_eq!(read_chat("c0shop123").unwrap().unwrap(), "c0shop123");
        assert_eq!(read_chat("").unwrap(), None);
        for text in [" C0", "C0 ", "C0\n", "C\u{200b}0", "C0\u{a0}", "\u{0}"] {
            assert!(read_chat(text).is_err(), "{text:?}");
        }
        for digits in [
            "-100777",
            "0",
            "9007199254740993",
            "123456789012345678901234567890",
        ] {
            assert_eq!(read_integer(digits).unwrap(), digits);
        }
        for digits in ["1.0", "1e3", "-0", "1E+2", "", "-", "0.0"] {
            assert!(read_integer(digits).is_err(), "{digits}");
        }
    }
}
