//! Calls that stand or fall together, and approvals that were not spent.

use std::borrow::Cow;
use std::ops::Range;

use super::{Claim, Decision, Outcome};
use crate::names::RuleId;
use crate::verdict::{Finding, LayerId, Reason, Ruling, Undecided, Verdict};

/// Refuses every call of the `group`, where one of them is refused, or was `done` before and is not released again. What is
/// refused already keeps its own reason.
pub fn refuse_together(rulings: &mut [Ruling], group: &Range<usize>, done: &[usize]) {
    let bound = rulings.get(group.clone()).unwrap_or_default();
    let refused = bound.iter().find_map(|ruling| ruling.verdict.finding());
    let layer = refused.map(|finding| finding.layer);
    let is_done = done.iter().any(|index| group.contains(index));
    let Some(layer) = layer.or_else(|| is_done.then_some(LayerId::Tickets)) else {
        return;
    };
    let rulings = rulings.iter_mut().enumerate();
    for (index, ruling) in rulings.take(group.end).skip(group.start) {
        if ruling.verdict == Verdict::Allow && !done.contains(&index) {
            ruling.verdict = Verdict::Deny(Finding {
                layer,
                rule: RuleId::from("guard.together"),
                reason: Reason::TurnRefused,
                argument: None,
                detail: Cow::Borrowed("another call of the same turn was refused"),
            });
        }
    }
}

/// Claims of a decision under way. Its caller may leave before it is made, and nothing is sent then: the approvals stay good.
#[derive(Default)]
pub(super) struct Unsent(pub(super) Vec<(usize, Box<dyn Claim>)>);

impl Unsent {
    /// Gives back the approvals of calls that are refused after all.
    pub(super) async fn withdraw(&mut self, rulings: &[Ruling]) -> Result<(), Undecided> {
        let is_refused = |index: usize| {
            let verdict = rulings.get(index).map(|ruling| &ruling.verdict);
            verdict.is_none_or(|verdict| *verdict != Verdict::Allow)
        };
        let (refused, kept) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(index, _)| is_refused(*index));
        self.0 = kept;
        let mut refused = Self(refused);
        while let Some((_, claim)) = refused.0.pop() {
            claim.finish(Outcome::NotSent).await?;
        }
        Ok(())
    }
}

/// A decision that is told, with its claims in it. Its teller may leave meanwhile, and the approvals stay good then as well.
pub(super) struct Told {
    pub(super) decision: Decision,
}

impl Unsent {
    /// The decision with these claims.
    pub(super) fn within(mut self, mut decision: Decision) -> Told {
        decision.claims = std::mem::take(&mut self.0);
        Told { decision }
    }
}

impl Told {
    /// The decision, made: its claims are its taker's.
    pub(super) fn made(mut self) -> Decision {
        let decision = &mut self.decision;
        Decision {
            policy: decision.policy.clone(),
            rulings: std::mem::take(&mut decision.rulings),
            claims: std::mem::take(&mut decision.claims),
            receipts: std::mem::take(&mut decision.receipts),
            told: std::mem::take(&mut decision.told),
            charges: std::mem::take(&mut decision.charges),
            preface: decision.preface.take(),
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        drop(Unsent(std::mem::take(&mut self.decision.claims)));
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        // Outside a runtime each ends as unknown, which is safe.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            for (_, claim) in self.0.drain(..) {
                runtime.spawn(claim.finish(Outcome::NotSent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::item::Place;
    use crate::names::TicketId;

    fn deny(layer: LayerId, reason: Reason) -> Verdict {
        Verdict::Deny(Finding {
            layer,
            rule: RuleId::from("r"),
            reason,
            argument: None,
            detail: Cow::Borrowed(""),
        })
    }

    fn rulings(verdicts: Vec<Verdict>) -> Vec<Ruling> {
        verdicts
            .into_iter()
            .map(|verdict| Ruling {
                place: Place::default(),
                verdict,
                opinions: Vec::new(),
            })
            .collect()
    }

    fn reasons(rulings: &[Ruling]) -> Vec<Option<(LayerId, Reason)>> {
        let findings = rulings.iter().map(|ruling| ruling.verdict.finding());
        findings
            .map(|finding| finding.map(|finding| (finding.layer, finding.reason)))
            .collect()
    }

    #[test]
    fn one_refused_call_refuses_those_that_are_bound_to_it() {
        let all = || {
            rulings(vec![
                Verdict::Allow,
                Verdict::Allow,
                deny(LayerId::Egress, Reason::HostNotAllowed),
                Verdict::Allow,
            ])
        };
        let own = Some((LayerId::Egress, Reason::HostNotAllowed));
        let bound = Some((LayerId::Egress, Reason::TurnRefused));
        for (group, expected) in [
            (0..4, [bound, bound, own, bound]),
            (1..4, [None, bound, own, bound]),
            (1..3, [None, bound, own, None]),
            (0..2, [None, None, own, None]),
            (3..4, [None, None, own, None]),
            (2..2, [None, None, own, None]),
        ] {
            let mut rulings = all();
            refuse_together(&mut rulings, &group, &[]);
            assert_eq!(reasons(&rulings), expected, "{group:?}");
        }
        // One that was done before is not released again, so the others are not either.
        let mut allowed = rulings(vec![Verdict::Allow, Verdict::Allow]);
        refuse_together(&mut allowed, &(0..2), &[1]);
        let bound = Some((LayerId::Tickets, Reason::TurnRefused));
        assert_eq!(reasons(&allowed), [bound, None]);
        let mut allowed = rulings(vec![Verdict::Allow, Verdict::Allow]);
        refuse_together(&mut allowed, &(0..2), &[]);
        assert_eq!(reasons(&allowed), [None, None]);
    }

    /// Tells its ticket when it is given back.
    struct Spy(TicketId, Bytes, Arc<Mutex<Vec<String>>>);

    impl Claim for Spy {
        fn ticket(&self) -> &TicketId {
            &self.0
        }

        fn arguments(&self) -> &Bytes {
            &self.1
        }

        fn finish(self: Box<Self>, outcome: Outcome) -> BoxFuture<'static, Result<(), Undecided>> {
            assert!(matches!(outcome, Outcome::NotSent));
            self.2.lock().unwrap().push(self.0.to_string());
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test]
    async fn approvals_of_calls_that_are_refused_after_all_stay_good() {
        let given_back = Arc::new(Mutex::new(Vec::new()));
        let claim = |index: usize| {
            let ticket = TicketId::from(format!("tkt_{index}").as_str());
            let spy = Spy(ticket, Bytes::new(), Arc::clone(&given_back));
            (index, Box::new(spy) as Box<dyn Claim>)
        };
        let mut claims = Unsent(vec![claim(0), claim(2)]);
        let mut rulings = rulings(vec![
            Verdict::Allow,
            deny(LayerId::Ownership, Reason::NotOwner),
            Verdict::Allow,
        ]);
        refuse_together(&mut rulings, &(1..3), &[]);
        claims.withdraw(&rulings).await.unwrap();
        assert_eq!(*given_back.lock().unwrap(), ["tkt_2"]);
        assert_eq!(claims.0.len(), 1);
        claims.0.clear();
    }
}
