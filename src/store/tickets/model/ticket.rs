//! A ticket as approvers see it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Bound, Cause, Channel, MandateOffer, Person, TicketState};
use crate::names::{MandateId, RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use crate::policy::{Gate, PolicyHash};
use crate::principal::Principal;
use crate::store::tickets::digest::CallDigest;

/// What a person says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No; also takes back an approval that is not used yet.
    Deny,
    /// The approval is taken back.
    Revoke,
}

impl Verdict {
    /// The name in the store and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Revoke => "revoke",
        }
    }

    /// The verdict of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Approve, Self::Deny, Self::Revoke]
            .into_iter()
            .find(|verdict| verdict.as_str() == name)
    }
}

/// One person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Whose.
    pub by: Person,
    /// What they say.
    pub verdict: Verdict,
    /// When.
    pub at: Timestamp,
    /// What they wrote.
    pub comment: Option<String>,
    /// How it came.
    pub channel: Channel,
    /// The person's roles at that moment.
    pub roles: Vec<String>,
    /// Vouched for by a security key or a log-in moments before.
    pub strong: bool,
}

/// The stored outcome, without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Completed {
    /// The upstream's status.
    pub status: u16,
    /// The upstream's content type.
    pub content_type: Option<String>,
    /// Length of the body in bytes.
    pub length: u64,
    /// SHA-256 of the body, lower-case hex.
    pub sha256: String,
    /// Whether the whole body is kept.
    pub whole: bool,
    /// When it was stored.
    pub at: Timestamp,
}

/// How an unknown outcome was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// `recipe:` and the rule's id, or the person as recorded.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// What they wrote.
    pub note: Option<String>,
}

/// An earlier ticket of the identical call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Earlier {
    /// Which.
    pub id: TicketId,
    /// How it ended.
    pub state: TicketState,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// A ticket as approvers see it. The API and `--json` write it as it stands here.
#[derive(Clone, Debug, Serialize)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// Its place in the order of requests; pages of a list go by it.
    pub seq: u64,
    /// Where it stands.
    pub state: TicketState,
    /// Why it was cancelled.
    pub cause: Option<Cause>,
    /// What it is bound to.
    pub digest: CallDigest,
    /// What the approver is asked; escaped.
    pub summary: String,
    /// What to run.
    pub tool: ToolName,
    /// Where to.
    pub upstream: UpstreamName,
    /// The route that carried the request.
    pub route: RouteName,
    /// Every argument, canonical: these bytes are sent.
    pub arguments: Box<RawValue>,
    /// On whose behalf; scopes are not kept.
    pub principal: Principal,
    /// In which session.
    pub session: Option<SessionKey>,
    /// Who must answer.
    pub gate: Gate,
    /// With one of which roles; empty: any approver.
    pub roles: Vec<String>,
    /// How many different people must approve.
    pub approvals: u32,
    /// An approval counts only with a security key or a log-in moments ago.
    pub fresh: bool,
    /// Policy at the time of the request.
    pub policy: PolicyHash,
    /// Name of the layer that asked.
    pub layer: String,
    /// Its rule.
    pub rule: RuleId,
    /// Its reason code.
    pub reason: String,
    /// Facts at the time of the request.
    pub bound: Bound,
    /// The agent's own reason; not to be trusted.
    pub said: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Until when it may be answered and used.
    pub expires_at: Timestamp,
    /// What people answered, in order.
    pub votes: Vec<Vote>,
    /// How often it was claimed.
    pub attempts: u32,
    /// When it was claimed last.
    pub claimed_at: Option<Timestamp>,
    /// What came of it.
    pub completed: Option<Completed>,
    /// The rule whose recipe finds out what became of it.
    pub reconcile: Option<RuleId>,
    /// How an unknown outcome was found out.
    pub resolved: Option<Resolved>,
    /// The mandate that it was spent under.
    pub mandate: Option<MandateId>,
    /// What an approver may widen it to.
    pub offer: Option<MandateOffer>,
    /// The newest earlier ticket of the identical call that was sent.
    pub earlier: Option<Earlier>,
    /// The agent was told that it ran out.
    #[serde(skip)]
    pub told: bool,
    /// How many attempts may have reached the upstream without anybody knowing.
    #[serde(skip)]
    pub lost: u32,
}

impl Ticket {
    /// The vote that decided it so far: the no that ended it, else the newest yes.
    pub fn decided(&self) -> Option<&Vote> {
        self.refusal().or_else(|| self.votes.last())
    }

    /// The vote that said no.
    pub fn refusal(&self) -> Option<&Vote> {
        self.votes
            .iter()
            .find(|vote| vote.verdict != Verdict::Approve)
    }

    /// How many different people have approved.
    pub fn approved_by(&self) -> u32 {
        let yes = self
            .votes
            .iter()
            .filter(|vote| vote.verdict == Verdict::Approve);
        u32::try_from(yes.count()).unwrap_or(u32::MAX)
    }
}
