//! Calls that may wait: for a person, or for the identical call that is under way.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Decision, Guard};
use crate::layers::Context;
use crate::layers::tickets::show;
use crate::names::ToolName;
use crate::verdict::{Hold, Reason, Undecided, Verdict};

/// What the agent is told of the ticket: how long it may wait by the rule, and a person's words as such.
pub(super) fn told(hold: Hold, context: &Context<'_>) -> Hold {
    let rule = context.rule.and_then(|rule| rule.ticket.as_ref());
    let waits = matches!(
        hold.finding.reason,
        Reason::ApprovalRequired | Reason::ApprovalPending | Reason::InProgress
    );
    Hold {
        wait: rule.and_then(|rule| rule.hold).filter(|_| waits),
        comment: hold.comment.as_deref().and_then(show::comment),
        ..hold
    }
}

/// The tickets of calls that may wait.
fn waiting(decision: &Decision) -> impl Iterator<Item = &Hold> {
    let held = decision.rulings.iter().filter_map(|r| match &r.verdict {
        Verdict::Hold(hold) => Some(hold),
        _ => None,
    });
    let told = decision.told.iter().map(|(_, hold)| hold);
    let under_way = told.filter(|hold| hold.finding.reason == Reason::InProgress);
    held.chain(under_way).filter(|hold| hold.ticket.is_some())
}

impl Decision {
    /// How long the message may wait before its agent is answered: as long as the most patient of its calls, and `least` where
    /// any call waits. `None`: nothing of it waits.
    pub fn waits(&self, least: Option<Duration>) -> Option<Duration> {
        waiting(self).filter_map(|hold| hold.wait.max(least)).max()
    }
}

impl Guard {
    /// Waits until every ticket that calls of this decision wait for has changed, at most `within`; whether any has.
    ///
    /// # Errors
    /// The tickets cannot be read.
    pub async fn changed(&self, decision: &Decision, within: Duration) -> Result<bool, Undecided> {
        let Some(settler) = &self.settler else {
            return Ok(false);
        };
        let changes = waiting(decision).map(|hold| settler.changed(hold, within));
        let mut any = false;
        for changed in join_all(changes).await {
            any |= changed?;
        }
        Ok(any)
    }

    /// Whether a call to the tool may be held, as far as its rule says.
    pub fn may_hold(&self, tool: &ToolName) -> bool {
        self.settler.is_some()
            && self
                .policy
                .rule_for(tool)
                .is_none_or(|rule| rule.ticket.is_some())
    }
}
