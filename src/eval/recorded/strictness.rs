//! Points of the frontier: one policy, read from strict to loose.
//!
//! Each point changes what may vouch for a value, never which values are asked about: the tools, the arguments and what
//! becomes of a call otherwise are the policy's own. So all points, the naive rule among them, judge the same arguments.

use serde::Serialize;

use crate::policy::{Allowed, Origin, Policy};
use crate::provenance::OutputRule;

/// How strictly a policy's `allow` is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// The naive rule on everything that the policy asks about: `allow: [{from: user}]`.
    Typed,
    /// The naive rule on payees, recipients and URLs alone; other arguments are not asked about.
    TypedReach,
    /// Of the policy's own entries those that trust no text: lists, look-ups, the user, the operator, and whole values of
    /// structured output.
    Fields,
    /// As the file says.
    Shipped,
    /// The policy's tools are trusted whatever they say: every condition on their outputs is dropped.
    Tools,
    /// Any tool is trusted: only a value that nobody has said is stopped.
    Seen,
}

impl Strictness {
    /// From strict to loose; the first two are the naive rule.
    pub const ALL: [Self; 6] = [
        Self::Typed,
        Self::TypedReach,
        Self::Fields,
        Self::Shipped,
        Self::Tools,
        Self::Seen,
    ];

    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::TypedReach => "typed reach",
            Self::Fields => "fields",
            Self::Shipped => "shipped",
            Self::Tools => "tools",
            Self::Seen => "seen",
        }
    }

    /// One line for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Typed => {
                "the naive rule: every value that the policy asks about must be the user's own words"
            }
            Self::TypedReach => "the naive rule on payees, recipients and URLs alone",
            Self::Fields => {
                "the policy without its entries that trust text: whole values of structured output only"
            }
            Self::Shipped => "the policy as it stands",
            Self::Tools => {
                "the policy's tools are trusted whatever they say: any text of them vouches"
            }
            Self::Seen => "any tool is trusted: only values that nobody has said are stopped",
        }
    }

    /// Whether the policy allows anything that would be read otherwise.
    pub fn changes(self, policy: &Policy) -> bool {
        let mut egress = policy.egress.iter().map(|egress| &egress.allow);
        let asks = egress.any(|allow| !allow.is_empty())
            || policy.tools.iter().any(|tool| {
                let egress = tool.egress.iter().map(|rule| &rule.allow);
                let recipients = tool.recipients.iter().map(|rule| &rule.allow);
                let arguments = tool.arguments.iter().map(|rule| &rule.allow);
                let mut all = egress.chain(recipients).chain(arguments);
                all.any(|allow| !allow.is_empty())
            });
        asks && self != Self::Shipped
    }

    /// Changes the policy.
    pub fn apply(self, policy: &mut Policy) {
        if self == Self::Shipped {
            return;
        }
        if let Some(egress) = &mut policy.egress {
            self.entries(&mut egress.allow);
        }
        for tool in &mut policy.tools {
            if self == Self::TypedReach {
                tool.arguments.clear();
            }
            let egress = tool.egress.iter_mut().map(|rule| &mut rule.allow);
            let recipients = tool.recipients.iter_mut().map(|rule| &mut rule.allow);
            let arguments = tool.arguments.iter_mut().map(|rule| &mut rule.allow);
            for allow in egress.chain(recipients).chain(arguments) {
                self.entries(allow);
            }
        }
    }

    fn entries(self, allow: &mut Vec<Allowed>) {
        match self {
            // Nothing is allowed there at all, whoever says it.
            _ if allow.is_empty() => {}
            Self::Typed | Self::TypedReach => *allow = vec![Allowed::From(Origin::User)],
            Self::Fields => allow.retain(|entry| match entry {
                Allowed::From(Origin::ToolOutput(rule)) => !rule.free_text,
                _ => true,
            }),
            Self::Shipped => {}
            Self::Tools => {
                for entry in allow {
                    if let Allowed::From(Origin::ToolOutput(rule)) = entry {
                        *rule = OutputRule {
                            tools: std::mem::take(&mut rule.tools),
                            free_text: true,
                            ..OutputRule::default()
                        };
                    }
                }
            }
            Self::Seen => allow.push(Allowed::From(Origin::ToolOutput(OutputRule {
                free_text: true,
                ..OutputRule::default()
            }))),
        }
    }
}
