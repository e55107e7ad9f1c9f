//! People and accounts that a call reaches must be allowed: by a list, or by what else vouches for them.
//!
//! One file per kind reads its recipients into the one form in which they are compared. What cannot be read is denied, also
//! where a rule would otherwise hold, and so is a call in which a rule finds nobody.

mod account;
mod calendar;
mod chat;
mod code;
mod email;
mod headers;
mod judge;
mod message;
mod phone;
mod regions;
mod share;
mod undeclared;
mod words;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

pub use account::{read_account, read_iban};
pub use chat::{read_chat, read_integer};
pub use code::{Code, Fault, Objection};
pub use email::{Address, read_list};
use futures_util::future::BoxFuture;
pub use judge::judge;
pub use message::{Recipients as MessageRecipients, read_message};
pub use phone::read_phone;
pub use regions::Region;

use super::arguments::Arguments;
use super::support::{ByRule, Objections, applying, finding, list};
use super::vouch::{Unlisted, Vouchers};
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, ToolCall};
use crate::names::RuleId;
use crate::policy::{
    Effect, List, Otherwise, Policy, RecipientKind, RecipientRule, ToolRule, Undeclared, lists,
};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::verdict::{Finding, LayerId, Reason, Undecided, Verdict};
use crate::wire::json::{BODY_DEPTH, Document, JsonError};

/// The entry of the registry.
pub const RECIPIENTS: LayerDef = LayerDef {
    id: LayerId::Recipients,
    doc: "people and accounts in arguments are allowed ones",
    build,
};

/// Rule id of a text that looks like a recipient and that no rule asks for.
const UNDECLARED: &str = "undeclared_recipients";

struct Recipients {
    rules: ByRule<Ready>,
    arguments: ByRule<Arguments>,
    /// The policy's word for every tool that writes; `None`: said by none.
    undeclared: Option<Undeclared>,
    /// Rules of which a warning was logged: that one forgets an argument is said once.
    warned: Mutex<HashSet<RuleId>>,
}

/// A rule with its lists joined and its look-ups checked.
struct Ready {
    rule: RecipientRule,
    list: List,
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
        Ok(Arc::new(Recipients {
            rules,
            arguments,
            undeclared: policy.undeclared_recipients,
            warned: Mutex::default(),
        }))
    } else {
        Err(Problems(problems))
    }
}

/// Every recipient that the rule reads in a call, listed or not; none where it is not strict JSON.
pub(super) fn everybody(rule: &RecipientRule, args: &crate::item::Arguments) -> Vec<Unlisted> {
    let nobody = List::default();
    let found = judge::find(rule, &nobody, args);
    found.map(|found| found.unlisted).unwrap_or_default()
}

/// Where in arguments texts stand that look like recipients and that no rule is for.
pub(crate) fn undeclared(rule: Option<&ToolRule>, args: &serde_json::Value) -> Vec<String> {
    let document = Document::read(args.to_string().into(), BODY_DEPTH);
    document.map_or_else(
        |_| Vec::new(),
        |document| undeclared::find(rule, &document, usize::MAX),
    )
}

/// What a list must have for recipients of a kind, in the words of the policy; `None`: it has it.
pub(crate) fn lacks(list: &List, kind: RecipientKind) -> Option<&'static str> {
    let mailboxes = || {
        list.emails.is_empty()
            && list.email_domains.is_empty()
            && list.email_subdomains_of.is_empty()
    };
    let (empty, keys) = match kind {
        RecipientKind::Email | RecipientKind::RawEmail | RecipientKind::Calendar => (
            mailboxes(),
            "`emails`, `email_domains` or `email_subdomains_of`",
        ),
        RecipientKind::Phone => (list.phones.is_empty(), "`phones`"),
        RecipientKind::Account | RecipientKind::Iban => (list.accounts.is_empty(), "`accounts`"),
        RecipientKind::Chat => (list.chats.is_empty(), "`chats`"),
        RecipientKind::Share => (
            mailboxes() && list.share_domains.is_empty() && list.chats.is_empty(),
            "`emails`, `email_domains`, `email_subdomains_of`, `share_domains` or `chats`",
        ),
    };
    empty.then_some(keys)
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
            list: List::default(),
            vouchers: Vouchers::new(LayerId::Recipients, &rule.id, by, known, problems),
        };
        for name in lists(&rule.allow) {
            let added = list(policy, name, &rule.id).and_then(|list| {
                if let Some(keys) = lacks(list, rule.kind) {
                    return Err(Problem::new(format!(
                        "{}: the list `{name}` has no {keys}, so it allows nobody here",
                        rule.id
                    ))
                    .help(format!(
                        "add {keys} to `lists.{name}`, or name another list"
                    )));
                }
                ready.list.add(list);
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
        let found =
            judge::find(&self.rule, &self.list, &call.args).map_err(|error| unreadable(&error))?;
        for objection in found.objections {
            let (reason, otherwise) = if objection.code.is_understood() {
                (Reason::RecipientNotAllowed, self.rule.otherwise.strictest())
            } else {
                (Reason::RecipientUnreadable, Otherwise::Deny)
            };
            let detail = format!("{}: {}", objection.code, objection.why);
            objections.add(otherwise, self.finding(reason, objection.at, detail));
        }
        if objections.is_denied() {
            return Ok(());
        }
        let read = |text: &str| judge::canonical(&self.rule, text);
        let about = (&call.tool, context);
        let unvouched = self.vouchers.judge(about, found.unlisted, read).await?;
        for unvouched in unvouched {
            let code = Code::RecipientNotAllowed;
            let detail = format!("{code}: {}", unvouched.detail);
            let finding = self.finding(Reason::RecipientNotAllowed, unvouched.value.at, detail);
            objections.add(unvouched.otherwise, finding);
        }
        Ok(())
    }

    fn finding(&self, reason: Reason, at: String, detail: String) -> Finding {
        finding(LayerId::Recipients, &self.rule.id, reason, Some(at), detail)
    }
}

fn unreadable(error: &JsonError) -> Undecided {
    Undecided {
        layer: LayerId::Recipients,
        cause: format!("arguments that are not strict JSON: {error}"),
    }
}

impl Recipients {
    /// What is to become of undeclared recipients in such a call; `None`: they are not looked for.
    fn undeclared(&self, context: &Context<'_>) -> Option<Undeclared> {
        let Some(rule) = context.rule else {
            // What nobody described is a write.
            return self.undeclared;
        };
        match rule.undeclared_recipients.or(self.undeclared) {
            _ if rule.effect == Effect::Read => None,
            None => (!rule.recipients.is_empty()).then_some(Undeclared::Warn),
            said => said,
        }
    }

    /// Where the first one stands.
    fn first_undeclared(
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Option<String>, Undecided> {
        let document = Document::read(call.args.raw.clone(), BODY_DEPTH);
        let document = document.map_err(|error| unreadable(&error))?;
        let all = undeclared::find(context.rule, &document, 1);
        Ok(all.into_iter().next())
    }

    fn refuse_undeclared(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        objections: &mut Objections,
    ) -> Result<(), Undecided> {
        if self.undeclared(context) != Some(Undeclared::Deny) {
            return Ok(());
        }
        if let Some(at) = Self::first_undeclared(call, context)? {
            let rule = undeclared_rule(context);
            let detail = "recipient_not_allowed: it looks like a recipient, and no rule of the tool is for this argument";
            let reason = Reason::RecipientNotAllowed;
            objections.add(
                Otherwise::Deny,
                finding(LayerId::Recipients, &rule, reason, Some(at), detail),
            );
        }
        Ok(())
    }
}

fn undeclared_rule(context: &Context<'_>) -> RuleId {
    context
        .rule
        .map_or_else(|| RuleId::from(UNDECLARED), |rule| rule.id.clone())
}

impl Layer for Recipients {
    fn id(&self) -> LayerId {
        LayerId::Recipients
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        let rules = applying(&self.rules, context).is_empty();
        let arguments = applying(&self.arguments, context).is_empty();
        matches!(item.item, Item::ToolCall(_))
            && (!(rules && arguments) || self.undeclared(context).is_some())
    }

    fn has_undeclared(&self, item: &Located, context: &Context<'_>) -> bool {
        let Item::ToolCall(call) = &item.item else {
            return false;
        };
        let Some(then) = self.undeclared(context) else {
            return false;
        };
        let found = matches!(Self::first_undeclared(call, context), Ok(Some(_)));
        if found && then == Undeclared::Warn {
            let rule = undeclared_rule(context);
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.insert(rule.clone()) {
                tracing::warn!(
                    rule = %rule,
                    "a call has an argument that looks like a recipient and that no rule is for: name it in `recipients`, or write `undeclared_recipients: deny`"
                );
            }
        }
        found
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
                self.refuse_undeclared(call, context, &mut objections)?;
            }
            Ok(objections.verdict())
        })
    }
}
