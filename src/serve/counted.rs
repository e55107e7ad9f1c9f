//! The ticket store with its steps counted and timed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::clock::Clock;
use crate::guard::{Claim, Outcome};
use crate::metrics::Metrics;
use crate::names::{MandateId, TicketId};
use crate::store::tickets::audit::{AuditRow, Head, Note};
use crate::store::tickets::logins::LogIns;
use crate::store::tickets::{
    Answer, AnswerError, Answering, Cause, Claiming, Decider, Filter, Issued, Mandate,
    MandateFilter, Mandated, NewMandate, Presented, Resolution, Resolver, Spend, Standing, Stands,
    Ticket, TicketLimits, TicketState, TicketStore,
};
use crate::verdict::Undecided;

/// See the module.
pub(super) struct Counted {
    store: Arc<dyn TicketStore>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl Counted {
    pub(super) fn over(
        store: Arc<dyn TicketStore>,
        metrics: &Arc<Metrics>,
        clock: &Arc<dyn Clock>,
    ) -> Arc<dyn TicketStore> {
        Arc::new(Self {
            store,
            metrics: Arc::clone(metrics),
            clock: Arc::clone(clock),
        })
    }

    async fn timed<'a, T, E>(
        &'a self,
        step: &'static str,
        asked: Answering<'a, T, E>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let answer = asked.await;
        self.metrics.ticket_store(step, began.elapsed());
        answer
    }

    fn claimed(&self, claim: Box<dyn Claim>) -> Box<dyn Claim> {
        Box::new(CountedClaim {
            claim,
            metrics: Arc::clone(&self.metrics),
        })
    }

    fn decided(&self, answered: &Result<Ticket, AnswerError>, verdict: &'static str) {
        match answered {
            Ok(ticket) => {
                let took = self.clock.now().duration_since(ticket.created_at);
                let took = Duration::try_from(took).unwrap_or_default();
                self.metrics.ticket_decision(verdict, took);
            }
            Err(error) => self.metrics.ticket_answer_refused(error.code()),
        }
    }
}

const fn standing(standing: &Standing) -> &'static str {
    match standing {
        Standing::Approved(_) => "approved",
        Standing::Done(_) => "done",
        Standing::ResolvedDone(_) => "resolved_done",
        Standing::Waiting { new: true, .. } => "requested",
        Standing::Waiting { .. } => "waiting",
        Standing::Redeeming(_) => "redeeming",
        Standing::Unknown(_) => "unknown",
        Standing::Denied { .. } => "denied",
        Standing::Expired(_) => "expired",
        Standing::StateChanged(_) => "state_changed",
        Standing::Mismatch(_) => "mismatch",
        Standing::Capped(_) => "capped",
    }
}

impl TicketStore for Counted {
    fn present(&self, call: Presented) -> Answering<'_, Standing> {
        let asked = self.timed("present", self.store.present(call));
        Box::pin(async move {
            let said = asked.await?;
            self.metrics.ticket_call(standing(&said));
            Ok(said)
        })
    }

    fn claim(&self, call: Presented, ticket: TicketId) -> Answering<'_, Claiming> {
        let asked = self.timed("claim", self.store.claim(call, ticket));
        Box::pin(async move {
            Ok(match asked.await? {
                Claiming::Claimed(claim) => Claiming::Claimed(self.claimed(claim)),
                lost @ Claiming::Lost(_) => lost,
            })
        })
    }

    fn void(&self, ticket: TicketId, cause: Cause) -> Answering<'_, bool> {
        Box::pin(async move {
            let voided = self.store.void(ticket, cause).await?;
            if voided {
                self.metrics.ticket_voided(cause.as_str());
            }
            Ok(voided)
        })
    }

    fn answer(&self, answer: Answer) -> Answering<'_, Ticket, AnswerError> {
        let verdict = answer.verdict.as_str();
        let asked = self.timed("answer", self.store.answer(answer));
        Box::pin(async move {
            let answered = asked.await;
            self.decided(&answered, verdict);
            answered
        })
    }

    fn resolve(&self, resolution: Resolution) -> Answering<'_, Ticket, AnswerError> {
        let by = match resolution.by {
            Resolver::Person(_) => "person",
            Resolver::Recipe(_) => "recipe",
        };
        Box::pin(async move {
            let resolved = self.store.resolve(resolution).await;
            match &resolved {
                Ok(_) => self.metrics.ticket_resolution(by),
                Err(error) => self.metrics.ticket_answer_refused(error.code()),
            }
            resolved
        })
    }

    fn get(&self, ticket: TicketId) -> Answering<'_, Option<Ticket>> {
        self.store.get(ticket)
    }

    fn list(&self, filter: Filter) -> Answering<'_, Vec<Ticket>> {
        self.store.list(filter)
    }

    fn unknown(&self, limit: u32) -> Answering<'_, Vec<Ticket>> {
        self.store.unknown(limit)
    }

    fn counts(&self) -> Answering<'_, BTreeMap<TicketState, u64>> {
        self.store.counts()
    }

    fn changed(
        &self,
        ticket: TicketId,
        seen: TicketState,
        within: Duration,
    ) -> Answering<'_, TicketState> {
        self.store.changed(ticket, seen, within)
    }

    fn grant(&self, mandate: NewMandate) -> Answering<'_, Mandate, AnswerError> {
        Box::pin(async move {
            let granted = self.store.grant(mandate).await;
            if let Err(error) = &granted {
                self.metrics.ticket_answer_refused(error.code());
            }
            granted
        })
    }

    fn mandates(&self, filter: MandateFilter) -> Answering<'_, Vec<Mandate>> {
        self.store.mandates(filter)
    }

    fn end_mandate(&self, mandate: MandateId, by: Decider) -> Answering<'_, Option<Mandate>> {
        self.store.end_mandate(mandate, by)
    }

    fn claim_under(
        &self,
        call: Presented,
        spend: Option<Spend>,
        stands: Stands,
    ) -> Answering<'_, Mandated> {
        let asked = self.timed("mandate", self.store.claim_under(call, spend, stands));
        Box::pin(async move {
            Ok(match asked.await? {
                Mandated::Claimed(claim) => Mandated::Claimed(self.claimed(claim)),
                other => other,
            })
        })
    }

    fn admit(&self, call: Presented, issued: Issued) -> Answering<'_, bool> {
        Box::pin(self.timed("admit", self.store.admit(call, issued)))
    }

    fn note(&self, note: Note) -> Answering<'_, ()> {
        self.store.note(note)
    }

    fn head(&self) -> Answering<'_, Head> {
        self.store.head()
    }

    fn audit(&self, after: u64, limit: u32) -> Answering<'_, Vec<AuditRow>> {
        self.store.audit(after, limit)
    }

    fn cursor(&self, name: String) -> Answering<'_, u64> {
        self.store.cursor(name)
    }

    fn advance(&self, name: String, from: u64, to: u64) -> Answering<'_, bool> {
        self.store.advance(name, from, to)
    }

    fn prune(&self) -> Answering<'_, u64> {
        self.store.prune()
    }

    fn limits(&self) -> &TicketLimits {
        self.store.limits()
    }

    fn log_ins(&self) -> Option<Arc<dyn LogIns>> {
        self.store.log_ins()
    }
}

/// A claim whose outcome is counted. Dropped without one it is what the store makes of it: unknown.
struct CountedClaim {
    claim: Box<dyn Claim>,
    metrics: Arc<Metrics>,
}

impl Claim for CountedClaim {
    fn ticket(&self) -> &TicketId {
        self.claim.ticket()
    }

    fn arguments(&self) -> &Bytes {
        self.claim.arguments()
    }

    fn finish(self: Box<Self>, outcome: Outcome) -> BoxFuture<'static, Result<(), Undecided>> {
        let word = match &outcome {
            Outcome::NotSent => "not_sent",
            Outcome::Unknown => "unknown",
            Outcome::Answered(receipt) | Outcome::Withheld(receipt) if receipt.status < 400 => {
                "succeeded"
            }
            Outcome::Answered(_) | Outcome::Withheld(_) => "failed",
        };
        let Self { claim, metrics } = *self;
        let stored = claim.finish(outcome);
        Box::pin(async move {
            let began = Instant::now();
            let stored = stored.await;
            metrics.ticket_store("finish", began.elapsed());
            if stored.is_ok() {
                metrics.ticket_redemption(word);
            }
            stored
        })
    }
}
