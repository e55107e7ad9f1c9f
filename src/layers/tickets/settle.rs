//! Settles held calls against the ticket store.
//!
//! Facts are read anew for each call, and nothing is remembered here: an approval is claimed only while what its approver saw
//! is still so, and while its approvers may still approve.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::admit::{Admitted, admit};
use super::authority::Authorities;
use super::facts::{Facts, Unbound};
use super::standing::{refused, settlement, told};
use super::{DEFAULT_GATE, DEFAULT_TTL, not_bindable, spend, summary};
use crate::guard::{Settlement, Settler};
use crate::item::{Exchange, ToolCall, ToolDefinition};
use crate::layers::Context;
use crate::names::{SessionKey, TicketId};
use crate::policy::{Policy, Scope, TicketRule};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::store::tickets::digest::{BoundCall, Destination, NotBindable, bind};
use crate::store::tickets::issued::PREFIX;
use crate::store::tickets::{
    Bound, Cause, Claiming, MandateOffer, Mandated, Presented, Standing, Terms, Ticket,
    TicketError, TicketState, TicketStore,
};
use crate::verdict::{Finding, Hold, LayerId, Reason, Undecided};

/// How long a held call waits for the store, other calls before it included.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a call is looked up anew where its ticket changes meanwhile.
const LOOKS: usize = 3;

/// Unknown outcomes among which a frozen resource is looked for; with more every call that could be frozen is.
const MOST_UNKNOWN: u32 = 10_000;

/// What settles held calls. Without a ticket store every held call is refused.
///
/// # Errors
/// The policy has ticket rules and no ticket store is configured, or a rule's look-ups cannot run.
pub fn settler(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Settler>, Problems> {
    if let Some(store) = &stores.tickets {
        return Ok(Arc::new(Settle {
            facts: Facts::new(policy, stores)?,
            freezes: policy
                .tools
                .iter()
                .any(|rule| rule.ticket.as_ref().is_some_and(|ticket| ticket.freeze)),
            policy: Arc::clone(policy),
            store: Arc::clone(store),
            authorities: Authorities::new(stores),
            stores: stores.clone(),
        }));
    }
    let Some(rule) = policy.tools.iter().find_map(|rule| rule.ticket.as_ref()) else {
        return Ok(Arc::new(Refuse));
    };
    Err(Problem::new(format!(
        "the rule `{}` needs a ticket store and none is configured",
        rule.id
    ))
    .help("set `tickets.store` in the config, or `layers.tickets: off` in the policy")
    .into())
}

pub(super) fn undecided(cause: String) -> Undecided {
    Undecided {
        layer: LayerId::Tickets,
        cause,
    }
}

pub(super) async fn in_time<T>(
    asked: impl Future<Output = Result<T, TicketError>>,
) -> Result<T, Undecided> {
    timeout(STORE_TIMEOUT, asked)
        .await
        .map_err(|_| undecided(format!("no answer within {STORE_TIMEOUT:?}")))?
        .map_err(|error| undecided(error.to_string()))
}

/// For deployments in which nobody can approve.
struct Refuse;

impl Settler for Refuse {
    fn settle<'a>(
        &'a self,
        _call: &'a ToolCall,
        _context: &'a Context<'a>,
        hold: Hold,
    ) -> BoxFuture<'a, Result<Settlement, Undecided>> {
        let finding = told(
            hold.finding,
            Reason::NoApprover,
            "no ticket store is configured",
        );
        Box::pin(std::future::ready(Ok(Settlement::Deny(finding))))
    }

    fn changed<'a>(
        &'a self,
        _hold: &'a Hold,
        _within: Duration,
    ) -> BoxFuture<'a, Result<bool, Undecided>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

struct Settle {
    policy: Arc<Policy>,
    facts: Facts,
    /// Whether a rule freezes resources at all.
    freezes: bool,
    store: Arc<dyn TicketStore>,
    authorities: Authorities,
    stores: Stores,
}

impl Settler for Settle {
    fn settle<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a Context<'a>,
        hold: Hold,
    ) -> BoxFuture<'a, Result<Settlement, Undecided>> {
        Box::pin(self.settled(call, context, hold))
    }

    fn changed<'a>(
        &'a self,
        hold: &'a Hold,
        within: Duration,
    ) -> BoxFuture<'a, Result<bool, Undecided>> {
        Box::pin(async move {
            let Some(ticket) = hold.ticket.clone() else {
                return Ok(false);
            };
            let seen = match hold.finding.reason {
                Reason::InProgress => TicketState::Redeeming,
                _ => TicketState::Requested,
            };
            let now = self.store.changed(ticket, seen, within).await;
            now.map(|now| now != seen)
                .map_err(|error| undecided(error.to_string()))
        })
    }

    fn offered(&self, exchange: &Exchange, definition: &ToolDefinition) {
        if !definition.source.is_empty() {
            self.stores.definitions.offer(
                &exchange.route,
                &exchange.session,
                &definition.tool,
                &definition.source,
            );
        }
    }
}

impl Settle {
    async fn settled(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        hold: Hold,
    ) -> Result<Settlement, Undecided> {
        // A hold that another layer asks for is settled on the call's own terms, where it has some.
        let rule = context.rule.and_then(|rule| rule.ticket.as_ref());
        let finding = &hold.finding;
        let bound = match self.bind(call, context, rule) {
            Ok(bound) => bound,
            Err(obstacle) => {
                return Ok(Settlement::Deny(not_bindable(
                    finding.rule.clone(),
                    obstacle,
                )));
            }
        };
        let facts = match self.facts.of(call, context).await {
            Ok(facts) => facts,
            Err(Unbound::Unread(cause)) => return Err(undecided(cause)),
            Err(Unbound::Objection { at, detail }) => {
                return Ok(Settlement::Deny(Finding {
                    argument: Some(at),
                    ..told(finding.clone(), Reason::ConditionFailed, detail)
                }));
            }
        };
        let presented = self.presented(call, context, (bound, facts), finding);
        if let Some(refusal) = self.frozen(&presented, rule, finding).await? {
            return Ok(refusal);
        }
        if let Some(token) = call.hint.as_deref().filter(|hint| hint.starts_with(PREFIX))
            && let Some(rule) = rule.filter(|rule| !rule.issuers.is_empty())
        {
            let now = self.stores.clock.now();
            let issuers = self.authorities.issuers(rule);
            match admit(
                self.store.as_ref(),
                (rule, &issuers, now),
                token,
                &presented,
            )
            .await?
            {
                Admitted::Known => {}
                Admitted::Refused(reason, detail) => {
                    return Ok(Settlement::Deny(told(finding.clone(), reason, detail)));
                }
            }
        }
        if let Some(settled) = self.under_mandate(call, rule, &presented, finding).await? {
            return Ok(settled);
        }
        self.by_ticket(presented, rule, hold.finding).await
    }

    fn bind(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        rule: Option<&TicketRule>,
    ) -> Result<BoundCall, NotBindable> {
        let exchange = context.exchange;
        let origin = self.stores.origins.get(&exchange.upstream);
        bind(
            call,
            &Destination {
                upstream: &exchange.upstream,
                origin: origin.map(String::as_str),
                kind: exchange.kind,
            },
            (&exchange.session.principal, session(context, rule)),
            rule.map_or(&[], |rule| &rule.volatile),
        )
    }

    fn presented(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        (bound, facts): (BoundCall, Bound),
        finding: &Finding,
    ) -> Presented {
        let exchange = context.exchange;
        let rule = context.rule.and_then(|rule| rule.ticket.as_ref());
        let hint = call.hint.as_deref();
        Presented {
            call: bound,
            principal: Arc::clone(&exchange.session.principal),
            session: session(context, rule).cloned(),
            route: exchange.route.clone(),
            upstream: exchange.upstream.clone(),
            tool: call.tool.clone(),
            again: call.again,
            hint: hint
                .filter(|hint| hint.starts_with("tkt_"))
                .map(TicketId::new),
            said: None,
            bound: facts,
            terms: self.terms(call, context, rule, finding),
        }
    }

    fn terms(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        rule: Option<&TicketRule>,
        finding: &Finding,
    ) -> Terms {
        let upstream = &context.exchange.upstream;
        let summary = rule.and_then(|rule| rule.summary.as_deref()).map_or_else(
            || summary::plain(&call.tool, upstream),
            |template| summary::render(template, &call.args.value),
        );
        Terms {
            policy: self.policy.hash.clone(),
            layer: finding.layer,
            rule: finding.rule.clone(),
            reason: finding.reason,
            gate: rule.map_or(DEFAULT_GATE, |rule| rule.gate),
            roles: rule.map(|rule| rule.roles.clone()).unwrap_or_default(),
            approvals: rule.map_or(1, |rule| rule.approvals),
            fresh: rule.is_some_and(|rule| rule.fresh_login),
            ttl: rule.map_or(DEFAULT_TTL, |rule| rule.ttl),
            summary,
            reconcile: rule
                .filter(|rule| rule.reconcile.is_some())
                .map(|rule| rule.id.clone()),
            mandate: rule.and_then(offer),
            idempotent: rule.and_then(|rule| rule.idempotent),
        }
    }

    /// A refusal where a call of unknown outcome names the same resource and its rule freezes it meanwhile.
    async fn frozen(
        &self,
        call: &Presented,
        rule: Option<&TicketRule>,
        finding: &Finding,
    ) -> Result<Option<Settlement>, Undecided> {
        if !self.freezes || rule.is_none() || call.bound.resources.is_empty() {
            return Ok(None);
        }
        let unknown = in_time(self.store.unknown(MOST_UNKNOWN)).await?;
        let full = usize::try_from(MOST_UNKNOWN).is_ok_and(|most| unknown.len() >= most);
        let freezes = |ticket: &Ticket| {
            let rule = self.policy.rule_for(&ticket.tool);
            let rule = rule.and_then(|rule| rule.ticket.as_ref());
            rule.is_some_and(|rule| rule.freeze)
        };
        let same = |ticket: &Ticket| {
            let named = &ticket.bound.resources;
            named.iter().any(|one| {
                let ours = &mut call.bound.resources.iter();
                ours.any(|other| (&one.lookup, &one.id) == (&other.lookup, &other.id))
            })
        };
        let blocking = unknown.iter().find(|ticket| {
            ticket.principal.tenant == call.principal.tenant
                && ticket.digest != call.call.digest
                && freezes(ticket)
                && same(ticket)
        });
        Ok((full || blocking.is_some()).then(|| {
            let why = "the outcome of another call that names the same resource is unknown";
            Settlement::Deny(told(finding.clone(), Reason::OutcomeUnknown, why))
        }))
    }

    async fn under_mandate(
        &self,
        call: &ToolCall,
        rule: Option<&TicketRule>,
        presented: &Presented,
        finding: &Finding,
    ) -> Result<Option<Settlement>, Undecided> {
        let offered = rule.and_then(|rule| Some((rule, rule.mandate.as_ref()?)));
        let Some((rule, offer)) = offered else {
            return Ok(None);
        };
        let Ok(spend) = spend::spend(call, offer) else {
            // What cannot be counted is asked for.
            return Ok(None);
        };
        let claimed =
            self.store
                .claim_under(presented.clone(), spend, self.authorities.stands(rule));
        Ok(match in_time(claimed).await? {
            Mandated::Claimed(claim) => Some(Settlement::Redeem(claim)),
            // It still waits for a person, unless that has done its part: then the ticket is claimed as any other.
            Mandated::Said(Standing::Approved(_) | Standing::Waiting { .. })
            | Mandated::NoMandate
            | Mandated::Exceeded(_) => None,
            Mandated::Said(standing) => Some(self.told(standing, finding.clone())),
        })
    }

    async fn by_ticket(
        &self,
        presented: Presented,
        rule: Option<&TicketRule>,
        finding: Finding,
    ) -> Result<Settlement, Undecided> {
        let mut standing = in_time(self.store.present(presented.clone())).await?;
        for _ in 0..LOOKS {
            let ticket = match standing {
                Standing::Approved(ticket) => {
                    if let Some(cause) = self.void(&ticket, &presented.bound, rule) {
                        if in_time(self.store.void(ticket.id.clone(), cause)).await? {
                            return Ok(refused(finding, Reason::StateChanged, &ticket.id));
                        }
                        standing = in_time(self.store.present(presented.clone())).await?;
                        continue;
                    }
                    ticket.id
                }
                // Once more under the same key, which the upstream honours for so long: it may be the first time that it acts, so
                // what was approved must still be so.
                Standing::Unknown(ticket) if rule.is_some_and(|it| it.idempotent.is_some()) => {
                    let lost = in_time(self.store.get(ticket.clone())).await?;
                    if lost.is_none_or(|lost| self.void(&lost, &presented.bound, rule).is_some()) {
                        return Ok(refused(finding, Reason::OutcomeUnknown, &ticket));
                    }
                    ticket
                }
                other => {
                    standing = other;
                    break;
                }
            };
            // A claim that comes too late is given back by the store: nobody took it over.
            match in_time(self.store.claim(presented.clone(), ticket)).await? {
                Claiming::Claimed(claim) => return Ok(Settlement::Redeem(claim)),
                Claiming::Lost(Standing::Unknown(ticket)) => {
                    return Ok(refused(finding, Reason::OutcomeUnknown, &ticket));
                }
                Claiming::Lost(now) => standing = now,
            }
        }
        Ok(self.told(standing, finding))
    }

    fn told(&self, standing: Standing, finding: Finding) -> Settlement {
        let now = self.stores.clock.now();
        settlement(standing, finding, (self.store.limits(), now))
    }

    /// Why an approval no longer counts; `None`: it does.
    fn void(&self, ticket: &Ticket, now: &Bound, rule: Option<&TicketRule>) -> Option<Cause> {
        if !ticket.bound.holds(now) {
            return Some(Cause::StateChanged);
        }
        (!self.authorities.are_enough(ticket, rule)).then_some(Cause::ApproverLost)
    }
}

/// The session that an approval is bound to.
fn session<'c>(context: &'c Context<'_>, rule: Option<&TicketRule>) -> Option<&'c SessionKey> {
    let wide = rule.is_some_and(|rule| rule.scope == Scope::Principal);
    context.exchange.session.key.as_ref().filter(|_| !wide)
}

fn offer(rule: &TicketRule) -> Option<MandateOffer> {
    let offered = rule.mandate.as_ref()?;
    Some(MandateOffer {
        amount: offered.amount.clone(),
        currency: offered.currency.clone(),
        at_most: offered.at_most,
        uses: offered.uses,
        within: offered.within,
        same: offered.same.clone(),
    })
}
