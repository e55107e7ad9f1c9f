//! Settles held calls against the ticket store.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{DEFAULT_GATE, DEFAULT_TTL, not_bindable, summary};
use crate::guard::{Settlement, Settler};
use crate::item::ToolCall;
use crate::layers::Context;
use crate::names::TicketId;
use crate::policy::{Gate, Policy, PolicyHash};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::store::tickets::digest::{BoundCall, bind};
use crate::store::tickets::{
    Bound, Claiming, Presented, Standing, Terms, Ticket, TicketError, TicketLimits, TicketState,
    TicketStore,
};
use crate::verdict::{Finding, Hold, LayerId, Reason, Undecided};

/// How long a held call waits for the store, other calls before it included.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// What settles held calls. Without a ticket store every held call is refused.
///
/// # Errors
/// The policy has ticket rules and no ticket store is configured.
pub fn settler(policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Settler>, Problems> {
    if let Some(store) = &stores.tickets {
        return Ok(Arc::new(Settle {
            policy: policy.hash.clone(),
            store: Arc::clone(store),
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

fn undecided(cause: String) -> Undecided {
    Undecided {
        layer: LayerId::Tickets,
        cause,
    }
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
        let finding = said(
            hold.finding,
            Reason::NoApprover,
            "no ticket store is configured",
        );
        Box::pin(std::future::ready(Ok(Settlement::Deny(finding))))
    }

    fn changed<'a>(
        &'a self,
        _told: &'a Hold,
        _within: Duration,
    ) -> BoxFuture<'a, Result<bool, Undecided>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

struct Settle {
    policy: PolicyHash,
    store: Arc<dyn TicketStore>,
}

impl Settler for Settle {
    fn settle<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a Context<'a>,
        hold: Hold,
    ) -> BoxFuture<'a, Result<Settlement, Undecided>> {
        Box::pin(async move {
            let exchange = context.exchange;
            let bound = match bind(call, &exchange.upstream, &exchange.session) {
                Ok(bound) => bound,
                Err(obstacle) => {
                    return Ok(Settlement::Deny(not_bindable(hold.finding.rule, obstacle)));
                }
            };
            let presented = self.presented(call, context, bound, &hold.finding);
            let standing = in_time(self.store.present(presented.clone())).await?;
            let standing = match standing {
                Standing::Approved(ticket) => {
                    // A claim that comes too late is given back by the store: nobody took it over.
                    match in_time(self.store.claim(presented, ticket.id)).await? {
                        Claiming::Claimed(claim) => return Ok(Settlement::Redeem(claim)),
                        Claiming::Lost(standing) => standing,
                    }
                }
                standing => standing,
            };
            Ok(settlement(standing, hold.finding, self.store.limits()))
        })
    }

    fn changed<'a>(
        &'a self,
        told: &'a Hold,
        within: Duration,
    ) -> BoxFuture<'a, Result<bool, Undecided>> {
        Box::pin(async move {
            let Some(ticket) = &told.ticket else {
                return Ok(false);
            };
            let seen = match told.finding.reason {
                Reason::InProgress => TicketState::Redeeming,
                _ => TicketState::Requested,
            };
            let changed = self.store.changed(ticket.clone(), seen, within).await;
            let now = changed.map_err(|error| undecided(error.to_string()))?;
            Ok(now != seen)
        })
    }
}

impl Settle {
    fn presented(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
        bound: BoundCall,
        finding: &Finding,
    ) -> Presented {
        let exchange = context.exchange;
        // A hold that another layer asks for is settled on the call's own terms, where it has some.
        let rule = context.rule.and_then(|rule| rule.ticket.as_ref());
        let summary = rule.and_then(|rule| rule.summary.as_deref()).map_or_else(
            || summary::plain(&call.tool, &exchange.upstream),
            |template| summary::render(template, &call.args.value),
        );
        Presented {
            call: bound,
            principal: Arc::clone(&exchange.session.principal),
            session: exchange.session.key.clone(),
            route: exchange.route.clone(),
            upstream: exchange.upstream.clone(),
            tool: call.tool.clone(),
            again: call.again,
            hint: None,
            said: None,
            bound: Bound::default(),
            terms: Terms {
                policy: self.policy.clone(),
                layer: finding.layer,
                rule: finding.rule.clone(),
                reason: finding.reason,
                gate: rule.map_or(DEFAULT_GATE, |rule| rule.gate),
                roles: rule
                    .and_then(|rule| rule.role.clone())
                    .into_iter()
                    .collect(),
                approvals: 1,
                fresh: false,
                ttl: rule.map_or(DEFAULT_TTL, |rule| rule.ttl),
                summary,
                reconcile: None,
                mandate: None,
                idempotent: None,
            },
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, TicketError>>) -> Result<T, Undecided> {
    timeout(STORE_TIMEOUT, asked)
        .await
        .map_err(|_| undecided(format!("no answer within {STORE_TIMEOUT:?}")))?
        .map_err(|error| undecided(error.to_string()))
}

fn settlement(standing: Standing, finding: Finding, limits: &TicketLimits) -> Settlement {
    let deny = |reason, ticket: TicketId| {
        let finding = said(finding.clone(), reason, format!("ticket {ticket}"));
        Settlement::Refuse(Hold {
            ticket: Some(ticket),
            ..Hold::new(finding)
        })
    };
    match standing {
        Standing::Done(receipt) => Settlement::Replay(receipt),
        Standing::Waiting { ticket, new } => Settlement::Hold(waiting(&ticket, new, finding)),
        // Approved between the two looks: the next repeat takes it.
        Standing::Approved(ticket) => deny(Reason::InProgress, ticket.id),
        Standing::Redeeming(ticket) => deny(Reason::InProgress, ticket),
        Standing::Unknown(ticket) => deny(Reason::OutcomeUnknown, ticket),
        Standing::ResolvedDone(ticket) => deny(Reason::InProgress, ticket),
        Standing::Denied { ticket, comment } => match deny(Reason::ApprovalDenied, ticket) {
            Settlement::Refuse(hold) => Settlement::Refuse(Hold { comment, ..hold }),
            other => other,
        },
        Standing::StateChanged(ticket) => deny(Reason::StateChanged, ticket),
        Standing::Mismatch(ticket) => deny(Reason::TicketMismatch, ticket),
        Standing::Expired(ticket) => deny(Reason::ApprovalExpired, ticket),
        Standing::Capped(cap) => {
            Settlement::Deny(said(finding, Reason::ApprovalLimit, cap.detail(limits)))
        }
    }
}

fn waiting(ticket: &Ticket, new: bool, finding: Finding) -> Hold {
    let (reason, detail) = if new {
        (Reason::ApprovalRequired, "a request was made")
    } else {
        (Reason::ApprovalPending, "a request waits for an answer")
    };
    Hold {
        ticket: Some(ticket.id.clone()),
        summary: Some(ticket.summary.clone()),
        expires_at: Some(ticket.expires_at.to_string()),
        confirm: ticket.gate == Gate::Confirm,
        ..Hold::new(said(finding, reason, detail))
    }
}

/// The same objection of the same rule, as the tickets leave it.
fn said(finding: Finding, reason: Reason, detail: impl Into<Cow<'static, str>>) -> Finding {
    Finding {
        reason,
        detail: detail.into(),
        ..finding
    }
}
