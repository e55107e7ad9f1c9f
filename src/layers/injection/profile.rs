//! What is known of a text besides itself: what it is, and how the session's tools are called.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};

use super::rules::Family;

/// What the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// What a tool gave back.
    #[default]
    ToolOutput,
    /// What describes a tool.
    Definition,
    /// What a user wrote.
    User,
}

impl Kind {
    /// The part of a family's weight that counts in such a text. A definition tells a model by right which tools to use and how.
    /// A user asks it by right for a role and for the form of an answer; but what an agent has pasted stands in the same turn, so
    /// that whatever else an injection is made of counts whole.
    pub(super) const fn share(self, family: Family) -> f64 {
        match (self, family) {
            (Self::Definition, Family::Tool) => 0.0,
            (Self::Definition, Family::Sink | Family::Force | Family::Authority)
            | (Self::User, Family::Force | Family::Authority) => 0.5,
            (Self::Definition, Family::Address | Family::Header)
            | (Self::User, Family::Persona | Family::Memory) => 0.7,
            _ => 1.0,
        }
    }

    /// For what is remembered of a text.
    pub(super) const fn tag(self) -> u8 {
        match self {
            Self::ToolOutput => 0,
            Self::Definition => 1,
            Self::User => 2,
        }
    }
}

/// What is known of the text besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile<'a> {
    /// What it is.
    pub kind: Kind,
    /// Exact names of the session's tools: one in an order is evidence.
    pub tools: Option<&'a ToolNames>,
}

/// Most names of one session.
const MOST: usize = 512;

/// Shortest and longest name, in bytes.
const SHORTEST: usize = 4;
const LONGEST: usize = 64;

/// What parts the name of a server from that of its tool, as clients write it.
const SERVER: &str = "__";

/// Names of tools that no text has by chance: an ordinary word, such as `search`, is no evidence of anything.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    /// In lower case, sorted.
    names: Vec<Box<str>>,
    /// A bit for each length of a name.
    lengths: u128,
    /// A bit for each ASCII character that a name begins with, in both cases.
    firsts: u128,
    digest: [u8; 32],
}

impl fmt::Debug for ToolNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolNames").field(&self.names.len()).finish()
    }
}

impl ToolNames {
    /// Those of the names that tell something.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut kept: Vec<Box<str>> = Vec::new();
        for name in names.into_iter().take(MOST) {
            let own = name.rsplit_once(SERVER).map(|(_, own)| own);
            let telling = [Some(name), own].into_iter().flatten().filter(|n| tells(n));
            kept.extend(telling.map(|name| name.to_ascii_lowercase().into()));
        }
        kept.sort_unstable();
        kept.dedup();
        let lengths = kept.iter().fold(0, |all, name| all | 1 << name.len());
        let first = |name: &str| name.bytes().next().unwrap_or(0);
        let firsts = kept.iter().map(|name| first(name)).fold(0, |all, byte| {
            all | 1_u128 << (byte & 0x7f) | 1 << (byte.to_ascii_uppercase() & 0x7f)
        });
        let all = digest(&SHA256, kept.join("\n").as_bytes());
        Self {
            lengths,
            firsts,
            digest: all.as_ref().try_into().unwrap_or_default(),
            names: kept,
        }
    }

    /// Whether none of them tells anything.
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether a word is one of them, in capitals or not.
    pub(super) fn has(&self, word: &[u8]) -> bool {
        if word.len() > LONGEST || (self.lengths >> word.len()) & 1 == 0 {
            return false;
        }
        let found = self.names.binary_search_by(|name| {
            let lower = word.iter().map(u8::to_ascii_lowercase);
            name.bytes().cmp(lower)
        });
        found.is_ok()
    }

    /// Whether one of them begins with this byte.
    #[inline]
    pub(super) const fn may_begin(&self, byte: u8) -> bool {
        byte.is_ascii() && (self.firsts >> byte) & 1 == 1
    }

    /// Whether one of them stands at this place of a view, in capitals or not; more may follow.
    pub(super) fn stands_at(&self, view: &[u8], at: usize) -> bool {
        self.names.iter().any(|name| {
            view.get(at..at + name.len())
                .is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()))
        })
    }

    /// The same for the same names, whatever their order.
    pub(super) const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// Whether a name is none of a language's own words: it has a sign, a digit or a capital inside.
fn tells(name: &str) -> bool {
    let is_sign = |byte: u8| matches!(byte, b'_' | b'-' | b'.') || byte.is_ascii_digit();
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphabetic() || is_sign(byte));
    let mut pairs = name.as_bytes().windows(2);
    let is_odd = pairs.any(|pair| {
        matches!(pair, [one, two] if is_sign(*two) || (one.is_ascii_lowercase() && two.is_ascii_uppercase()))
    });
    is_name && is_odd && (SHORTEST..=LONGEST).contains(&name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_tell_are_known_in_any_case_and_words_are_not() {
        let names = ToolNames::new([
            "send_email",
            "SearchMail",
            "mcp__bank__pay-bill",
            "GET_ORDER",
            "search",
            "Read",
            "get",
            "a_b",
            "two words",
        ]);
        for known in [
            "send_email",
            "SEND_EMAIL",
            "get_order",
            "searchmail",
            "pay-bill",
            "mcp__bank__pay-bill",
        ] {
            assert!(names.has(known.as_bytes()), "{known}");
        }
        for unknown in [
            "search",
            "read",
            "get",
            "a_b",
            "two words",
            "send_emails",
            "",
        ] {
            assert!(!names.has(unknown.as_bytes()), "{unknown}");
        }
        assert!(!names.has(&[b'a'; 200]));
        assert!(ToolNames::new(["search", "Read"]).is_empty());
        let turned = ToolNames::new(["b_two", "a_one"]);
        assert_eq!(turned.digest(), ToolNames::new(["a_one", "b_two"]).digest());
    }
}
