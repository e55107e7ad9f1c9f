//! Tickets in an SQLite file: one writer connection, each step in a `BEGIN IMMEDIATE` transaction that is on disk before it
//! counts.

mod answers;
mod audit;
mod calls;
mod claim;
mod keep;
mod mandates;
mod reads;
mod rows;
mod schema;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::{Instant, timeout};

use self::calls::Taken;
use self::claim::SqliteClaim;
use self::mandates::Under;
use self::writer::Writer;
use super::audit::{AuditRow, Head, Note};
use super::{
    Answer, AnswerError, Answering, Cause, Claiming, Decider, Filter, Issued, Mandate,
    MandateFilter, Mandated, NewMandate, POLL, Presented, Resolution, Spend, Standing, Stands,
    Ticket, TicketError, TicketLimits, TicketState, TicketStore,
};
use crate::clock::Clock;
use crate::names::{MandateId, TicketId};

type Sql<T> = rusqlite::Result<T>;

/// Opens a ticket store, made if missing; `:memory:` is a private one that ends with the value. Claims that another process
/// left behind are not touched.
///
/// # Errors
/// The file cannot be made or is something else.
pub fn open(
    path: &Path,
    clock: Arc<dyn Clock>,
    limits: TicketLimits,
) -> Result<Arc<dyn TicketStore>, TicketError> {
    let connection = if path == Path::new(":memory:") {
        schema::in_memory()?
    } else {
        schema::open(path, true)?
    };
    Ok(Arc::new(Sqlite::new(connection, clock, limits, None)))
}

/// As [`open`], and never makes a file: for the command line, where a mistyped path must not become a store.
///
/// # Errors
/// The file is missing, cannot be opened, or is something else.
pub fn open_existing(
    path: &Path,
    clock: Arc<dyn Clock>,
    limits: TicketLimits,
) -> Result<Arc<dyn TicketStore>, TicketError> {
    let connection = schema::open(path, false)?;
    Ok(Arc::new(Sqlite::new(connection, clock, limits, None)))
}

/// As [`open`], for the one process that serves the store: what an earlier one was redeeming becomes `unknown`.
///
/// # Errors
/// As [`open`], and where another process serves the store already.
pub fn open_serving(
    path: &Path,
    clock: Arc<dyn Clock>,
    limits: TicketLimits,
) -> Result<Arc<dyn TicketStore>, TicketError> {
    if path == Path::new(":memory:") {
        return open(path, clock, limits);
    }
    let lock = schema::serving_lock(path)?;
    let connection = schema::open(path, true)?;
    let store = Sqlite::new(connection, clock, limits, Some(lock));
    let lost = store.0.recover()?;
    if lost > 0 {
        tracing::error!(
            tickets = lost,
            "calls were on their way when the process ended: their outcome is unknown"
        );
    }
    Ok(Arc::new(store))
}

/// The store.
struct Sqlite(Arc<Writer>);

impl Sqlite {
    fn new(
        connection: Connection,
        clock: Arc<dyn Clock>,
        limits: TicketLimits,
        serving: Option<File>,
    ) -> Self {
        Self(Arc::new(Writer::new(connection, clock, limits, serving)))
    }
}

fn unavailable(cause: &str) -> TicketError {
    TicketError::Unavailable {
        cause: cause.to_owned(),
    }
}

/// A claim as its caller gets it.
enum Bound {
    Claimed(SqliteClaim),
    Lost(Standing),
}

impl Bound {
    /// Made where the transaction ends, so that a claim whose caller has gone is given back.
    fn new(writer: Arc<Writer>, taken: Taken) -> Self {
        match taken {
            Taken::Claimed(attempt, arguments) => {
                Self::Claimed(SqliteClaim::new(writer, attempt, arguments))
            }
            Taken::Lost(standing) => Self::Lost(standing),
        }
    }
}

impl TicketStore for Sqlite {
    fn present(&self, call: Presented) -> Answering<'_, Standing> {
        Box::pin(self.0.run(move |tx| calls::present(tx, &call)))
    }

    fn claim(&self, call: Presented, ticket: TicketId) -> Answering<'_, Claiming> {
        Box::pin(async move {
            let writer = Arc::clone(&self.0);
            let bound = self
                .0
                .run_then(
                    move |tx| calls::claim(tx, &call, &ticket),
                    |taken| Bound::new(writer, taken),
                )
                .await?;
            Ok(match bound {
                Bound::Claimed(claim) => Claiming::Claimed(claim.hand_over()),
                Bound::Lost(standing) => Claiming::Lost(standing),
            })
        })
    }

    fn void(&self, ticket: TicketId, cause: Cause) -> Answering<'_, bool> {
        Box::pin(self.0.run(move |tx| calls::void(tx, &ticket, cause)))
    }

    fn answer(&self, answer: Answer) -> Answering<'_, Ticket, AnswerError> {
        Box::pin(async move { self.0.run(move |tx| answers::answer(tx, &answer)).await? })
    }

    fn resolve(&self, resolution: Resolution) -> Answering<'_, Ticket, AnswerError> {
        Box::pin(async move {
            self.0
                .run(move |tx| answers::resolve(tx, &resolution))
                .await?
        })
    }

    fn get(&self, ticket: TicketId) -> Answering<'_, Option<Ticket>> {
        Box::pin(self.0.run(move |tx| reads::whole(tx, &ticket)))
    }

    fn list(&self, filter: Filter) -> Answering<'_, Vec<Ticket>> {
        Box::pin(self.0.run(move |tx| reads::list(tx, &filter)))
    }

    fn unknown(&self, limit: u32) -> Answering<'_, Vec<Ticket>> {
        Box::pin(self.0.run(move |tx| reads::unknown(tx, limit)))
    }

    fn counts(&self) -> Answering<'_, BTreeMap<TicketState, u64>> {
        Box::pin(self.0.run(reads::counts))
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
                let id = ticket.clone();
                let state = self.0.run(move |tx| reads::state(tx, &id)).await?;
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
        Box::pin(async move { self.0.run(move |tx| mandates::grant(tx, &mandate)).await? })
    }

    fn mandates(&self, filter: MandateFilter) -> Answering<'_, Vec<Mandate>> {
        Box::pin(self.0.run(move |tx| mandates::list(tx, &filter)))
    }

    fn end_mandate(&self, mandate: MandateId, by: Decider) -> Answering<'_, Option<Mandate>> {
        Box::pin(self.0.run(move |tx| mandates::end(tx, &mandate, &by)))
    }

    fn claim_under(
        &self,
        call: Presented,
        spend: Option<Spend>,
        stands: Stands,
    ) -> Answering<'_, Mandated> {
        Box::pin(async move {
            let writer = Arc::clone(&self.0);
            let work = move |tx: &writer::Tx<'_>| {
                mandates::claim_under(tx, (&call, spend.as_ref()), &*stands)
            };
            let bound = self
                .0
                .run_then(work, |under| match under {
                    Under::None => Err(Mandated::NoMandate),
                    Under::Exceeded(mandate) => Err(Mandated::Exceeded(mandate)),
                    Under::Said(standing) => Err(Mandated::Said(standing)),
                    Under::Claimed(taken) => Ok(Bound::new(writer, taken)),
                })
                .await?;
            Ok(match bound {
                Err(said) => said,
                Ok(Bound::Claimed(claim)) => Mandated::Claimed(claim.hand_over()),
                Ok(Bound::Lost(standing)) => Mandated::Said(standing),
            })
        })
    }

    fn admit(&self, call: Presented, issued: Issued) -> Answering<'_, bool> {
        Box::pin(self.0.run(move |tx| mandates::admit(tx, &call, &issued)))
    }

    fn note(&self, note: Note) -> Answering<'_, ()> {
        Box::pin(self.0.run(move |tx| tx.note(note)))
    }

    fn head(&self) -> Answering<'_, Head> {
        Box::pin(self.0.run(|tx| audit::head(tx.db)))
    }

    fn audit(&self, after: u64, limit: u32) -> Answering<'_, Vec<AuditRow>> {
        Box::pin(self.0.run(move |tx| audit::rows(tx, after, limit)))
    }

    fn cursor(&self, name: String) -> Answering<'_, u64> {
        Box::pin(self.0.run(move |tx| audit::cursor(tx, &name)))
    }

    fn advance(&self, name: String, from: u64, to: u64) -> Answering<'_, bool> {
        Box::pin(self.0.run(move |tx| audit::advance(tx, &name, from, to)))
    }

    fn prune(&self) -> Answering<'_, u64> {
        Box::pin(self.0.run(keep::prune))
    }

    fn limits(&self) -> &TicketLimits {
        &self.0.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::store::tickets::audit::{Event, Note};

    fn store(pragma: &str) -> Sqlite {
        let connection = schema::in_memory().unwrap();
        connection.execute_batch(pragma).unwrap();
        Sqlite::new(
            connection,
            SystemClock::shared(),
            TicketLimits::default(),
            None,
        )
    }

    fn note(length: usize) -> Note {
        Note {
            event: Event::ForeignCredential,
            ticket: None,
            mandate: None,
            actor: "x".repeat(length),
            details: serde_json::json!({}),
        }
    }

    #[tokio::test]
    async fn a_full_disk_fails_the_step_and_keeps_what_was_there() {
        let store = store("PRAGMA max_page_count = 60");
        store.note(note(10)).await.unwrap();
        let notes = [note(10), note(1 << 20), note(10)].map(|note| store.note(note));
        let said = futures_util::future::join_all(notes).await;
        let full = said.iter().filter(|said| {
            matches!(said, Err(TicketError::Unavailable { cause }) if cause.contains("full"))
        });
        assert!(full.count() >= 1, "{said:?}");
        // Whoever was told that it is stored finds it, and nobody else does.
        let stored = 1 + said.iter().filter(|said| said.is_ok()).count();
        let rows = store.audit(0, 10).await.unwrap();
        assert_eq!(rows.len(), stored);
        store.note(note(10)).await.unwrap();
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_told() {
        let store = store("PRAGMA query_only = ON");
        let said = store.note(note(10)).await;
        assert!(
            matches!(&said, Err(TicketError::Unavailable { cause }) if cause.contains("readonly")),
            "{said:?}"
        );
        // Nothing is told of it either: what has run out could not be noted.
        assert!(store.audit(0, 10).await.is_err());
    }
}
