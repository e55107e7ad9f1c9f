//! What vouches for a value of a call besides a list: a look-up for the principal, or where the value comes from.
//!
//! Shared by every layer whose rules have `allow`: each gives its values in the one form in which it compares them.

use std::borrow::Cow;
use std::collections::HashSet;

use super::Context;
use super::support::ReadyLookup;
use crate::names::RuleId;
use crate::policy::{Allowed, Origin, Otherwise, Policy, lookups, origins};
pub(super) use crate::provenance::ValueKind;
use crate::provenance::{Evidence, Standing, Trace};
use crate::source::Problem;
use crate::store::Stores;
use crate::store::sql::SqlValue;
use crate::verdict::{LayerId, Undecided};
use crate::wire::offload::offload;

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
    origins: Vec<Origin>,
}

/// Whether the value comes from there.
fn vouches(
    evidence: &Evidence,
    origin: &Origin,
    value: &Unlisted,
    standing: &Standing<'_>,
) -> bool {
    match origin {
        Origin::User => standing.user,
        Origin::UserSite => {
            let site = || value.kind == ValueKind::Url && evidence.user_named_site(&value.key);
            standing.user || site()
        }
        Origin::Operator => standing.operator,
        Origin::ToolOutput(rule) => {
            let mut outputs = standing.outputs.iter();
            outputs.any(|trace| evidence.vouches(rule, value.kind, &value.key, trace))
        }
    }
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
            origins: origins(allow).cloned().collect(),
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
        let evidence = context.exchange.evidence.as_deref();
        let rest = values
            .into_iter()
            .filter(|value| !known.contains(&value.key));
        let length = evidence.map_or(0, Evidence::bytes);
        let unvouched = rest.filter_map(|value| {
            let detail = offload(length, || self.traced(evidence, &value))?;
            Some(Unvouched {
                value,
                detail,
                otherwise: self.otherwise,
            })
        });
        Ok(unvouched.collect())
    }

    /// Why no origin vouches for the value; `None` where one does.
    fn traced(&self, evidence: Option<&Evidence>, value: &Unlisted) -> Option<Cow<'static, str>> {
        let nothing = "the value is on none of the rule's lists and look-ups";
        let Some(evidence) = evidence.filter(|_| !self.origins.is_empty()) else {
            return Some(Cow::Borrowed(nothing));
        };
        let standing = evidence.standing(value.kind, &value.key);
        if self
            .origins
            .iter()
            .any(|origin| vouches(evidence, origin, value, &standing))
        {
            return None;
        }
        let detail = match (standing.user, standing.operator, standing.outputs.first()) {
            (true, ..) => {
                Cow::Borrowed("the user has said the value, for which the rule does not vouch")
            }
            (_, true, _) => {
                Cow::Borrowed("the operator has said the value, for which the rule does not vouch")
            }
            (_, _, None) => {
                Cow::Borrowed("nobody has said the value: no user, no operator and no tool")
            }
            (_, _, Some(trace)) => Cow::Owned(format!(
                "only tools gave the value: {}",
                Trace::words(trace)
            )),
        };
        Some(detail)
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
