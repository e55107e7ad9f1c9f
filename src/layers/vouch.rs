//! What vouches for a value of a call besides a list: a look-up for the principal, or where the value comes from.
//!
//! Shared by every layer whose rules have `allow`: each gives its values in the one form in which it compares them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::Context;
use super::reached::target;
use super::support::ReadyLookup;
use crate::acquainted::{Acquainted, Who};
use crate::names::{RuleId, ToolName};
use crate::policy::{Allowed, Fallback, Origin, Otherwise, Policy, asks_known, lookups};
pub(super) use crate::provenance::ValueKind;
use crate::provenance::{Class, Evidence, Flags, Standing};
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
    otherwise: Fallback,
    lookups: Vec<ReadyLookup>,
    origins: Vec<From>,
    flags: Option<Flags>,
    /// Asked where an entry or `otherwise` asks for it.
    acquainted: Option<Arc<dyn Acquainted>>,
}

/// An entry that asks where a value comes from, or whether it is known.
#[derive(Clone)]
struct From {
    /// `None`: anywhere.
    origin: Option<Origin>,
    /// The user has reached it before.
    known: bool,
}

impl From {
    fn of(allowed: &Allowed) -> Option<Self> {
        let (origin, known) = match allowed {
            Allowed::List(_) | Allowed::Lookup(_) => return None,
            Allowed::From(origin) => (Some(origin), false),
            Allowed::Known(origin) => (origin.as_ref(), true),
        };
        let origin = origin.cloned();
        Some(Self { origin, known })
    }
}

impl Vouchers {
    /// Finds and checks what the entries need; every problem is reported.
    pub(super) fn new(
        layer: LayerId,
        rule: &RuleId,
        (allow, otherwise): (&[Allowed], Fallback),
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
        let asks = asks_known(allow) || otherwise.known.is_some();
        Self {
            layer,
            otherwise,
            lookups: ready,
            origins: allow.iter().filter_map(From::of).collect(),
            flags: Flags::of(policy),
            acquainted: asks.then(|| Arc::clone(&stores.acquainted)),
        }
    }

    /// Those of the values of a call that nothing vouches for. `read` brings an answer of a look-up into canonical form: what
    /// cannot be read vouches for nothing.
    ///
    /// # Errors
    /// A look-up, or the memory of what is known, that failed.
    pub(super) async fn judge(
        &self,
        (tool, context): (&ToolName, &Context<'_>),
        values: Vec<Unlisted>,
        read: impl Fn(&str) -> Vec<String> + Send,
    ) -> Result<Vec<Unvouched>, Undecided> {
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let listed = self.looked_up(context, read).await?;
        let rest = values.into_iter();
        let rest: Vec<_> = rest.filter(|value| !listed.contains(&value.key)).collect();
        let known = self.known(tool, context, &rest).await?;
        let evidence = context.exchange.evidence.as_deref();
        let length = evidence.map_or(0, Evidence::bytes);
        let unvouched = rest.into_iter().zip(known).filter_map(|(value, known)| {
            let (detail, otherwise) = offload(length, || self.traced(evidence, &value, known))?;
            Some(Unvouched {
                value,
                detail,
                otherwise,
            })
        });
        Ok(unvouched.collect())
    }

    /// Which of the values the user has reached before.
    async fn known(
        &self,
        tool: &ToolName,
        context: &Context<'_>,
        values: &[Unlisted],
    ) -> Result<Vec<bool>, Undecided> {
        let Some(acquainted) = self.acquainted.as_ref().filter(|_| !values.is_empty()) else {
            return Ok(vec![false; values.len()]);
        };
        let digests = values.iter().map(|value| {
            let target = target(tool, value.kind, &value.key);
            target.map(|target| target.digest())
        });
        let digests: Vec<_> = digests.collect();
        let asked: Vec<_> = digests.iter().flatten().copied().collect();
        let who = Who::of(&context.exchange.session.principal);
        let failed = |cause| Undecided {
            layer: self.layer,
            cause: format!("the memory of what users have reached: {cause}"),
        };
        let known = acquainted.known(&who, &asked).await.map_err(failed)?;
        let mut known = known.into_iter();
        let answers = digests
            .iter()
            .map(|digest| digest.is_some() && known.next().unwrap_or_default());
        Ok(answers.collect())
    }

    /// Why nothing vouches for the value, and what becomes of it; `None` where something does.
    fn traced(
        &self,
        evidence: Option<&Evidence>,
        value: &Unlisted,
        known: bool,
    ) -> Option<(Cow<'static, str>, Otherwise)> {
        if self
            .origins
            .iter()
            .any(|from| from.origin.is_none() && from.known && known)
        {
            return None;
        }
        let asks = self.otherwise.asks_who() || self.origins.iter().any(|f| f.origin.is_some());
        let Some(evidence) = evidence.filter(|_| asks) else {
            let nothing = if self.acquainted.is_some() && !known {
                "the value is on none of the rule's lists and look-ups, and met for the first time"
            } else {
                "the value is on none of the rule's lists and look-ups"
            };
            let otherwise = self.otherwise.of(Class::Unknown, known);
            return Some((Cow::Borrowed(nothing), otherwise));
        };
        let standing = evidence.standing(value.kind, &value.key);
        let vouched = self.origins.iter().any(|from| {
            let origin = from.origin.as_ref();
            (known || !from.known)
                && origin.is_some_and(|origin| self.vouches(evidence, origin, value, &standing))
        });
        if vouched {
            return None;
        }
        let class = evidence.class(&standing);
        let otherwise = self.otherwise.of(class, known);
        let why = why(class, &standing);
        let first = self.acquainted.is_some() && !known;
        let why = if first {
            Cow::Owned(format!("{why}; it is met for the first time"))
        } else {
            why
        };
        Some((why, otherwise))
    }

    /// Whether the value comes from there.
    fn vouches(
        &self,
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
                let value = (value.kind, value.key.as_str());
                let flags = self.flags.as_ref();
                let mut outputs = standing.outputs.iter();
                outputs.any(|trace| evidence.vouches(rule, value, trace, flags))
            }
        }
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

/// Why nothing vouches for a value of this class.
fn why(class: Class, standing: &Standing<'_>) -> Cow<'static, str> {
    match (class, standing.outputs.first()) {
        (Class::Said, _) if standing.user => {
            Cow::Borrowed("the user has said the value, for which the rule does not vouch")
        }
        (Class::Said, _) => {
            Cow::Borrowed("the operator has said the value, for which the rule does not vouch")
        }
        (Class::Tainted, Some(trace)) => {
            Cow::Owned(format!("only tools gave the value: {}", trace.words()))
        }
        (Class::Unknown, _) => Cow::Borrowed(
            "nobody of whom is still known has said the value, and not all is known that was said",
        ),
        _ => Cow::Borrowed("nobody has said the value: no user, no operator and no tool"),
    }
}
