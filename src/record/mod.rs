//! Recordings of whole exchanges: what an agent sent, what the upstream answered and what the guard said of it, as JSON lines.
//!
//! Opt-in (`record` in the config). What is written is taken off the way of the request: bytes are shared, never copied there,
//! and go through a bounded queue to a thread that replaces secrets ([`redact`]) and writes ([`writer`]). Nothing here judges or
//! changes a message, and no fault here refuses one: what could not be written is counted.

pub mod redact;
mod taken;
pub mod writer;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
pub(crate) use taken::{Begun, Taken};
pub use taken::{Recorder, RecorderParts};

use crate::item::{Item, Leg, Located};
use crate::names::RuleId;
use crate::verdict::{Finding, LayerId, Mode, Reason, Ruling, Verdict};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Whether a line is one of these.
pub fn is(value: &Value) -> bool {
    value.get("holdpoint_recording").is_some()
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// [`VERSION`].
    pub holdpoint_recording: u32,
    /// Unique, sortable by time.
    pub id: String,
    /// SHA-256 of the policy that judged it.
    pub policy: String,
    /// The route.
    pub route: String,
    /// Its protocol, as `routes[].protocol` names it.
    pub protocol: String,
    /// For whom.
    pub principal: Who,
    /// The session, as a pseudonym; `None`: nothing tied it to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What the agent sent.
    pub request: Asked,
    /// What the upstream answered, before anything of it was judged; `None`: nothing came, or nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
    /// The code of Holdpoint's own refusal, where it answered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the guard said, item by item.
    #[serde(default)]
    pub judged: Vec<Judged>,
}

/// A principal: names of people and tenants are pseudonyms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// The tenant, as a pseudonym.
    pub tenant: String,
    /// The end user, as a pseudonym.
    pub subject: String,
    /// The agent, as the config or its token names it.
    pub agent: String,
    /// Scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Decoded, as it came but for secrets.
    Body(String),
    /// Why it was not written.
    Withheld(Withheld),
}

/// Why a body was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// It is no text, so nobody can tell whether a secret is in it.
    Binary,
    /// A secret is in it that could not be taken out.
    Secret,
    /// It is longer than what is kept of one exchange.
    TooLong,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Method.
    pub method: String,
    /// Path below the route's prefix, with its query.
    pub path: String,
    /// Header fields that the protocol is read by; never one that carries a credential.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub content: Content,
    /// Secrets that were replaced in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced: usize,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Status.
    pub status: u16,
    /// `Content-Type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Its body; of a stream, its events one after the other.
    pub content: Content,
    /// Secrets that were replaced in it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out a reference"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What the guard said of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// Which way its message went.
    pub leg: Way,
    /// What it was.
    pub kind: ItemKind,
    /// The tool, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call's id on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Where it stood.
    pub at: String,
    /// What the enforcing layers said, before any ticket was looked at.
    pub verdict: Said,
    /// Who objects, and to what.
    #[serde(flatten)]
    pub why: Option<Why>,
    /// How much of a text was changed: ranges of bytes. What it became is not told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<(usize, usize)>,
}

/// A leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the agent.
    ToUpstream,
    /// To the agent.
    ToAgent,
}

/// A kind of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A call.
    Call,
    /// A call that nobody can read.
    Unreadable,
    /// A text that a tool gave back.
    Output,
    /// A definition of a tool.
    Definition,
    /// A text of the model.
    Text,
    /// A tool that the provider runs.
    ProviderTool,
    /// Where something leads.
    Egress,
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It passes.
    Allow,
    /// It passes changed.
    Rewrite,
    /// It needs a ticket.
    Hold,
    /// It does not pass.
    Deny,
}

impl Said {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Rewrite => "rewrite",
            Self::Hold => "hold",
            Self::Deny => "deny",
        }
    }

    /// Held or denied.
    pub const fn stops(self) -> bool {
        matches!(self, Self::Hold | Self::Deny)
    }
}

/// Who objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The layer.
    pub layer: LayerId,
    /// Its rule.
    pub rule: RuleId,
    /// The stable code.
    pub reason: Reason,
    /// JSON Pointer into the arguments, where it is about one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
}

impl From<&Finding> for Why {
    fn from(finding: &Finding) -> Self {
        Self {
            layer: finding.layer,
            rule: finding.rule.clone(),
            reason: finding.reason,
            argument: finding.argument.clone(),
        }
    }
}

impl Judged {
    /// What was said of an item. Of a call it is what its own arguments come to: that another call of its turn was refused, or
    /// that a ticket let it pass, does not show.
    pub(crate) fn of(leg: Leg, located: &Located, ruling: &Ruling) -> Self {
        let (kind, tool, call) = named(&located.item);
        let (verdict, why, changed) = said(ruling);
        Self {
            leg: match leg {
                Leg::ToUpstream => Way::ToUpstream,
                Leg::ToAgent => Way::ToAgent,
            },
            kind,
            tool,
            call,
            at: located.place.pointer.clone(),
            verdict,
            why,
            changed,
        }
    }
}

fn named(item: &Item) -> (ItemKind, Option<String>, Option<String>) {
    let id = |id: &Option<std::sync::Arc<str>>| id.as_deref().map(str::to_owned);
    match item {
        Item::ToolCall(call) => (
            ItemKind::Call,
            Some(call.tool.to_string()),
            id(&call.call_id),
        ),
        Item::Unreadable(call) => (
            ItemKind::Unreadable,
            Some(call.tool.to_string()),
            id(&call.call_id),
        ),
        Item::ToolOutput(output) => (
            ItemKind::Output,
            output.tool.as_ref().map(ToString::to_string),
            id(&output.call_id),
        ),
        Item::Definition(definition) => (
            ItemKind::Definition,
            Some(definition.tool.to_string()),
            None,
        ),
        Item::ModelText(_) => (ItemKind::Text, None, None),
        Item::ProviderTool(tool) => (ItemKind::ProviderTool, Some(tool.kind.to_string()), None),
        Item::Egress(_) => (ItemKind::Egress, None, None),
    }
}

fn said(ruling: &Ruling) -> (Said, Option<Why>, Vec<(usize, usize)>) {
    let enforced = || {
        let opinions = ruling.opinions.iter();
        opinions
            .filter(|opinion| opinion.mode == Mode::Enforce)
            .map(|opinion| &opinion.verdict)
    };
    let first = |test: fn(&Verdict) -> bool| enforced().find(|verdict| test(verdict));
    let denied = first(|verdict| matches!(verdict, Verdict::Deny(_))).or_else(|| {
        Some(&ruling.verdict)
            .filter(|v| matches!(v, Verdict::Deny(_)) && ruling.opinions.is_empty())
    });
    if let Some(verdict) = denied {
        return (Said::Deny, verdict.finding().map(Why::from), Vec::new());
    }
    if let Some(verdict) = first(|verdict| matches!(verdict, Verdict::Hold(_))) {
        return (Said::Hold, verdict.finding().map(Why::from), Vec::new());
    }
    match &ruling.verdict {
        Verdict::Rewrite(rewrite) => {
            let ranges = rewrite
                .edits
                .iter()
                .map(|(range, _)| (range.start, range.end));
            (
                Said::Rewrite,
                Some((&rewrite.finding).into()),
                ranges.collect(),
            )
        }
        _ => (Said::Allow, None, Vec::new()),
    }
}
