//! What becomes of what nothing allows.

use crate::provenance::Class;

/// What becomes of a value that no list allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Otherwise {
    /// The call is refused.
    #[default]
    Deny,
    /// The call waits for a ticket; without an approver it is refused.
    Hold,
}

impl Otherwise {
    /// The stricter of two.
    #[must_use]
    pub const fn or_stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Hold, Self::Hold) => Self::Hold,
            _ => Self::Deny,
        }
    }

    /// The milder of two.
    #[must_use]
    pub const fn or_milder(self, other: Self) -> Self {
        match (self, other) {
            (Self::Deny, Self::Deny) => Self::Deny,
            _ => Self::Hold,
        }
    }
}

/// What becomes of a value that nothing allows, by what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fallback {
    /// The user or the operator said it.
    pub said: Otherwise,
    /// Only tools gave it.
    pub tainted: Otherwise,
    /// Nobody said it.
    pub unseen: Otherwise,
    /// The user has reached it before, whoever said it now; `None`: that does not count.
    pub known: Option<Otherwise>,
}

impl Fallback {
    /// Of writes where somebody approves: what tools gave waits, what nobody said is refused.
    pub const USUAL: Self = Self {
        said: Otherwise::Hold,
        tainted: Otherwise::Hold,
        unseen: Otherwise::Deny,
        known: None,
    };

    /// What becomes of a value of this class. What nobody can tell is the stricter of what it may be.
    pub const fn of(&self, class: Class, known: bool) -> Otherwise {
        match (self.known, class) {
            (Some(otherwise), _) if known => otherwise,
            (_, Class::Said) => self.said,
            (_, Class::Tainted) => self.tainted,
            (_, Class::Unseen) => self.unseen,
            (_, Class::Unknown) => self.tainted.or_stricter(self.unseen),
        }
    }

    /// The strictest of all, for what is no value of a call.
    pub const fn strictest(&self) -> Otherwise {
        let all = self.said.or_stricter(self.tainted).or_stricter(self.unseen);
        match self.known {
            Some(known) => all.or_stricter(known),
            None => all,
        }
    }

    /// Whether a call may have to wait for a ticket.
    pub fn can_hold(&self) -> bool {
        let all = [self.said, self.tainted, self.unseen];
        all.contains(&Otherwise::Hold) || self.known == Some(Otherwise::Hold)
    }

    /// Whether it matters who said a value.
    pub fn asks_who(&self) -> bool {
        self.said != self.tainted || self.tainted != self.unseen
    }
}

impl From<Otherwise> for Fallback {
    fn from(otherwise: Otherwise) -> Self {
        Self {
            said: otherwise,
            tainted: otherwise,
            unseen: otherwise,
            known: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_tell_is_never_easier_than_what_it_may_be() {
        let both = [Otherwise::Deny, Otherwise::Hold];
        for said in both {
            for tainted in both {
                for unseen in both {
                    let fallback = Fallback {
                        said,
                        tainted,
                        unseen,
                        known: None,
                    };
                    let unknown = fallback.of(Class::Unknown, true);
                    for class in [Class::Tainted, Class::Unseen] {
                        let held = fallback.of(class, true) == Otherwise::Hold;
                        assert!(held || unknown == Otherwise::Deny, "{fallback:?}");
                    }
                    let all = [said, tainted, unseen];
                    assert_eq!(fallback.can_hold(), all.contains(&Otherwise::Hold));
                    assert_eq!(
                        fallback.strictest() == Otherwise::Deny,
                        all.contains(&Otherwise::Deny)
                    );
                }
            }
        }
    }
}
