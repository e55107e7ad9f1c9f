//! What carried-out calls have reached, so that it is known from then on.

use super::{Decision, Guard};
use crate::acquainted::{Digest, Who};
use crate::item::{Exchange, Item};
use crate::layers::Memo;
use crate::principal::Principal;
use crate::verdict::Verdict;

impl Guard {
    /// What is to be remembered of the calls that this decision has carried out, once their answer is there.
    pub fn reached(&self, exchange: &Exchange, decision: &Decision) -> Vec<Digest> {
        let Some(reached) = &self.reached else {
            return Vec::new();
        };
        let memo = Memo::default();
        let replayed = |index| decision.receipts.iter().any(|(of, _)| *of == index);
        let mut digests = Vec::new();
        for (index, (located, ruling)) in exchange.items.iter().zip(&decision.rulings).enumerate() {
            let Item::ToolCall(call) = &located.item else {
                continue;
            };
            let context = self.context(exchange, located, &memo, Some(false));
            let passes = ruling.verdict == Verdict::Allow && context.executes_here;
            if passes && !replayed(index) {
                digests.extend(reached.digests(call, &context));
            }
        }
        digests
    }

    /// Remembers what a user's calls have reached. A failure is logged: what is not remembered is met for the first time again.
    pub async fn acquaint(&self, principal: &Principal, reached: &[Digest]) {
        if reached.is_empty() {
            return;
        }
        let who = Who::of(principal);
        let recorded = self
            .acquainted
            .record(&who, reached, self.clock.now())
            .await;
        if let Err(cause) = recorded {
            tracing::error!(
                cause,
                "what a user's call has reached could not be remembered"
            );
        }
    }
}
