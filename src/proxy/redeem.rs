//! A call whose ticket is claimed: sent once, in a task that outlives the client.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use super::Body;
use super::answer::Incoming;
use super::claims::Claims;
use super::refuse::{self, Refused};
use super::relay::Relay;
use super::transit::Transit;
use super::upstream::Upstream;
use crate::guard::Cleared;
use crate::protocols::Request;

/// A claimed call, ready to leave.
pub(super) struct Redemption<U> {
    pub(super) upstream: U,
    pub(super) transit: Arc<Transit>,
    pub(super) request: Request,
    pub(super) outgoing: Cleared<http::Request<Bytes>>,
    pub(super) claims: Claims,
    pub(super) permit: Arc<OwnedSemaphorePermit>,
}

impl<U: Upstream> Redemption<U> {
    /// Carries the call out in a task of its own and waits for its answer, or for what the server says before it.
    pub(super) async fn start(self, tasks: &TaskTracker) -> Result<Response<Body>, Refused> {
        let (mut relay, answer) = Relay::new();
        let ticket = self.claims.first();
        tasks.spawn(async move {
            let _permit = Arc::clone(&self.permit);
            let transit = Arc::clone(&self.transit);
            let address = transit.entry.protocol.address(&self.request);
            let answer = self.carry_out(&mut relay).await;
            // Nobody listens where the client has left: the receipt is stored all the same.
            relay
                .end(answer, |refusal| {
                    let protocol = &transit.entry.protocol;
                    protocol.refuse(refusal, address.as_ref()).into_body()
                })
                .await;
        });
        // A task that panicked has dropped its claims: they are unknown.
        answer
            .await
            .unwrap_or_else(|_| Err(refuse::outcome_unknown(ticket)))
    }

    async fn carry_out(self, relay: &mut Relay) -> Result<Response<Bytes>, Refused> {
        let Self {
            upstream,
            transit,
            request,
            outgoing,
            claims,
            ..
        } = self;
        let name = &transit.entry.route.upstream;
        let ticket = claims.first();
        let response = match upstream.send(name, outgoing).await {
            Ok(response) => response,
            Err(error) if error.not_sent() => {
                claims.not_sent().await;
                return Err(transit.no_answer(&error));
            }
            Err(error) => {
                let _ = transit.no_answer(&error);
                claims.unknown().await;
                return Err(refuse::outcome_unknown(ticket));
            }
        };
        let whole = match Incoming::open(&transit, &request, response) {
            Ok(incoming) => incoming.relayed(relay).await,
            Err(refusal) => Err(refusal.into()),
        };
        match whole {
            Ok(answer) => {
                claims.answered(&answer).await?;
                Ok(answer)
            }
            Err(failure) if failure.cut => {
                claims.unknown().await;
                Err(refuse::outcome_unknown(ticket))
            }
            // The upstream acted, and its answer cannot be given: the receipt is what the agent gets.
            Err(failure) => {
                let address = transit.entry.protocol.address(&request);
                let rendered = transit
                    .entry
                    .protocol
                    .refuse(&failure.refusal, address.as_ref());
                claims.withheld(&rendered).await?;
                Err(failure.refusal)
            }
        }
    }
}
