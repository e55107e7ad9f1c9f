//! What may vouch for a value of a call: a list, a look-up, or where the value comes from.

use super::{Fallback, Policy, Selector};
use crate::names::{ListName, LookupName, RuleId};
use crate::provenance::OutputRule;
use crate::verdict::{LayerId, Mode};

/// Who may be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// An entry of the list.
    List(ListName),
    /// A value that the look-up returns.
    Lookup(LookupName),
    /// A value that comes from there.
    From(Origin),
    /// A value that the user's calls have reached before, and that comes from there where that is said.
    Known(Option<Origin>),
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user said it.
    User,
    /// The user said it, or a URL on the same host.
    UserSite,
    /// The operator said it: prompts of the roles system and developer.
    Operator,
    /// A tool gave it back, as the rule says.
    ToolOutput(OutputRule),
}

impl Origin {
    /// Whose words on a model's route it goes by; `None`: nobody's there.
    pub(crate) const fn listens_to(&self) -> Option<&'static str> {
        match self {
            Self::User | Self::UserSite => Some("the user"),
            Self::Operator => Some("the operator"),
            Self::ToolOutput(rule) if rule.asked || rule.like_user || !rule.beside.is_empty() => {
                Some("the user")
            }
            Self::ToolOutput(_) => None,
        }
    }
}

/// The lists among them.
pub fn lists(allow: &[Allowed]) -> impl Iterator<Item = &ListName> {
    allow.iter().filter_map(|allowed| match allowed {
        Allowed::List(name) => Some(name),
        Allowed::Lookup(_) | Allowed::From(_) | Allowed::Known(_) => None,
    })
}

/// The look-ups among them.
pub fn lookups(allow: &[Allowed]) -> impl Iterator<Item = &LookupName> {
    allow.iter().filter_map(|allowed| match allowed {
        Allowed::Lookup(name) => Some(name),
        Allowed::List(_) | Allowed::From(_) | Allowed::Known(_) => None,
    })
}

/// The origins among them.
pub fn origins(allow: &[Allowed]) -> impl Iterator<Item = &Origin> {
    allow.iter().filter_map(|allowed| match allowed {
        Allowed::From(origin) | Allowed::Known(Some(origin)) => Some(origin),
        Allowed::List(_) | Allowed::Lookup(_) | Allowed::Known(None) => None,
    })
}

/// Whether an entry asks what the user's calls have reached before.
pub fn asks_known(allow: &[Allowed]) -> bool {
    allow
        .iter()
        .any(|allowed| matches!(allowed, Allowed::Known(_)))
}

/// Arguments that are no recipients and no URLs, such as files, channels and ids, must come from somewhere.
#[derive(Clone, Debug)]
pub struct ArgumentRule {
    /// `tools[3].arguments[0]`.
    pub id: RuleId,
    /// Which.
    pub at: Vec<Selector>,
    /// What vouches for them.
    pub allow: Vec<Allowed>,
    /// What otherwise.
    pub otherwise: Fallback,
}

impl Policy {
    /// Every `allow` with the rule that it stands in.
    pub fn allows(&self) -> impl Iterator<Item = (&RuleId, &[Allowed])> {
        let tools = self.tools.iter().flat_map(|tool| {
            let egress = tool.egress.iter().map(|rule| (&rule.id, &rule.allow[..]));
            let recipients = tool.recipients.iter();
            let recipients = recipients.map(|rule| (&rule.id, &rule.allow[..]));
            let arguments = tool.arguments.iter();
            let arguments = arguments.map(|rule| (&rule.id, &rule.allow[..]));
            let tickets = tool.ticket.iter().flat_map(|rule| &rule.unless);
            let when = tool.when.iter().chain(tickets);
            let when = when.filter_map(|rule| Some((&rule.id, &rule.allow()?[..])));
            egress.chain(recipients).chain(arguments).chain(when)
        });
        let all = self.egress.iter().map(|rule| (&rule.id, &rule.allow[..]));
        all.chain(tools)
    }

    /// Whether a rule vouches for values by where they come from.
    pub fn vouches_by_origin(&self) -> bool {
        self.allows()
            .any(|(_, allow)| origins(allow).next().is_some())
    }

    /// Whether a rule asks where values come from.
    pub fn traces(&self) -> bool {
        let fallbacks = || self.fallbacks().any(|(_, fallback)| fallback.asks_who());
        !self.private.is_empty() || self.vouches_by_origin() || fallbacks()
    }

    /// Every `otherwise` of values with the rule that it stands in.
    pub fn fallbacks(&self) -> impl Iterator<Item = (&RuleId, &Fallback)> {
        let tools = self.tools.iter().flat_map(|tool| {
            let egress = tool.egress.iter().map(|rule| (&rule.id, &rule.otherwise));
            let recipients = tool.recipients.iter();
            let recipients = recipients.map(|rule| (&rule.id, &rule.otherwise));
            let arguments = tool.arguments.iter();
            let arguments = arguments.map(|rule| (&rule.id, &rule.otherwise));
            egress.chain(recipients).chain(arguments)
        });
        let all = self.egress.iter().map(|rule| (&rule.id, &rule.otherwise));
        all.chain(tools)
    }

    /// Whether a rule asks what a user's calls have reached before, or people are asked, who want to know it.
    pub fn remembers(&self) -> bool {
        let asks = |(_, allow): (_, &[Allowed])| asks_known(allow);
        self.modes.of(LayerId::Tickets) == Mode::Enforce
            || self.allows().any(asks)
            || self
                .fallbacks()
                .any(|(_, fallback)| fallback.known.is_some())
    }
}
