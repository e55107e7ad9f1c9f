//! Who answers held calls in a trial.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::eval::case::{Call, Case, Cause};
use crate::store::tickets::digest::sha256_hex;

/// One in so many: the finest share of errors.
const PARTS: u32 = 10_000;

/// Who answers held calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Approver {
    /// Nobody: held is refused.
    #[default]
    None,
    /// Approves what the user rightly asked for, and nothing else.
    Oracle,
    /// Approves everything.
    Always,
    /// An oracle that errs: of so many answers in ten thousand it gives the other one.
    Errs {
        /// From 1 to 10 000.
        in_10_000: u32,
        /// Chooses which: the same answers of the same seed, in every arm and reading.
        seed: u64,
    },
}

impl Approver {
    /// Whether this call of the case is approved.
    pub fn approves(self, case: &Case, call: &Call) -> bool {
        let rightly = matches!(call.cause, Cause::Task);
        match self {
            Self::None => false,
            Self::Oracle => rightly,
            Self::Always => true,
            Self::Errs { in_10_000, seed } => {
                rightly != (drawn(seed, &case.id, &call.id) < in_10_000)
            }
        }
    }

    /// Everybody that `--approver all` names.
    pub const EVERYBODY: [Self; 4] = [
        Self::None,
        Self::Oracle,
        Self::Always,
        Self::Errs {
            in_10_000: 1000,
            seed: 0,
        },
    ];

    /// What it is shown as, read back.
    pub(in crate::eval) fn shown(text: &str) -> Option<Self> {
        let (word, seed) = match text
            .strip_suffix(')')
            .and_then(|it| it.split_once(" (seed "))
        {
            Some((word, seed)) => (word, seed.parse().ok()?),
            None => (text, 0),
        };
        word.parse::<Self>()
            .ok()
            .map(|approver| approver.seeded(seed))
    }

    /// As the name of a folder.
    pub(in crate::eval) fn folder(self) -> String {
        let shown = self.to_string();
        let word = shown.split_once(' ').map_or(&*shown, |(word, _)| word);
        word.replace(':', "-")
    }

    /// The same with another seed, where it has one.
    #[must_use]
    pub const fn seeded(self, seed: u64) -> Self {
        match self {
            Self::Errs { in_10_000, .. } => Self::Errs { in_10_000, seed },
            other => other,
        }
    }
}

/// Below [`PARTS`], from the seed and the names alone.
fn drawn(seed: u64, case: &str, call: &str) -> u32 {
    let hash = sha256_hex(format!("{seed}\0{case}\0{call}").as_bytes());
    let digits = hash.get(..13).unwrap_or_default();
    let number = u64::from_str_radix(digits, 16).unwrap_or_default();
    // 52 bits over ten thousand: no share is favoured that anybody could see.
    u32::try_from(number % u64::from(PARTS)).unwrap_or_default()
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Oracle => f.write_str("oracle"),
            Self::Always => f.write_str("always"),
            Self::Errs { in_10_000, seed } => {
                let share = format!("{:04}", in_10_000 % PARTS);
                let share = share.trim_end_matches('0');
                let (whole, dot) = (in_10_000 / PARTS, if share.is_empty() { "" } else { "." });
                write!(f, "errs:{whole}{dot}{share} (seed {seed})")
            }
        }
    }
}

impl Serialize for Approver {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl FromStr for Approver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self::None),
            "oracle" => return Ok(Self::Oracle),
            "always" => return Ok(Self::Always),
            _ => {}
        }
        let share = text.strip_prefix("errs:").and_then(in_10_000);
        match share {
            Some(in_10_000) => Ok(Self::Errs { in_10_000, seed: 0 }),
            None => Err(
                "write `none`, `oracle`, `always`, or `errs:P` with a share such as 0.05 (at most 1, four digits behind the dot)"
                    .to_owned(),
            ),
        }
    }
}

fn in_10_000(text: &str) -> Option<u32> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !matches!(whole, "0" | "1") || rest.len() > 4 || !digits(rest) {
        return None;
    }
    let parts = format!("{rest:0<4}").parse::<u32>().ok()?;
    let share = whole.parse::<u32>().ok()? * PARTS + parts;
    (1..=PARTS).contains(&share).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_shares_are_read_back() {
        for (text, shown) in [
            ("none", "none"),
            ("oracle", "oracle"),
            ("always", "always"),
            ("errs:0.05", "errs:0.05 (seed 0)"),
            ("errs:0.0001", "errs:0.0001 (seed 0)"),
            ("errs:1", "errs:1 (seed 0)"),
        ] {
            let approver = text.parse::<Approver>().unwrap().seeded(0);
            assert_eq!(approver.to_string(), shown);
            assert_eq!(Approver::shown(shown), Some(approver));
            assert_eq!(approver.folder(), text.replace(':', "-"));
        }
        for wrong in [
            "",
            "errs",
            "errs:0",
            "errs:1.1",
            "errs:2",
            "errs:-0.1",
            "errs:0.00001",
            "Oracle",
        ] {
            assert!(wrong.parse::<Approver>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_are_as_many_as_asked_for_and_repeat() {
        let errors = |seed: u64| {
            let names = (0..10_000).map(|n| format!("case-{n}"));
            names
                .filter(|case| drawn(seed, case, "c1") < 500)
                .collect::<Vec<_>>()
        };
        let first = errors(1);
        assert!((400..600).contains(&first.len()), "{}", first.len());
        assert_eq!(first, errors(1));
        assert_ne!(first, errors(2));
    }
}
