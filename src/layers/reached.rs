//! Whom and what a call reaches, whatever the rules say of it: recipients, payees, hosts, and the values that rules ask about.
//!
//! For the memory of what users have reached before, and for approvers, who want to know what is met for the first time and who
//! named it.

use std::collections::HashSet;
use std::sync::Arc;

use super::Context;
use super::egress::{Url, hosts};
use super::recipients::everybody;
use super::vouch::{Unlisted, ValueKind};
use crate::acquainted::{Acquainted, Digest, Target, TargetKind, Who};
use crate::item::ToolCall;
use crate::names::ToolName;
use crate::policy::{Claim, Policy, Selector};
use crate::provenance::{Class, Trace};
use crate::store::Stores;
use crate::verdict::{LayerId, Undecided};

/// Most targets of one call that are looked at.
const MOST: usize = 1024;

/// A value of a call as it is remembered; `None` where it is none that could be reached.
pub(super) fn target(tool: &ToolName, kind: ValueKind, key: &str) -> Option<Target> {
    let kind = match kind {
        ValueKind::Email => TargetKind::Email,
        ValueKind::Account => TargetKind::Account,
        ValueKind::Phone => TargetKind::Phone,
        ValueKind::Url => {
            let host = Url::read(key).ok()?.target.host.to_string();
            return Some(Target::new(TargetKind::Host, host));
        }
        ValueKind::Text => return Some(Target::text(tool, key.to_owned())),
    };
    Some(Target::new(kind, key.to_owned()))
}

/// Where a value of a call comes from, for who is to approve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// JSON Pointer in the arguments.
    pub at: String,
    /// Who said it.
    pub class: Class,
    /// Which tool gave it in which field, where only tools did: names, never a value.
    pub source: Option<String>,
}

/// What calls reach under a policy. Cheap to clone.
#[derive(Clone)]
pub struct Reached {
    policy: Arc<Policy>,
    acquainted: Arc<dyn Acquainted>,
}

impl Reached {
    /// For calls that this policy judges.
    pub fn new(policy: &Arc<Policy>, stores: &Stores) -> Self {
        Self {
            policy: Arc::clone(policy),
            acquainted: Arc::clone(&stores.acquainted),
        }
    }

    /// Every recipient, payee and URL of the call that a rule of its tool reads, and every value that its rules ask about, once.
    fn values(&self, call: &ToolCall, context: &Context<'_>) -> Vec<Unlisted> {
        let mut values = Vec::new();
        let texts = |at: &[Selector], values: &mut Vec<Unlisted>| {
            for (at, value) in at.iter().flat_map(|at| at.select(&call.args.value)) {
                texts_of(&at, value, values);
            }
        };
        if let Some(rule) = context.rule {
            for rule in &rule.recipients {
                values.extend(everybody(rule, &call.args));
            }
            for rule in &rule.arguments {
                texts(&rule.at, &mut values);
            }
            for condition in &rule.when {
                if let Claim::Argument { at, allow, .. } = &condition.claim
                    && !allow.is_empty()
                {
                    texts(at, &mut values);
                }
            }
        }
        let own = context.rule.map(|rule| &rule.egress[..]);
        let own = own.filter(|rules| !rules.is_empty());
        for rule in own.unwrap_or(self.policy.egress.as_slice()) {
            values.extend(hosts(rule, call, context, own.is_some()));
        }
        let mut known = HashSet::new();
        values.retain(|value| known.insert((value.at.clone(), value.kind, value.key.clone())));
        values.truncate(MOST);
        values
    }

    /// What is remembered of the call once it is carried out.
    pub fn digests(&self, call: &ToolCall, context: &Context<'_>) -> Vec<Digest> {
        let values = self.values(call, context).into_iter();
        let targets = values.filter_map(|value| target(&call.tool, value.kind, &value.key));
        targets.map(|target| target.digest()).collect()
    }

    /// JSON Pointers of the arguments whose recipient, payee, host or other value the user's calls have never reached before.
    ///
    /// # Errors
    /// The memory failed.
    pub async fn first_time(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Vec<String>, Undecided> {
        let values = self.values(call, context).into_iter();
        let (places, digests): (Vec<_>, Vec<_>) = values
            .filter_map(|value| {
                let target = target(&call.tool, value.kind, &value.key)?;
                Some((value.at, target.digest()))
            })
            .unzip();
        if places.is_empty() {
            return Ok(places);
        }
        let who = Who::of(&context.exchange.session.principal);
        let known = self.acquainted.known(&who, &digests).await;
        let known = known.map_err(|cause| Undecided {
            layer: LayerId::Tickets,
            cause: format!("the memory of what users have reached: {cause}"),
        })?;
        let mut first: Vec<_> = places
            .into_iter()
            .zip(known)
            .filter_map(|(at, known)| (!known).then_some(at))
            .collect();
        first.dedup();
        Ok(first)
    }

    /// Who said each of these values, where anything is known of it.
    pub fn origins(&self, call: &ToolCall, context: &Context<'_>) -> Vec<Came> {
        let Some(evidence) = context.exchange.evidence.as_deref() else {
            return Vec::new();
        };
        let values = self.values(call, context).into_iter();
        values
            .map(|value| {
                let standing = evidence.standing(value.kind, &value.key);
                let class = evidence.class(&standing);
                let first = standing.outputs.first();
                let source = first.filter(|_| class == Class::Tainted);
                Came {
                    at: value.at,
                    class,
                    source: source.map(Trace::words),
                }
            })
            .collect()
    }
}

/// Strings and numbers, elements of an array each for itself.
fn texts_of(at: &str, value: &serde_json::Value, values: &mut Vec<Unlisted>) {
    use serde_json::Value;
    let key = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                if !element.is_array() {
                    texts_of(&format!("{at}/{index}"), element, values);
                }
            }
            return;
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => return,
    };
    values.push(Unlisted {
        at: at.to_owned(),
        kind: ValueKind::Text,
        key,
    });
}
