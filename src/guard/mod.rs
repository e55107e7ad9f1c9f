//! The guard: ordered layers with modes. It judges, settles tickets, and turns every failure into a refusal.

mod build;
mod charge;
mod combine;
mod decision;
mod judge;
mod reached;
mod settle;
mod taint;
mod together;
mod wait;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use charge::Charges;
pub use decision::{Cleared, Decision};
use futures_util::future::BoxFuture;
use judge::refused;
pub use settle::{Claim, Outcome, Receipt, Settlement, Settler};
pub use taint::Taint;
use together::Unsent;
pub use together::refuse_together;

use crate::acquainted::Acquainted;
use crate::clock::Clock;
use crate::item::{Exchange, Item, Located, RouteKind, ToolCall};
use crate::layers::injection::{MarkerKey, Recalls};
use crate::layers::{Context, Layer, Memo, Reached};
use crate::ledger::{Ledger, MemoryLedger};
use crate::names::{RouteName, ToolName};
use crate::policy::{ExecutesAt, Modes, Policy};
use crate::source::Problems;
use crate::store::Stores;
use crate::verdict::{Finding, Hold, LayerId, Mode, Opinion, Reason, Ruling, Undecided, Verdict};

/// How long one layer may take for one item before it is `Undecided`.
pub const LAYER_TIMEOUT: Duration = Duration::from_secs(5);

/// Most accounts of limits that layers in shadow remember.
const SHADOW_ACCOUNTS: usize = 10_000;

/// So many items are judged before other requests get their turn.
const SLICE: usize = 64;

/// Told of every decision before it takes effect: metrics, audit, eval's tally. An error refuses the message.
pub trait Observer: Send + Sync {
    /// Called once per exchange, with the claims of the calls that are to be carried out.
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Which route executes which tool, from the config.
#[derive(Clone, Debug, Default)]
pub struct Venues(pub HashMap<ToolName, RouteName>);

/// Layers and policy: what `serve` and `eval` both drive.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a part of the work is asked for"
)]
pub struct Guard {
    policy: Arc<Policy>,
    layers: Vec<(Mode, Arc<dyn Layer>)>,
    settler: Option<Arc<dyn Settler>>,
    ledger: Arc<dyn Ledger>,
    /// What calls would have come to under layers in shadow: nothing of it counts anywhere else.
    shadow: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    venues: Venues,
    observers: Vec<Arc<dyn Observer>>,
    marker_key: MarkerKey,
    recalls: Arc<Recalls>,
    /// Whether a condition asks what has come into the session.
    asks_taint: bool,
    track_reached: bool,
    traces: bool,
    /// `None`: nothing asks what users have reached before.
    reached: Option<Reached>,
    acquainted: Arc<dyn Acquainted>,
    renders: bool,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<_> = self.layers.iter().map(|(mode, l)| (l.id(), mode)).collect();
        f.debug_struct("Guard")
            .field("policy", &self.policy.hash)
            .field("layers", &layers)
            .finish_non_exhaustive()
    }
}

/// What a guard is made of besides its policy.
#[derive(Clone, Default)]
pub struct Parts {
    /// Databases, tickets, clock.
    pub stores: Stores,
    /// Who executes what.
    pub venues: Venues,
    /// Who is told.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Count items that reach a layer that is off: eval wants it, serve does not pay for it.
    pub track_reached: bool,
    /// Nothing is known of who said what: every `from` of the policy vouches for nothing (eval's arm `provenance:off`).
    pub provenance_off: bool,
}

impl Guard {
    /// A guard for the policy, with `modes` in place of the policy's own (eval's arms); serve passes `&policy.modes`.
    ///
    /// # Errors
    /// Every layer that is switched on and cannot run.
    pub fn new(policy: Arc<Policy>, modes: &Modes, parts: Parts) -> Result<Self, Problems> {
        // A layer may depend on whether another one enforces.
        let policy = if policy.modes == *modes {
            policy
        } else {
            let mut changed = Policy::clone(&policy);
            changed.modes.clone_from(modes);
            Arc::new(changed)
        };
        let shadow: Arc<dyn Ledger> = Arc::new(MemoryLedger::new(SHADOW_ACCOUNTS));
        let layers = build::layers(&policy, &parts.stores, &shadow)?;
        let settler = (modes.of(LayerId::Tickets) == Mode::Enforce)
            .then(|| crate::layers::tickets::settler(&policy, &parts.stores))
            .transpose()?;
        let reached = policy.remembers();
        let asks_taint = policy.asks_taint();
        let looks = parts.track_reached || modes.of(LayerId::Egress) != Mode::Off;
        Ok(Self {
            reached: reached.then(|| Reached::new(&policy, &parts.stores)),
            acquainted: parts.stores.acquainted,
            traces: !parts.provenance_off && policy.traces(),
            renders: looks && policy.rendered.is_some(),
            policy,
            layers,
            settler,
            marker_key: parts.stores.marker_key,
            recalls: parts.stores.recalls,
            asks_taint,
            ledger: parts.stores.ledger,
            shadow,
            clock: parts.stores.clock,
            venues: parts.venues,
            observers: parts.observers,
            track_reached: parts.track_reached,
        })
    }

    /// The policy it runs, with the modes that it runs with.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Whether a rule asks who said what: else nobody needs to know it.
    pub const fn traces(&self) -> bool {
        self.traces
    }

    /// Whether a rule asks what clients would fetch or follow in a model's text: else nobody needs to look.
    pub const fn renders(&self) -> bool {
        self.renders
    }

    /// The time that its layers go by.
    pub const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Judges every item, settles the calls that execute here, and tells the observers.
    ///
    /// # Errors
    /// An observer that could not record the decision: the message must be refused.
    pub async fn decide(&self, exchange: &Exchange) -> Result<Decision, Undecided> {
        self.decide_together(exchange, &[]).await
    }

    /// As [`Guard::decide`]; the items of each of the `groups` are calls that stand or fall together: where one is refused all of
    /// its group are, and no approval is spent.
    ///
    /// # Errors
    /// As [`Guard::decide`].
    pub async fn decide_together(
        &self,
        exchange: &Exchange,
        groups: &[Range<usize>],
    ) -> Result<Decision, Undecided> {
        self.decide_in(exchange, groups, &Taint::default()).await
    }

    /// As [`Guard::decide_together`], for one leg of a request of which `taint` knows what the legs before brought in.
    ///
    /// # Errors
    /// As [`Guard::decide`]; a ledger that cannot tell or keep what came into the session.
    pub async fn decide_in(
        &self,
        exchange: &Exchange,
        groups: &[Range<usize>],
        taint: &Taint,
    ) -> Result<Decision, Undecided> {
        let rulings = Vec::with_capacity(exchange.items.len());
        let mut decision = Decision::new(self.policy.hash.clone(), rulings);
        let mut claims = Unsent::default();
        let mut charges = Charges::pending();
        let before = self.tainted_before(exchange, taint).await?;
        let memo = self.memo(exchange);
        let mut came = false;
        for (index, located) in exchange.items.iter().enumerate() {
            if index % SLICE == SLICE - 1 {
                // Many small items are as long as a large one.
                tokio::task::yield_now().await;
            }
            let tainted = before.map(|before| before || taint.is_set());
            let context = self.context(exchange, located, &memo, tainted);
            let mut ruling = self.judge(located, &context).await;
            if self.taints(located, &ruling) {
                taint.set();
                came = true;
            }
            if let (Item::Definition(definition), Some(settler)) = (&located.item, &self.settler)
                && !matches!(ruling.verdict, Verdict::Deny(_))
            {
                settler.offered(exchange, definition);
            }
            let (mut approved, mut replayed) = (false, false);
            if let Item::ToolCall(call) = &located.item
                && let Verdict::Hold(hold) = ruling.verdict.clone()
            {
                if !context.executes_here {
                    // A proposal: the route that executes it settles the ticket.
                    ruling.verdict = Verdict::Allow;
                    decision.rulings.push(ruling);
                    continue;
                }
                let settled = self.settle(call, &context, hold).await;
                ruling.verdict = match settled {
                    Settlement::Redeem(claim) => {
                        claims.0.push((index, claim));
                        approved = true;
                        Verdict::Allow
                    }
                    Settlement::Replay(receipt) => {
                        replayed = true;
                        decision.receipts.push((index, receipt));
                        Verdict::Allow
                    }
                    Settlement::Hold(hold) => Verdict::Hold(hold),
                    Settlement::Refuse(hold) => {
                        let finding = hold.finding.clone();
                        decision.told.push((index, hold));
                        Verdict::Deny(finding)
                    }
                    Settlement::Deny(finding) => Verdict::Deny(finding),
                };
            }
            if context.executes_here && ruling.verdict == Verdict::Allow && !replayed {
                let call = (index, located);
                if let Err(finding) = self.charge(call, &context, approved, &mut charges).await {
                    ruling.verdict = Verdict::Deny(finding);
                    if let Some((_, claim)) = claims.0.pop_if(|(of, _)| *of == index) {
                        claim.finish(Outcome::NotSent).await?;
                    }
                }
            }
            decision.rulings.push(ruling);
        }
        self.remember(exchange, memo, came).await?;
        decision.preface = self.preface(exchange);
        if !groups.is_empty() {
            let receipts: Vec<_> = decision.receipts.iter().map(|(index, _)| *index).collect();
            for group in groups {
                refuse_together(&mut decision.rulings, group, &receipts);
            }
            charges.withdraw(&decision.rulings).await;
            claims.withdraw(&decision.rulings).await?;
        }
        let mut told = claims.within(decision);
        if let Err(cause) = self.tell(exchange, &told.decision).await {
            // Nothing was sent: the approvals stay good.
            while let Some((_, claim)) = told.decision.claims.pop() {
                claim.finish(Outcome::NotSent).await?;
            }
            return Err(Undecided {
                layer: LayerId::Tickets,
                cause: format!("the decision could not be recorded: {cause}"),
            });
        }
        let mut decision = told.made();
        decision.charges = charges.made();
        Ok(decision)
    }

    /// Tells the observers that every item of the exchange is refused, by a layer's own matcher in another room: where there is
    /// no item any more that the layer could judge, such as the addresses that a name turned out to have. It holds in every
    /// mode of the layer.
    ///
    /// # Errors
    /// An observer that could not record it: the message must be refused all the same.
    pub async fn refuse(&self, exchange: &Exchange, finding: Finding) -> Result<(), Undecided> {
        let refused = |located: &Located| Ruling {
            place: located.place.clone(),
            verdict: Verdict::Deny(finding.clone()),
            opinions: vec![Opinion {
                layer: finding.layer,
                mode: Mode::Enforce,
                reached: true,
                verdict: Verdict::Deny(finding.clone()),
                elapsed: Duration::ZERO,
                undeclared: false,
            }],
        };
        let rulings = exchange.items.iter().map(refused).collect();
        let decision = Decision::new(self.policy.hash.clone(), rulings);
        let told = self.tell(exchange, &decision).await;
        told.map_err(|cause| Undecided {
            layer: finding.layer,
            cause: format!("the refusal could not be recorded: {cause}"),
        })
    }

    async fn tell(&self, exchange: &Exchange, decision: &Decision) -> Result<(), String> {
        for observer in &self.observers {
            observer.decided(exchange, decision).await?;
        }
        Ok(())
    }

    fn context<'a>(
        &'a self,
        exchange: &'a Exchange,
        located: &'a Located,
        memo: &'a Memo,
        tainted: Option<bool>,
    ) -> Context<'a> {
        let Item::ToolCall(call) = &located.item else {
            return Context {
                exchange,
                rule: None,
                executes_here: false,
                tainted,
                memo,
            };
        };
        let rule = self.policy.rule_for(&call.tool);
        // What a tool backend gets it carries out; a model's proposal is carried out by the agent, or on a tool's own route.
        let executes_here = exchange.kind != RouteKind::Model
            || match rule.and_then(|rule| rule.executes_at.as_ref()) {
                Some(ExecutesAt::Agent) => true,
                Some(ExecutesAt::Route(_)) => false,
                None => !self.venues.0.contains_key(&call.tool),
            };
        Context {
            exchange,
            rule,
            executes_here,
            tainted,
            memo,
        }
    }

    async fn settle(&self, call: &ToolCall, context: &Context<'_>, hold: Hold) -> Settlement {
        let layer = hold.finding.layer;
        let Some(settler) = &self.settler else {
            return Settlement::Deny(Finding {
                reason: Reason::NoApprover,
                ..hold.finding
            });
        };
        match settler.settle(call, context, hold).await {
            Ok(Settlement::Hold(hold)) => Settlement::Hold(wait::told(hold, context)),
            Ok(Settlement::Refuse(hold)) => Settlement::Refuse(wait::told(hold, context)),
            Ok(settlement) => settlement,
            // Nothing was claimed, or what was has been given back.
            Err(undecided) => Settlement::Deny(Finding {
                reason: Reason::TicketsUnavailable,
                ..refused(layer, &undecided)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Leg, Place, UnreadableCall};
    use crate::names::{SessionKey, UpstreamName};
    use crate::policy::PolicyHash;
    use crate::principal::{Principal, Session};

    #[tokio::test]
    async fn a_call_that_cannot_be_read_is_refused_with_every_layer_off() {
        let policy = Arc::new(Policy::new("test", PolicyHash(Arc::from("0"))));
        let guard = Guard::new(policy, &Modes::none(), Parts::default()).unwrap();
        let principal = Principal {
            tenant: Arc::from("t"),
            issuer: Arc::from("config"),
            subject: Arc::from("s"),
            agent: Arc::from("a"),
            actors: Vec::new(),
            scopes: std::collections::BTreeSet::new(),
        };
        let item = Item::Unreadable(UnreadableCall {
            tool: ToolName::from("pay"),
            call_id: None,
            cause: "duplicate key".to_owned(),
        });
        let exchange = Exchange {
            leg: Leg::ToAgent,
            route: RouteName::from("r"),
            kind: RouteKind::Model,
            upstream: UpstreamName::from("u"),
            session: Arc::new(Session {
                key: Some(SessionKey::from("k")),
                principal: Arc::new(principal),
                grant: None,
            }),
            items: vec![Located {
                place: Place::default(),
                item,
            }],
            evidence: None,
            headers: None,
        };
        let decision = guard.decide(&exchange).await.unwrap();
        let Verdict::Deny(finding) = &decision.rulings[0].verdict else {
            panic!("a denial")
        };
        assert_eq!(finding.reason, Reason::ArgumentsUnreadable);
    }
}
