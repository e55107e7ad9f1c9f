//! Claimed tickets of one message, brought to their outcome together.

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use super::refuse::{self, Refused};
use crate::clock::{Clock, SystemClock};
use crate::guard::{Charges, Claim, Decision, Outcome, Receipt};
use crate::names::TicketId;

/// Dropped without an outcome, each ends as `unknown`; what the calls were charged with is kept, unless nothing was sent.
pub(super) struct Claims(Vec<Box<dyn Claim>>, Charges);

impl Claims {
    /// Takes the claims out of a decision.
    pub(super) fn of(decision: &mut Decision) -> Self {
        let claims = std::mem::take(&mut decision.claims);
        let charges = std::mem::take(&mut decision.charges);
        Self(
            claims.into_iter().map(|(_, claim)| claim).collect(),
            charges,
        )
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is anything to give back.
    pub(super) fn holds_any(&self) -> bool {
        !self.0.is_empty() || !self.1.is_empty()
    }

    /// The first ticket.
    pub(super) fn first(&self) -> Option<TicketId> {
        self.0.first().map(|claim| claim.ticket().clone())
    }

    /// The value of `Idempotency-Key`: the first ticket's id.
    pub(super) fn key(&self) -> Option<HeaderValue> {
        let first = self.0.first()?;
        HeaderValue::from_str(first.ticket().as_str()).ok()
    }

    /// Provably nothing was sent: each is approved again, and nothing is charged.
    pub(super) async fn not_sent(mut self) {
        std::mem::take(&mut self.1).give_back().await;
        // A failure leaves it as unknown, which is safe; the store has logged why.
        let _ = self.finish(|_| Outcome::NotSent).await;
    }

    /// Sent, and nobody knows what came of it.
    pub(super) async fn unknown(self) {
        let _ = self.finish(|_| Outcome::Unknown).await;
    }

    /// The agent may run the calls from here on.
    pub(super) async fn released(self) -> Result<(), Refused> {
        let mut answer = Response::new(Bytes::from_static(br#"{"released":true}"#));
        let json = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(header::CONTENT_TYPE, json);
        self.answered(&answer).await
    }

    /// The upstream answered; the outcome is stored before the agent hears of it.
    pub(super) async fn answered(self, answer: &Response<Bytes>) -> Result<(), Refused> {
        self.spend(answer, Outcome::Answered).await
    }

    /// The upstream answered, and this is what the agent gets in its answer's place.
    pub(super) async fn withheld(self, instead: &Response<Bytes>) -> Result<(), Refused> {
        self.spend(instead, Outcome::Withheld).await
    }

    async fn spend(
        self,
        answer: &Response<Bytes>,
        outcome: impl Fn(Receipt) -> Outcome,
    ) -> Result<(), Refused> {
        let completed_at = SystemClock.now();
        let content_type = answer.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let receipt = |claim: &dyn Claim| {
            outcome(Receipt {
                ticket: claim.ticket().clone(),
                status: answer.status().as_u16(),
                content_type: content_type.map(str::to_owned),
                body: answer.body().clone(),
                completed_at,
            })
        };
        self.finish(receipt).await
    }

    async fn finish(self, outcome: impl Fn(&dyn Claim) -> Outcome) -> Result<(), Refused> {
        let mut result = Ok(());
        for claim in self.0 {
            let outcome = outcome(claim.as_ref());
            let ticket = claim.ticket().clone();
            // Stored even where the client leaves meanwhile.
            let cause = match tokio::spawn(claim.finish(outcome)).await {
                Ok(Ok(())) => continue,
                Ok(Err(undecided)) => undecided.cause,
                Err(error) => error.to_string(),
            };
            tracing::error!(%ticket, cause, "the outcome of a ticket could not be stored");
            result = Err(refuse::outcome_unknown(Some(ticket)));
        }
        result
    }
}
