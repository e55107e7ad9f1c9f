//! Arguments that are neither recipients nor URLs, such as files, channels and ids, must come from where the policy says.
//!
//! Judged with the recipients: a channel or a file may be whom a call reaches. Strings and numbers at the named places are
//! compared as words; elements of an array each for itself; null and absent ones pass.

use serde_json::Value;

use super::Context;
use super::support::{Objections, finding};
use super::vouch::{Unlisted, ValueKind, Vouchers};
use crate::item::ToolCall;
use crate::policy::{ArgumentRule, Otherwise, Policy};
use crate::source::Problem;
use crate::store::Stores;
use crate::verdict::{LayerId, Reason, Undecided};

/// A rule, ready to run.
pub(super) struct Arguments {
    rule: ArgumentRule,
    vouchers: Vouchers,
}

impl Arguments {
    pub(super) fn new(
        rule: &ArgumentRule,
        policy: &Policy,
        stores: &Stores,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let by = (rule.allow.as_slice(), rule.otherwise);
        let known = (policy, stores);
        Self {
            rule: rule.clone(),
            vouchers: Vouchers::new(LayerId::Recipients, &rule.id, by, known, problems),
        }
    }

    /// Adds what nothing vouches for.
    pub(super) async fn judge(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        objections: &mut Objections,
    ) -> Result<(), Undecided> {
        let mut values = Vec::new();
        for selector in &self.rule.at {
            for (at, value) in selector.select(&call.args.value) {
                match value {
                    Value::Array(elements) => {
                        for (index, element) in elements.iter().enumerate() {
                            self.value(format!("{at}/{index}"), element, &mut values, objections);
                        }
                    }
                    _ => self.value(at, value, &mut values, objections),
                }
            }
        }
        if objections.is_denied() {
            return Ok(());
        }
        let read = |text: &str| vec![text.to_owned()];
        for unvouched in self
            .vouchers
            .judge((&call.tool, context), values, read)
            .await?
        {
            let finding = finding(
                LayerId::Recipients,
                &self.rule.id,
                Reason::ConditionFailed,
                Some(unvouched.value.at),
                unvouched.detail,
            );
            objections.add(unvouched.otherwise, finding);
        }
        Ok(())
    }

    fn value(
        &self,
        at: String,
        value: &Value,
        values: &mut Vec<Unlisted>,
        objections: &mut Objections,
    ) {
        let key = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                let finding = finding(
                    LayerId::Recipients,
                    &self.rule.id,
                    Reason::ConditionFailed,
                    Some(at),
                    "neither a string nor a number",
                );
                return objections.add(Otherwise::Deny, finding);
            }
        };
        values.push(Unlisted {
            at,
            kind: ValueKind::Text,
            key,
        });
    }
}
