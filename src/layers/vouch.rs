//! What vouches for a value of a call besides a list: a look-up for the principal, or where the value comes from.
//!
//! Shared by every layer whose rules have `allow`: each gives its values in the one form in which it compares them.

use std::borrow::Cow;
use std::collections::HashSet;

use super::Context;
use super::support::ReadyLookup;
use crate::names::RuleId;
use crate::policy::{Allowed, Otherwise, Policy, lookups};
use crate::source::Problem;
use crate::store::Stores;
use crate::store::sql::SqlValue;
use crate::verdict::{LayerId, Undecided};

/// What a value is: two kinds never vouch for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ValueKind {
    /// `local@domain`, ASCII lower case, domain as A-label.
    Email,
    /// A URL in the serialisation of the one reader.
    Url,
    /// An account number without spaces, upper case; an IBAN too.
    Account,
    /// E.164 with `+`.
    Phone,
    /// An opaque id, or any other text, as it stands.
    Text,
}

/// A value of a call that no list allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unlisted {
    /// JSON Pointer in the arguments.
    pub(super) at: String,
    /// What it is.
    pub(super) kind: ValueKind,
    /// Its canonical form.
    pub(super) key: String,
}

/// A value that nothing vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unvouched {
    /// The value.
    pub(super) value: Unlisted,
    /// For the finding: fixed words, and names of tools and fields, never the value.
    pub(super) detail: Cow<'static, str>,
    /// What becomes of the call.
    pub(super) otherwise: Otherwise,
}

/// The entries of a rule's `allow` that are no lists, ready to run.
#[derive(Clone)]
pub(super) struct Vouchers {
    layer: LayerId,
    otherwise: Otherwise,
    lookups: Vec<ReadyLookup>,
}

impl Vouchers {
    /// Finds and checks what the entries need; every problem is reported.
    pub(super) fn new(
        layer: LayerId,
        rule: &RuleId,
        (allow, otherwise): (&[Allowed], Otherwise),
        (policy, stores): (&Policy, &Stores),
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut ready = Vec::new();
        for name in lookups(allow) {
            match ReadyLookup::new(policy, stores, name, rule, None) {
                Ok(lookup) => ready.push(lookup),
                Err(problem) => problems.push(problem),
            }
        }
        Self {
            layer,
            otherwise,
            lookups: ready,
        }
    }

    /// Those of the values that nothing vouches for. `read` brings an answer of a look-up into canonical form: what cannot be
    /// read vouches for nothing.
    ///
    /// # Errors
    /// A look-up that failed.
    pub(super) async fn judge(
        &self,
        context: &Context<'_>,
        values: Vec<Unlisted>,
        read: impl Fn(&str) -> Vec<String> + Send,
    ) -> Result<Vec<Unvouched>, Undecided> {
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.looked_up(context, read).await?;
        let rest = values
            .into_iter()
            .filter(|value| !known.contains(&value.key));
        let unvouched = rest.map(|value| Unvouched {
            value,
            detail: Cow::Borrowed("the value is on none of the rule's lists and look-ups"),
            otherwise: self.otherwise,
        });
        Ok(unvouched.collect())
    }

    async fn looked_up(
        &self,
        context: &Context<'_>,
        read: impl Fn(&str) -> Vec<String> + Send,
    ) -> Result<HashSet<String>, Undecided> {
        let mut known = HashSet::new();
        for lookup in &self.lookups {
            let session = &context.exchange.session;
            for value in lookup
                .values(self.layer, session, Some(context.memo))
                .await?
            {
                let text = match value {
                    SqlValue::Text(text) => text,
                    SqlValue::Integer(number) => number.to_string(),
                    SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => continue,
                };
                known.extend(read(&text));
            }
        }
        Ok(known)
    }
}
