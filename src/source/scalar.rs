//! Single values: the YAML core schema, durations, sizes, names.

use std::time::Duration;

use jiff::fmt::friendly::SpanParser;
use serde_json::Number;

use super::Kind;

/// What a plain scalar is: YAML 1.2.2 section 10.3.2, without infinities and NaN, which stay text.
pub(super) fn plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ => number(text).map_or_else(|| Kind::Text(text.to_owned()), Kind::Number),
    }
}

/// A number as YAML writes it.
pub(super) fn number(text: &str) -> Option<Number> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let sign = digits.starts_with(['+', '-']);
            return u64::from_str_radix(digits, radix)
                .ok()
                .filter(|_| !sign)
                .map(Into::into);
        }
    }
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !bare.contains(|c: char| c.is_ascii_digit())
        || !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let unsigned = || text.parse::<u64>().ok().map(Number::from);
    let signed = || text.parse::<i64>().ok().map(Number::from);
    let float = || text.parse::<f64>().ok().and_then(Number::from_f64);
    unsigned().or_else(signed).or_else(float)
}

/// A duration such as `15m`, `1h 30m` or `250ms`: jiff's friendly format, units up to hours.
pub fn duration(text: &str) -> Option<Duration> {
    SpanParser::new().parse_unsigned_duration(text).ok()
}

/// A size in bytes with its binary unit: `512B`, `64KiB`, `32MiB`, `1GiB`.
pub(super) fn size(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at_checked(digits)?;
    let shift = match unit.trim_start_matches(' ') {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    count.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// A name that people give to things: ASCII letters, digits, `_` and `-`, first a letter, at most 64.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_core_schema_and_nothing_else() {
        for (text, value) in [
            ("0", "0"),
            ("-1", "-1"),
            ("+5", "5"),
            ("18446744073709551615", "18446744073709551615"),
            (".5", "0.5"),
            ("1e3", "1000.0"),
            ("0x1F", "31"),
            ("0o17", "15"),
        ] {
            assert_eq!(number(text).map(|n| n.to_string()).as_deref(), Some(value));
        }
        for text in [
            ".", "-", "+", "..", "1_000", "1.2.3", "12:30", "0x", "0x-1", "1e", "nan", ".inf",
            "inf", "e5", "--1", "1e999", "15m",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn durations_and_sizes_need_a_unit() {
        assert_eq!(duration("15m"), Some(Duration::from_mins(15)));
        assert_eq!(duration("1h 30m"), Some(Duration::from_mins(90)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for text in ["15", "", "-5m", "1 fortnight", "1mo", "P1D"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(size("32MiB"), Some(32 << 20));
        assert_eq!(size("512B"), Some(512));
        assert_eq!(size("1 GiB"), Some(1 << 30));
        for text in ["32", "32MB", "MiB", "-1B", "1.5MiB", "99999999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
