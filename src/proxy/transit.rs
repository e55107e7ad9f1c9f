//! What one request's two legs share: the guard it began with, its route, its session, and the bytes they count.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use http::HeaderMap;

use super::hold::Holds;
use super::placeholders::Mask;
use super::refuse::{self, Refused};
use super::route::Entry;
use super::trail::Trail;
use super::upstream::UpstreamError;
use crate::acquainted::Digest;
use crate::guard::{Decision, Guard, Taint};
use crate::item::{Exchange, Item, Leg, Located, RouteKind};
use crate::metrics::{Metrics, Unscanned, UpstreamFault};
use crate::principal::Session;
use crate::protocols::Unjudged;
use crate::record::Taken;
use crate::settings::Settings;
use crate::verdict::{Mode, Undecided, Verdict};
use crate::wire::budget::Budget;

#[derive(Clone)]
pub(super) struct Transit {
    pub(super) guard: Arc<Guard>,
    /// Whichever holds today, for what is judged anew.
    pub(super) guards: Arc<ArcSwap<Guard>>,
    pub(super) holds: Arc<Holds>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) settings: Arc<Settings>,
    pub(super) entry: Arc<Entry>,
    pub(super) session: Arc<Session>,
    /// Takes out of answers what only the proxy may know.
    pub(super) mask: Option<Arc<Mask>>,
    pub(super) memory: Budget,
    /// The agent's header fields that leave for a tool's backend.
    pub(super) leaving: Option<Arc<HeaderMap>>,
    /// `None`: no rule asks who said what.
    pub(super) trail: Option<Arc<Trail>>,
    /// Whether a text that looks like an instruction has come with this request or its answer.
    pub(super) taint: Arc<Taint>,
    /// What the calls of this exchange have reached, until it is known that they were carried out.
    pub(super) reached: Arc<Mutex<Vec<Digest>>>,
    /// `None`: the exchange is not recorded.
    pub(super) taken: Option<Arc<Taken>>,
}

/// What the guard said, and how many bytes of text it was about.
pub(super) struct Judged {
    pub(super) decision: Decision,
    pub(super) bytes: usize,
    /// What was judged.
    pub(super) items: Vec<Located>,
}

impl Transit {
    /// The same request under today's policy.
    pub(super) fn renewed(&self) -> Self {
        Self {
            guard: self.guards.load_full(),
            ..self.clone()
        }
    }

    /// Has the items judged and counts their texts. The items of each of the `groups` stand or fall together.
    pub(super) async fn judge(
        &self,
        leg: Leg,
        items: Vec<Located>,
        groups: &[Range<usize>],
    ) -> Result<Judged, Undecided> {
        let judged = self.decide(leg, items, groups).await?;
        let (mut scanned, mut unscanned) = (0, 0);
        for (located, ruling) in judged.items.iter().zip(&judged.decision.rulings) {
            let judged = ruling.opinions.iter().any(|o| o.mode != Mode::Off);
            *(if judged { &mut scanned } else { &mut unscanned }) += size(&located.item);
        }
        self.metrics.scanned(&self.entry.route.name, scanned);
        self.unscanned(Unscanned::NoRule, unscanned);
        Ok(judged)
    }

    /// As [`Transit::judge`], for texts that are counted already.
    pub(super) async fn decide(
        &self,
        leg: Leg,
        items: Vec<Located>,
        groups: &[Range<usize>],
    ) -> Result<Judged, Undecided> {
        let route = &self.entry.route;
        let is_call = |located: &Located| matches!(located.item, Item::ToolCall(_));
        let trail = self.trail.as_ref().filter(|_| items.iter().any(is_call));
        let exchange = Exchange {
            leg,
            route: route.name.clone(),
            kind: self.kind(),
            upstream: route.upstream.clone(),
            session: Arc::clone(&self.session),
            items,
            evidence: trail.map(|trail| trail.evidence()),
            headers: self.leaving.clone().filter(|_| leg == Leg::ToUpstream),
        };
        let mut decision = self.guard.decide_in(&exchange, groups, &self.taint).await?;
        self.pages(&mut decision);
        if let Some(taken) = &self.taken {
            taken.judged(leg, &exchange.items, &decision.rulings);
        }
        let reached = self.guard.reached(&exchange, &decision);
        self.lock_reached().extend(reached);
        if let Some(trail) = &self.trail {
            trail.judged(leg, &exchange.items, &decision.rulings, &self.metrics);
        }
        let bytes = exchange.items.iter().map(|located| size(&located.item));
        Ok(Judged {
            decision,
            bytes: bytes.sum(),
            items: exchange.items,
        })
    }

    /// Where its user can confirm a call.
    fn pages(&self, decision: &mut Decision) {
        let Some(base) = self.settings.approver_page() else {
            return;
        };
        for ruling in &mut decision.rulings {
            if let Verdict::Hold(hold) = &mut ruling.verdict
                && hold.confirm
                && let Some(ticket) = &hold.ticket
            {
                let page = base.join(&format!("tickets/{ticket}")).ok();
                hold.page = page.map(String::from);
            }
        }
    }

    fn lock_reached(&self) -> MutexGuard<'_, Vec<Digest>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls of this exchange were carried out: what they reached is remembered. At its end, so that the calls of one
    /// message are judged alike whether they come at once or one after the other.
    pub(super) async fn acquaint(&self) {
        let reached = std::mem::take(&mut *self.lock_reached());
        self.guard.acquaint(&self.session.principal, &reached).await;
    }

    pub(super) fn kind(&self) -> RouteKind {
        self.entry.protocol.kind()
    }

    pub(super) fn unscanned(&self, reason: Unscanned, bytes: usize) {
        if bytes > 0 {
            self.metrics
                .unscanned(&self.entry.route.name, reason, bytes);
        }
    }

    /// Counts what of a body's bytes was not judged: what the adapter knows by its reason, all else as `rest`.
    pub(super) fn rest(&self, rest: Unscanned, body: usize, judged: usize, unjudged: &Unjudged) {
        for (reason, bytes) in unjudged.iter() {
            self.unscanned(reason, bytes);
        }
        self.unscanned(rest, body.saturating_sub(judged + unjudged.total()));
    }

    /// Logs and counts what an upstream did wrong.
    pub(super) fn fault(&self, fault: UpstreamFault, cause: &dyn std::fmt::Display) {
        let upstream = &self.entry.route.upstream;
        self.metrics.upstream_error(upstream, fault);
        tracing::warn!(
            route = self.entry.route.name.as_str(),
            upstream = upstream.as_str(),
            kind = fault.as_str(),
            %cause,
            "the upstream failed"
        );
    }

    /// What the agent is told of an upstream that gave no answer.
    pub(super) fn no_answer(&self, error: &UpstreamError) -> Refused {
        self.fault(error.fault(), error);
        match error {
            UpstreamError::NotSent(_) => refuse::UPSTREAM_UNREACHABLE.refusal(),
            UpstreamError::TimedOut => refuse::UPSTREAM_TIMEOUT.refusal(),
            UpstreamError::Broken(_) => {
                let mut refusal = refuse::UPSTREAM_BROKEN.refusal();
                // A model that is asked twice changes nothing.
                refusal.retry = self.kind() == RouteKind::Model;
                refusal
            }
        }
    }
}

/// Bytes of text in an item.
fn size(item: &Item) -> usize {
    match item {
        Item::Definition(definition) => definition.text.len(),
        Item::ToolOutput(output) => output.text.len(),
        Item::ToolCall(call) => call.args.raw.len(),
        Item::ModelText(text) => text.text.len(),
        Item::Egress(target) => target.authority.len(),
        Item::ProviderTool(tool) => tool.kind.len(),
        Item::Unreadable(_) => 0,
    }
}
