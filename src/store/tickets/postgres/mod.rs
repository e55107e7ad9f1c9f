//! Tickets in a PostgreSQL database, which several processes may serve at once.
//!
//! Every step is one transaction under READ COMMITTED. Identical calls are taken one after the other by an advisory lock on their
//! digest, a ticket is changed under its row's lock, and the audit's head is locked last. A claim is one conditional UPDATE.

mod acquainted;
mod answers;
mod audit;
mod calls;
mod claim;
mod db;
mod keep;
mod ledger;
mod logins;
mod mandates;
mod node;
mod reads;
mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use self::acquainted::PostgresAcquainted;
use self::calls::Taken;
use self::db::Db;
use self::ledger::PostgresLedger;
use self::logins::PostgresLogIns;
use self::mandates::Under;
use super::audit::{AuditRow, Head, Note};
use super::logins::LogIns;
use super::{
    Answer, AnswerError, Answering, Cause, Claiming, Decider, Filter, Issued, Mandate,
    MandateFilter, Mandated, NewMandate, Opened, POLL, Presented, Resolution, Spend, Stands,
    Ticket, TicketError, TicketLimits, TicketState, TicketStore,
};
use crate::clock::Clock;
use crate::names::{MandateId, TicketId};
use crate::store::sql::ServerTls;

/// Opens the store in the database of `url` (`postgresql://USER:PASSWORD@HOST/DATABASE`), its tables in the schema `holdpoint`,
/// made if missing, and serves it: calls are claimed under a lease. `place` names the database in errors: the URL is a secret.
///
/// # Errors
/// The database cannot be reached, takes no writes, or holds a newer version.
pub fn open_serving(
    url: &str,
    tls: &ServerTls,
    place: &str,
    clock: Arc<dyn Clock>,
    limits: TicketLimits,
) -> Result<Opened, TicketError> {
    let db = Db::open(url, tls, place, (clock, limits), true)?;
    node::serve(&db)?;
    Ok(opened(db))
}

/// As [`open_serving`], and neither makes tables nor claims: for the command line.
///
/// # Errors
/// The database cannot be reached, or holds no ticket store of this version.
pub fn open_existing(
    url: &str,
    tls: &ServerTls,
    place: &str,
    clock: Arc<dyn Clock>,
    limits: TicketLimits,
) -> Result<Opened, TicketError> {
    Ok(opened(Db::open(url, tls, place, (clock, limits), false)?))
}

fn opened(db: Arc<Db>) -> Opened {
    Opened {
        ledger: Some(Arc::new(PostgresLedger(Arc::clone(&db)))),
        acquainted: Some(Arc::new(PostgresAcquainted(Arc::clone(&db)))),
        tickets: Arc::new(Store(db)),
    }
}

/// The store.
#[derive(Clone)]
struct Store(Arc<Db>);

/// One step that borrows what it works on: `step!(self, value, |tx, value| work)`.
macro_rules! step {
    ($store:expr, $value:expr, |$tx:ident, $given:ident| $work:expr) => {{
        let given = Arc::new($value);
        $store
            .0
            .step(move |$tx| {
                let $given = Arc::clone(&given);
                Box::pin(async move { $work.await })
            })
            .await
    }};
}

fn unavailable(cause: &str) -> TicketError {
    TicketError::Unavailable {
        cause: cause.to_owned(),
    }
}

impl TicketStore for Store {
    fn present(&self, call: Presented) -> Answering<'_, super::Standing> {
        Box::pin(async move { step!(self, call, |tx, call| calls::present(tx, &call)) })
    }

    fn claim(&self, call: Presented, ticket: TicketId) -> Answering<'_, Claiming> {
        Box::pin(async move {
            let store = self.clone();
            let taken = step!(self, (store, call, ticket), |tx, given| calls::claim(
                tx, &given.0, &given.1, &given.2
            ))?;
            Ok(match taken {
                Taken::Claimed(claim) => Claiming::Claimed(claim.hand_over()),
                Taken::Lost(standing) => Claiming::Lost(standing),
            })
        })
    }

    fn void(&self, ticket: TicketId, cause: Cause) -> Answering<'_, bool> {
        Box::pin(async move { step!(self, ticket, |tx, ticket| calls::void(tx, &ticket, cause)) })
    }

    fn answer(&self, answer: Answer) -> Answering<'_, Ticket, AnswerError> {
        Box::pin(async move { step!(self, answer, |tx, answer| answers::answer(tx, &answer))? })
    }

    fn resolve(&self, resolution: Resolution) -> Answering<'_, Ticket, AnswerError> {
        Box::pin(async move { step!(self, resolution, |tx, it| answers::resolve(tx, &it))? })
    }

    fn get(&self, ticket: TicketId) -> Answering<'_, Option<Ticket>> {
        Box::pin(async move { step!(self, ticket, |tx, ticket| reads::whole(tx, &ticket)) })
    }

    fn list(&self, filter: Filter) -> Answering<'_, Vec<Ticket>> {
        Box::pin(async move { step!(self, filter, |tx, filter| reads::list(tx, &filter)) })
    }

    fn unknown(&self, limit: u32) -> Answering<'_, Vec<Ticket>> {
        Box::pin(async move { step!(self, limit, |tx, limit| reads::unknown(tx, *limit)) })
    }

    fn counts(&self) -> Answering<'_, BTreeMap<TicketState, u64>> {
        Box::pin(self.0.step(|tx| Box::pin(reads::counts(tx))))
    }

    fn changed(
        &self,
        ticket: TicketId,
        seen: TicketState,
        within: Duration,
    ) -> Answering<'_, TicketState> {
        Box::pin(async move {
            let until = Instant::now() + within;
            let mut told = self.0.waiting.watch(&ticket);
            loop {
                let state = step!(self, ticket.clone(), |tx, ticket| reads::state(tx, &ticket))?;
                let Some(state) = state else {
                    return Err(unavailable("the ticket is no longer kept"));
                };
                let left = until.saturating_duration_since(Instant::now());
                if state != seen || left.is_zero() {
                    return Ok(state);
                }
                // Another process tells nobody: it is looked for.
                let _ = timeout(left.min(POLL), told.changed()).await;
            }
        })
    }

    fn grant(&self, mandate: NewMandate) -> Answering<'_, Mandate, AnswerError> {
        Box::pin(async move { step!(self, mandate, |tx, mandate| mandates::grant(tx, &mandate))? })
    }

    fn mandates(&self, filter: MandateFilter) -> Answering<'_, Vec<Mandate>> {
        Box::pin(async move { step!(self, filter, |tx, filter| mandates::list(tx, &filter)) })
    }

    fn end_mandate(&self, mandate: MandateId, by: Decider) -> Answering<'_, Option<Mandate>> {
        Box::pin(async move {
            step!(self, (mandate, by), |tx, given| mandates::end(
                tx, &given.0, &given.1
            ))
        })
    }

    fn claim_under(
        &self,
        call: Presented,
        spend: Option<Spend>,
        stands: Stands,
    ) -> Answering<'_, Mandated> {
        Box::pin(async move {
            let store = self.clone();
            let under = step!(self, (store, call, spend, stands), |tx, given| {
                mandates::claim_under(tx, &given.0, (&given.1, given.2.as_ref()), &given.3)
            })?;
            Ok(match under {
                Under::None => Mandated::NoMandate,
                Under::Exceeded(mandate) => Mandated::Exceeded(mandate),
                Under::Said(standing) | Under::Claimed(Taken::Lost(standing)) => {
                    Mandated::Said(standing)
                }
                Under::Claimed(Taken::Claimed(claim)) => Mandated::Claimed(claim.hand_over()),
            })
        })
    }

    fn admit(&self, call: Presented, issued: Issued) -> Answering<'_, bool> {
        Box::pin(async move {
            step!(self, (call, issued), |tx, given| mandates::admit(
                tx, &given.0, &given.1
            ))
        })
    }

    fn note(&self, note: Note) -> Answering<'_, ()> {
        Box::pin(self.0.step(move |tx| {
            tx.note(note.clone());
            Box::pin(std::future::ready(Ok(())))
        }))
    }

    fn audit(&self, after: u64, limit: u32) -> Answering<'_, Vec<AuditRow>> {
        Box::pin(
            self.0
                .step(move |tx| Box::pin(audit::rows(tx, after, limit))),
        )
    }

    fn head(&self) -> Answering<'_, Head> {
        Box::pin(self.0.step(|tx| Box::pin(audit::head(tx))))
    }

    fn cursor(&self, name: String) -> Answering<'_, u64> {
        Box::pin(async move { step!(self, name, |tx, name| audit::cursor(tx, &name)) })
    }

    fn advance(&self, name: String, from: u64, to: u64) -> Answering<'_, bool> {
        Box::pin(async move { step!(self, name, |tx, name| audit::advance(tx, &name, from, to)) })
    }

    fn prune(&self) -> Answering<'_, u64> {
        Box::pin(self.0.step(|tx| Box::pin(keep::prune(tx))))
    }

    fn limits(&self) -> &TicketLimits {
        &self.0.limits
    }

    fn log_ins(&self) -> Option<Arc<dyn LogIns>> {
        Some(Arc::new(PostgresLogIns(Arc::clone(&self.0))))
    }
}
