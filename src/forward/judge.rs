//! One request before the guard.

use std::sync::Arc;

use http::HeaderMap;

use crate::guard::{Decision, Guard};
use crate::item::{EgressTarget, Exchange, Item, Leg, Located, Place, RouteKind};
use crate::layers::egress::{Denied, Host, Rule, Spending};
use crate::ledger::Uncharged;
use crate::metrics::{Metrics, Unscanned};
use crate::names::{RouteName, RuleId, UpstreamName};
use crate::policy::Budget;
use crate::principal::Session;
use crate::protocols::Refusal;
use crate::provenance::Evidence;
use crate::proxy::redirect;
use crate::proxy::refuse::{self, Refused};
use crate::settings::FORWARD;
use crate::verdict::{Finding, LayerId, Mode, Reason, Undecided, Verdict};

/// What one request has from its beginning to its end: one policy and one principal.
pub(super) struct Asking {
    pub(super) guard: Arc<Guard>,
    /// The rule of the policy's `forward`, as the layer judges by it.
    pub(super) rule: Arc<Rule>,
    pub(super) id: RuleId,
    pub(super) metrics: Arc<Metrics>,
    pub(super) session: Arc<Session>,
    /// How much a session may send to one host.
    pub(super) budget: Option<Budget>,
    /// What is known of the session; `None` where no rule asks, or nothing ties this request to it.
    pub(super) evidence: Option<Arc<Evidence>>,
    /// [`FORWARD`].
    pub(super) route: RouteName,
}

impl Asking {
    fn exchange(&self, leg: Leg, target: EgressTarget) -> Exchange {
        Exchange {
            leg,
            route: self.route.clone(),
            kind: RouteKind::Forward,
            upstream: UpstreamName::from(FORWARD),
            session: Arc::clone(&self.session),
            evidence: self.evidence.clone(),
            headers: None,
            items: vec![Located {
                place: Place::default(),
                item: Item::Egress(target),
            }],
        }
    }

    /// Has a target judged: the decision that lets it pass, or the refusal.
    pub(super) async fn judge(&self, leg: Leg, target: EgressTarget) -> Result<Decision, Refused> {
        self.judge_with(leg, target, None).await
    }

    /// The same with the header fields that leave with the request.
    pub(super) async fn judge_with(
        &self,
        leg: Leg,
        target: EgressTarget,
        headers: Option<Arc<HeaderMap>>,
    ) -> Result<Decision, Refused> {
        let head = target.url.as_ref().unwrap_or(&target.authority);
        let body = target.body.as_ref();
        let bytes = body.map_or(head.len(), |body| body.bytes.len());
        let exchange = Exchange {
            headers,
            ..self.exchange(leg, target)
        };
        let decided = self.guard.decide(&exchange).await;
        let decision = decided.map_err(|undecided| match leg {
            Leg::ToUpstream => refuse::undecided_request(&undecided),
            Leg::ToAgent => refuse::undecided_response(&undecided),
        })?;
        let ruling = decision.rulings.first().ok_or(&refuse::INTERNAL)?;
        if ruling.opinions.iter().any(|o| o.mode != Mode::Off) {
            self.metrics.scanned(&exchange.route, bytes);
        } else {
            self.metrics
                .unscanned(&exchange.route, Unscanned::NoRule, bytes);
        }
        match &ruling.verdict {
            Verdict::Allow => Ok(decision),
            Verdict::Deny(finding) => Err(refusal(finding, leg)),
            Verdict::Hold(hold) => Err(refusal(&hold.finding, leg)),
            Verdict::Rewrite(_) => Err(refuse::RULING_UNWRITABLE.refusal()),
        }
    }

    /// What the layer's own matcher says where there is no item any more, or not yet: the addresses of a name, the first bytes
    /// of a tunnel. Holds in every mode.
    pub(super) async fn refuse(
        &self,
        target: &EgressTarget,
        denied: Denied,
        reason: Reason,
    ) -> Refused {
        let detail = format!("{}: {}", denied.code.as_str(), denied.why);
        self.refused(target, reason, detail).await
    }

    /// What the session sends to a host; `None` where the policy has no budget, or the layer only watches.
    pub(super) fn spending(&self, host: &Host) -> Option<Spending> {
        let budget = self.budget.as_ref().filter(|_| self.enforces())?;
        Some(Spending::new(
            (&self.id, budget),
            (&self.rule, host),
            &self.session,
            (self.guard.ledger(), self.guard.clock()),
        ))
    }

    /// It sends no more to this host for now.
    pub(super) async fn spent(&self, target: &EgressTarget, why: Uncharged) -> Refused {
        match why {
            Uncharged::Exceeded(_) => {
                let detail = "what this session sent to the host would pass its budget".to_owned();
                self.refused(target, Reason::BudgetExceeded, detail).await
            }
            other => refuse::undecided_request(&Undecided {
                layer: LayerId::Egress,
                cause: format!("the ledger of budgets: {other}"),
            }),
        }
    }

    async fn refused(&self, target: &EgressTarget, reason: Reason, detail: String) -> Refused {
        let finding = Finding {
            layer: LayerId::Egress,
            rule: self.id.clone(),
            reason,
            argument: None,
            detail: detail.into(),
        };
        let exchange = self.exchange(Leg::ToUpstream, target.clone());
        match self.guard.refuse(&exchange, finding.clone()).await {
            Ok(()) => refusal(&finding, Leg::ToUpstream),
            Err(undecided) => refuse::undecided_request(&undecided),
        }
    }

    /// Whether the layer's verdicts hold.
    pub(super) fn enforces(&self) -> bool {
        self.guard.policy().modes.of(LayerId::Egress) == Mode::Enforce
    }
}

/// What the agent is told: of a target, not of arguments.
fn refusal(finding: &Finding, leg: Leg) -> Refused {
    if leg == Leg::ToAgent {
        return redirect::refusal(finding);
    }
    let mut refusal = Refusal::of(finding, None);
    let message = match finding.reason {
        Reason::HostNotAllowed => {
            "The policy does not let agents reach this place: its host, port, path or method is not listed. Retrying does not help; an operator can add it to the policy."
        }
        Reason::SecretDetected => {
            "The request carries a credential or another secret. Send it without; retrying the same request does not help."
        }
        Reason::PrivateValue => {
            "The request carries a value that a tool gave for this session only. Send it without."
        }
        Reason::UrlUnreadable => {
            "The place asked for is malformed or ambiguous. Ask for a plain host and port, or a plain absolute URL."
        }
        _ => return Box::new(refusal),
    };
    message.clone_into(&mut refusal.message);
    Box::new(refusal)
}
