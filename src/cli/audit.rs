//! `holdpoint audit`: whether what is noted of tickets is what was noted.

use std::sync::Arc;

use super::ticket::{StoreArgs, open};
use super::{Failure, print};
use crate::names::TicketId;
use crate::store::tickets::audit::{Head, Verifier};
use crate::store::tickets::{Filter, TicketError, TicketState, TicketStore};

/// Rows and tickets that are read at once.
const PAGE: u32 = 1000;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Walk the audit from its first row: every row must be what was written and follow the one before, and every ticket must
    /// stand where the rows say. Prints the last row's number and hash; note them elsewhere, and name them with `--head` later.
    Verify {
        #[command(flatten)]
        store: StoreArgs,
        /// Number and hash of a row that was the last one once: the audit must still have it.
        #[arg(long, value_name = "SEQ:HASH", value_parser = head)]
        head: Option<Head>,
    },
}

fn head(text: &str) -> Result<Head, &'static str> {
    Head::from_text(text).ok_or("give a row's number, a colon and 64 hex digits")
}

/// Runs the command.
///
/// # Errors
/// A store that cannot be opened, and an audit that does not hold.
pub fn run(command: &Command) -> Result<(), Failure> {
    let Command::Verify { store, head } = command;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("error: cannot start: {error}")))?;
    runtime.block_on(async {
        let store = open(store)?;
        let verified = verify(&store, *head).await?;
        print(format!(
            "the audit holds: {} rows, {} tickets as they say\nhead {}",
            verified.head.seq, verified.tickets, verified.head
        ));
        Ok(())
    })
}

struct Verified {
    head: Head,
    tickets: u64,
}

async fn verify(store: &Arc<dyn TicketStore>, noted: Option<Head>) -> Result<Verified, Failure> {
    let mut verifier = Verifier::new(noted);
    walk(store, &mut verifier).await?;
    verifier.end().map_err(|broken| does_not_hold(&broken))?;
    let mut tickets = 0;
    let mut before = None;
    loop {
        let filter = Filter {
            before,
            limit: PAGE,
            ..Filter::default()
        };
        let page = store.list(filter).await.map_err(|error| failed(&error))?;
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        for ticket in &page {
            tickets += 1;
            if !verifier.agrees(ticket) {
                // Somebody may have changed it since the walk.
                again(store, &mut verifier, &ticket.id).await?;
            }
        }
    }
    Ok(Verified {
        head: verifier.head(),
        tickets,
    })
}

/// Takes the rows that are new.
async fn walk(store: &Arc<dyn TicketStore>, verifier: &mut Verifier) -> Result<(), Failure> {
    loop {
        let after = verifier.head().seq;
        let page = store.audit(after, PAGE).await.map_err(|error| {
            Failure::Failed(format!(
                "error: the audit cannot be read after row {after}: {error}"
            ))
        })?;
        if page.is_empty() {
            return Ok(());
        }
        for row in &page {
            verifier
                .take(row)
                .map_err(|broken| does_not_hold(&broken))?;
        }
    }
}

/// How often a ticket that others change meanwhile is looked at.
const LOOKS: u32 = 20;

async fn again(
    store: &Arc<dyn TicketStore>,
    verifier: &mut Verifier,
    id: &TicketId,
) -> Result<(), Failure> {
    let mut state = None;
    for _ in 0..LOOKS {
        let found = store.get(id.clone()).await;
        let Some(ticket) = found.map_err(|error| failed(&error))? else {
            return Ok(());
        };
        let seen = verifier.head();
        walk(store, verifier).await?;
        if verifier.agrees(&ticket) {
            return Ok(());
        }
        state = Some(ticket.state);
        if verifier.head() == seen {
            break;
        }
    }
    let state = state.map_or("there", TicketState::as_str);
    Err(Failure::Failed(format!(
        "error: the audit does not hold: ticket {id} is {state}, and no row leads there"
    )))
}

fn does_not_hold(broken: &impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("error: the audit does not hold: {broken}"))
}

fn failed(error: &TicketError) -> Failure {
    Failure::Failed(format!("error: {error}"))
}
