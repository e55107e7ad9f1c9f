//! People and accounts that a call reaches must be allowed: by a list, or by a look-up for the principal.
//!
//! A selected value is a string, an array of strings, or null (nobody). Whatever cannot be read is denied, also where a rule
//! would otherwise hold.

mod account;
mod email;

use std::collections::HashSet;
use std::sync::Arc;

pub use account::{read_account, read_iban};
pub use email::{Address, read_list};
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::arguments::Arguments;
use super::support::{ByRule, Objections, applying, finding, list};
use super::vouch::{Unlisted, ValueKind, Vouchers};
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, ToolCall};
use crate::policy::{Otherwise, Policy, RecipientKind, RecipientRule, lists};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::verdict::{LayerId, Reason, Undecided, Verdict};

/// The entry of the registry.
pub const RECIPIENTS: LayerDef = LayerDef {
    id: LayerId::Recipients,
    doc: "people and accounts in arguments are allowed ones",
    build,
};

/// Why a recipient could not be read: fixed words, never the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub &'static str);

struct Recipients {
    rules: ByRule<Ready>,
    arguments: ByRule<Arguments>,
}

/// A rule with its lists joined and its look-ups checked.
struct Ready {
    rule: RecipientRule,
    values: HashSet<String>,
    domains: HashSet<String>,
    vouchers: Vouchers,
}

fn build(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    let mut problems = Vec::new();
    let mut rules = ByRule::new();
    let mut arguments = ByRule::new();
    for tool in &policy.tools {
        let ready = tool.arguments.iter();
        let ready = ready.map(|rule| Arguments::new(rule, policy, stores, &mut problems));
        arguments.insert(tool.id.clone(), ready.collect::<Vec<_>>());
        let ready: Vec<_> = tool
            .recipients
            .iter()
            .map(|rule| Ready::new(rule, policy, stores, &mut problems))
            .collect();
        if !ready.is_empty() {
            rules.insert(tool.id.clone(), ready);
        }
    }
    if problems.is_empty() {
        Ok(Arc::new(Recipients { rules, arguments }))
    } else {
        Err(Problems(problems))
    }
}

impl Ready {
    fn new(
        rule: &RecipientRule,
        policy: &Policy,
        stores: &Stores,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let by = (rule.allow.as_slice(), rule.otherwise);
        let known = (policy, stores);
        let mut ready = Self {
            rule: rule.clone(),
            values: HashSet::new(),
            domains: HashSet::new(),
            vouchers: Vouchers::new(LayerId::Recipients, &rule.id, by, known, problems),
        };
        for name in lists(&rule.allow) {
            let added = list(policy, name, &rule.id).and_then(|list| {
                let (values, domains, kinds) = match rule.kind {
                    RecipientKind::Email => (
                        &list.emails,
                        Some(&list.email_domains),
                        "`emails` or `email_domains`",
                    ),
                    RecipientKind::Account | RecipientKind::Iban => {
                        (&list.accounts, None, "`accounts`")
                    }
                };
                if values.is_empty() && domains.is_none_or(HashSet::is_empty) {
                    return Err(Problem::new(format!(
                        "{}: the list `{name}` has no {kinds}, so it allows nobody here",
                        rule.id
                    ))
                    .help(format!(
                        "add {kinds} to `lists.{name}`, or name another list"
                    )));
                }
                ready.values.extend(values.iter().cloned());
                ready.domains.extend(domains.into_iter().flatten().cloned());
                Ok(())
            });
            problems.extend(added.err());
        }
        ready
    }

    async fn judge(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        objections: &mut Objections,
    ) -> Result<(), Undecided> {
        let mut unlisted = Vec::new();
        for (at, value) in self.selected(call) {
            match self.read(value) {
                Ok(found) => unlisted.extend(
                    found
                        .into_iter()
                        .filter(|recipient| !self.lists(recipient))
                        .map(|recipient| recipient.unlisted(&at)),
                ),
                Err(Unreadable(why)) => objections.add(
                    Otherwise::Deny,
                    finding(
                        LayerId::Recipients,
                        &self.rule.id,
                        Reason::RecipientUnreadable,
                        Some(at),
                        why,
                    ),
                ),
            }
        }
        if unlisted.is_empty() || objections.is_denied() {
            return Ok(());
        }
        let read = |text: &str| {
            let read = self
                .read(&Value::String(text.to_owned()))
                .unwrap_or_default();
            read.iter().map(Recipient::key).collect()
        };
        for unvouched in self.vouchers.judge(context, unlisted, read).await? {
            let finding = finding(
                LayerId::Recipients,
                &self.rule.id,
                Reason::RecipientNotAllowed,
                Some(unvouched.value.at),
                unvouched.detail,
            );
            objections.add(unvouched.otherwise, finding);
        }
        Ok(())
    }

    /// Values at the rule's places, arrays taken apart, nulls left out.
    fn selected<'v>(&self, call: &'v ToolCall) -> Vec<(String, &'v Value)> {
        let mut values = Vec::new();
        for selector in &self.rule.at {
            for (at, value) in selector.select(&call.args.value) {
                match value {
                    Value::Null => {}
                    Value::Array(elements) => values.extend(
                        elements
                            .iter()
                            .enumerate()
                            .filter(|(_, element)| !element.is_null())
                            .map(|(index, element)| (format!("{at}/{index}"), element)),
                    ),
                    _ => values.push((at, value)),
                }
            }
        }
        values
    }

    fn read(&self, value: &Value) -> Result<Vec<Recipient>, Unreadable> {
        const WRONG: Unreadable = Unreadable("not a string");
        let digits;
        let text = match value {
            Value::String(text) => text,
            // By exact digits: an integer that no 64 bits hold is a float here.
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                digits = number.to_string();
                &digits
            }
            _ => return Err(WRONG),
        };
        let one = |account: String| {
            Some(account)
                .filter(|account| !account.is_empty())
                .map(Recipient::Account)
                .into_iter()
                .collect()
        };
        match self.rule.kind {
            RecipientKind::Email if !value.is_string() => Err(WRONG),
            RecipientKind::Email => {
                read_list(text).map(|found| found.into_iter().map(Recipient::Email).collect())
            }
            RecipientKind::Account => read_account(text).map(one),
            RecipientKind::Iban => read_iban(text).map(one),
        }
    }

    fn lists(&self, recipient: &Recipient) -> bool {
        if let Recipient::Email(address) = recipient
            && self.domains.contains(&address.domain)
        {
            return true;
        }
        self.values.contains(&recipient.key())
    }
}

enum Recipient {
    Email(Address),
    Account(String),
}

impl Recipient {
    fn unlisted(&self, at: &str) -> Unlisted {
        let kind = match self {
            Self::Email(_) => ValueKind::Email,
            Self::Account(_) => ValueKind::Account,
        };
        Unlisted {
            at: at.to_owned(),
            kind,
            key: self.key(),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Email(address) => address.to_key(),
            Self::Account(account) => account.clone(),
        }
    }
}

impl Layer for Recipients {
    fn id(&self) -> LayerId {
        LayerId::Recipients
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        let rules = applying(&self.rules, context).is_empty();
        let arguments = applying(&self.arguments, context).is_empty();
        matches!(item.item, Item::ToolCall(_)) && !(rules && arguments)
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        Box::pin(async move {
            let mut objections = Objections::default();
            if let Item::ToolCall(call) = &item.item {
                for ready in applying(&self.rules, context) {
                    ready.judge(call, context, &mut objections).await?;
                }
                for ready in applying(&self.arguments, context) {
                    ready.judge(call, context, &mut objections).await?;
                }
            }
            Ok(objections.verdict())
        })
    }
}
