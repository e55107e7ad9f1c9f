//! Values of PostgreSQL, each type exactly: what is not on the list is an error at load, never a guess.

use std::error::Error;
use std::fmt::Write as _;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::store::sql::{SqlError, SqlValue};

/// A type that is bound and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `text`, `varchar`, `bpchar`, `name`, `citext`: as it is; `char(n)` keeps its blanks.
    Text,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `numeric`: its digits as text.
    Numeric,
    /// `uuid`: lower case with hyphens, as the server prints it.
    Uuid,
}

impl Kind {
    /// The kind of a type; of a domain, the one below it.
    pub(super) fn of(ty: &Type) -> Option<Self> {
        if let tokio_postgres::types::Kind::Domain(below) = ty.kind() {
            return Self::of(below);
        }
        match *ty {
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => Some(Self::Text),
            Type::INT2 => Some(Self::Int2),
            Type::INT4 => Some(Self::Int4),
            Type::INT8 => Some(Self::Int8),
            Type::NUMERIC => Some(Self::Numeric),
            Type::UUID => Some(Self::Uuid),
            // An extension's: its number differs from one database to the next.
            _ if ty.name() == "citext" => Some(Self::Text),
            _ => None,
        }
    }

    /// The value as this type has it; `None` where no value of the type is equal to it.
    pub(super) fn bind(self, value: &SqlValue) -> Option<Bound> {
        let text = match value {
            SqlValue::Null => return Some(Bound(None)),
            SqlValue::Text(text) => text.clone(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(_) | SqlValue::Blob(_) => return None,
        };
        let bytes = match self {
            // A string of PostgreSQL cannot hold it.
            Self::Text if text.contains('\0') => return None,
            Self::Text => text.into_bytes(),
            Self::Int2 => canonical::<i16>(&text)?.to_be_bytes().to_vec(),
            Self::Int4 => canonical::<i32>(&text)?.to_be_bytes().to_vec(),
            Self::Int8 => canonical::<i64>(&text)?.to_be_bytes().to_vec(),
            Self::Numeric => numeric_of(canonical::<i64>(&text)?),
            Self::Uuid => {
                let uuid = Uuid::try_parse(&text).ok()?;
                if uuid.hyphenated().to_string() != text {
                    return None;
                }
                uuid.into_bytes().to_vec()
            }
        };
        Some(Bound(Some(bytes)))
    }

    /// A cell of this type.
    pub(super) fn read(self, cell: Read<'_>) -> Result<SqlValue, SqlError> {
        let Some(bytes) = cell.0 else {
            return Ok(SqlValue::Null);
        };
        let value = match self {
            Self::Text => std::str::from_utf8(bytes)
                .ok()
                .map(|text| SqlValue::Text(text.to_owned())),
            Self::Int2 => bytes
                .try_into()
                .ok()
                .map(|raw| SqlValue::Integer(i16::from_be_bytes(raw).into())),
            Self::Int4 => bytes
                .try_into()
                .ok()
                .map(|raw| SqlValue::Integer(i32::from_be_bytes(raw).into())),
            Self::Int8 => bytes
                .try_into()
                .ok()
                .map(|raw| SqlValue::Integer(i64::from_be_bytes(raw))),
            Self::Numeric => digits(bytes).map(SqlValue::Text),
            Self::Uuid => Uuid::from_slice(bytes)
                .ok()
                .map(|uuid| SqlValue::Text(uuid.hyphenated().to_string())),
        };
        value.ok_or_else(|| SqlError::Run {
            cause: format!("a value of the kind {self:?} cannot be read"),
        })
    }
}

/// An integer in its one spelling.
fn canonical<N: std::str::FromStr + ToString>(text: &str) -> Option<N> {
    let number: N = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

const BASE: u64 = 10_000;

/// The wire form of `numeric`: digits to the base 10 000, most significant first.
fn numeric_of(number: i64) -> Vec<u8> {
    let mut rest = number.unsigned_abs();
    let mut groups = Vec::new();
    while rest > 0 {
        groups.push(u16::try_from(rest % BASE).unwrap_or_default());
        rest /= BASE;
    }
    groups.reverse();
    let count = u16::try_from(groups.len()).unwrap_or_default();
    let weight = i16::try_from(groups.len()).unwrap_or_default() - 1;
    let sign: u16 = if number < 0 { 0x4000 } else { 0 };
    let mut bytes = Vec::with_capacity(8 + 2 * groups.len());
    bytes.extend(count.to_be_bytes());
    bytes.extend(weight.max(0).to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend(0_u16.to_be_bytes());
    for group in groups {
        bytes.extend(group.to_be_bytes());
    }
    bytes
}

/// A `numeric` in the server's own spelling, with as many places as it has; `None` for NaN and infinities.
fn digits(bytes: &[u8]) -> Option<String> {
    let mut words = bytes.chunks_exact(2).map(|pair| match *pair {
        [high, low] => u16::from_be_bytes([high, low]),
        _ => 0,
    });
    let count = usize::from(words.next()?);
    let weight = i16::from_be_bytes(words.next()?.to_be_bytes());
    let sign = words.next()?;
    let places = usize::from(words.next()?);
    let groups: Vec<u16> = words.collect();
    if groups.len() != count || !matches!(sign, 0 | 0x4000) {
        return None;
    }
    let group = |index: i32| {
        let index = usize::try_from(index).ok();
        index
            .and_then(|index| groups.get(index))
            .copied()
            .unwrap_or(0)
    };
    let mut text = String::new();
    for index in 0..=i32::from(weight) {
        let _ = write!(text, "{:04}", group(index));
    }
    let whole = text.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let mut fraction = String::new();
    let mut index = i32::from(weight) + 1;
    while fraction.len() < places {
        let part = if index < 0 { 0 } else { group(index) };
        let _ = write!(fraction, "{part:04}");
        index += 1;
    }
    // The groups behind a weight below -1 stand further right.
    if weight < -1 {
        let zeros = "0000".repeat(usize::from(weight.unsigned_abs()) - 1);
        fraction = zeros;
        let mut index = 0;
        while fraction.len() < places {
            let _ = write!(fraction, "{:04}", group(index));
            index += 1;
        }
    }
    fraction.truncate(places);
    let minus = if sign == 0 { "" } else { "-" };
    let point = if places == 0 { "" } else { "." };
    Some(format!("{minus}{whole}{point}{fraction}"))
}

/// A value in the wire form of its type.
#[derive(Debug)]
pub(super) struct Bound(Option<Vec<u8>>);

impl ToSql for Bound {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A cell as it came.
#[derive(Clone, Copy)]
pub(super) struct Read<'r>(Option<&'r [u8]>);

impl<'r> FromSql<'r> for Read<'r> {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(kind: Kind, text: &str) -> bool {
        kind.bind(&SqlValue::Text(text.to_owned())).is_some()
    }

    #[test]
    fn only_the_one_spelling_of_a_value_is_bound() {
        for good in ["0", "-7", "9223372036854775807"] {
            assert!(bind(Kind::Int8, good) && bind(Kind::Numeric, good));
        }
        for bad in [
            "",
            "00",
            "+1",
            "1.0",
            "1e1",
            "-0",
            " 1",
            "1_0",
            "9223372036854775808",
        ] {
            assert!(!bind(Kind::Int8, bad) && !bind(Kind::Numeric, bad), "{bad}");
        }
        assert!(!bind(Kind::Int2, "32768") && !bind(Kind::Int4, "2147483648"));
        assert!(bind(Kind::Uuid, "67e55044-10b1-426f-9247-bb680e5fe0c8"));
        for bad in [
            "67E55044-10b1-426f-9247-bb680e5fe0c8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert!(!bind(Kind::Uuid, bad), "{bad}");
        }
        assert!(!bind(Kind::Text, "a\0") && bind(Kind::Text, "O'Brien; --"));
    }

    #[test]
    fn numerics_keep_their_digits() {
        for number in [0, 1, -1, 9_999, 10_000, 120_030_000, i64::MAX, i64::MIN] {
            assert_eq!(digits(&numeric_of(number)).unwrap(), number.to_string());
        }
        let wire = |weight: i16, sign: u16, places: u16, groups: &[u16]| {
            let mut bytes = Vec::new();
            bytes.extend(u16::try_from(groups.len()).unwrap().to_be_bytes());
            bytes.extend(weight.to_be_bytes());
            bytes.extend(sign.to_be_bytes());
            bytes.extend(places.to_be_bytes());
            for group in groups {
                bytes.extend(group.to_be_bytes());
            }
            digits(&bytes)
        };
        assert_eq!(wire(0, 0, 2, &[5]).unwrap(), "5.00");
        assert_eq!(wire(1, 0x4000, 4, &[1, 2345, 6700]).unwrap(), "-12345.6700");
        assert_eq!(wire(-1, 0, 3, &[1230]).unwrap(), "0.123");
        assert_eq!(wire(-2, 0, 8, &[12]).unwrap(), "0.00000012");
        assert_eq!(wire(0, 0xC000, 0, &[]), None, "NaN");
        assert_eq!(digits(&[0, 1]), None);
    }
}
