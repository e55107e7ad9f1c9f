//! `holdpoint ticket`: works on the store's file itself, so that access to the file is the authority to approve.

mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;

use super::{Failure, print, user};
use crate::clock::SystemClock;
use crate::layers::tickets::show::escape;
use crate::names::TicketId;
use crate::settings::{self, Overrides};
use crate::store::tickets::{
    Answer, AnswerError, Decider, Filter, TicketError, TicketLimits, TicketState, TicketStore,
    Verdict, sqlite,
};

/// Which store.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct StoreArgs {
    /// Config file; its `tickets.store` is used.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The ticket store itself.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List tickets, newest first.
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Only tickets in this state.
        #[arg(long, value_parser = states())]
        state: Option<TicketState>,
        /// At most so many.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one ticket with every argument.
    Show {
        /// Its id.
        id: String,
        #[command(flatten)]
        store: StoreArgs,
        /// Print long values whole.
        #[arg(long)]
        full: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Approve a request: the identical call goes through once.
    Approve {
        /// Its id.
        id: String,
        #[command(flatten)]
        store: StoreArgs,
        /// First 8 or more hex digits of the digest that was shown: refuse if the ticket has another.
        #[arg(long, value_name = "PREFIX")]
        digest: Option<String>,
        /// For the record.
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Deny a request, or take back an approval that is not used yet.
    Deny {
        /// Its id.
        id: String,
        #[command(flatten)]
        store: StoreArgs,
        /// For the record.
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn states() -> impl clap::builder::TypedValueParser<Value = TicketState> {
    PossibleValuesParser::new(TicketState::ALL.map(TicketState::as_str)).try_map(|name| {
        TicketState::from_name(&name).ok_or_else(|| format!("`{name}` is no state"))
    })
}

/// Runs the command.
pub fn run(command: &Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| Failure::Failed(format!("error: cannot start: {error}")))?;
    runtime.block_on(dispatch(command))
}

async fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List {
            store,
            state,
            limit,
            json,
        } => {
            let filter = Filter {
                states: state.iter().copied().collect(),
                limit: *limit,
                ..Filter::default()
            };
            let tickets = open(store)?
                .list(filter)
                .await
                .map_err(|error| failed(&error))?;
            if *json {
                return view::json(&tickets);
            }
            print(view::list(&tickets));
            Ok(())
        }
        Command::Show {
            id,
            store,
            full,
            json,
        } => {
            let id = TicketId::from(id.as_str());
            let found = open(store)?
                .get(id.clone())
                .await
                .map_err(|error| failed(&error))?;
            let ticket = found.ok_or_else(|| refused(&AnswerError::NoSuchTicket(id)))?;
            if *json {
                return view::json(&ticket);
            }
            print(view::show(&ticket, *full));
            Ok(())
        }
        Command::Approve {
            id,
            store,
            digest,
            comment,
            json,
        } => {
            answer(
                store,
                id,
                Verdict::Approve,
                digest.as_ref(),
                comment.as_ref(),
                *json,
            )
            .await
        }
        Command::Deny {
            id,
            store,
            comment,
            json,
        } => answer(store, id, Verdict::Deny, None, comment.as_ref(), *json).await,
    }
}

async fn answer(
    store: &StoreArgs,
    id: &str,
    verdict: Verdict,
    digest_prefix: Option<&String>,
    comment: Option<&String>,
    json: bool,
) -> Result<(), Failure> {
    let answer = Answer {
        ticket: TicketId::from(id),
        verdict,
        by: Decider::Local(user::name()),
        digest_prefix: digest_prefix.cloned(),
        comment: comment.cloned(),
    };
    let answered = open(store)?
        .answer(answer)
        .await
        .map_err(|error| refused(&error))?;
    if json {
        return view::json(&answered);
    }
    print(view::answered(&answered));
    Ok(())
}

fn open(args: &StoreArgs) -> Result<Arc<dyn TicketStore>, Failure> {
    sqlite::open_existing(&path(args)?, SystemClock::shared(), TicketLimits::default())
        .map_err(|error| Failure::Input(format!("error: {error}")))
}

fn path(args: &StoreArgs) -> Result<PathBuf, Failure> {
    if let Some(store) = &args.store {
        return Ok(store.clone());
    }
    let config = args.config.as_deref().unwrap_or(Path::new(""));
    // A whole config names secrets that a person at the command line need not have.
    let settings = settings::load(config, &Overrides::default()).map_err(|problems| {
        Failure::Input(format!(
            "{problems}\nnote: `--store FILE` names the ticket store without the config"
        ))
    })?;
    let tickets = settings.tickets.ok_or_else(|| {
        Failure::Input(format!(
            "error: {} names no ticket store; set `tickets.store` in it",
            config.display()
        ))
    })?;
    Ok(tickets.store)
}

fn failed(error: &TicketError) -> Failure {
    Failure::Failed(format!("error: {error}"))
}

fn refused(error: &AnswerError) -> Failure {
    let message = format!("error: {}", escape(&error.to_string()));
    match error {
        AnswerError::NoSuchTicket(_) | AnswerError::DigestPrefix => Failure::Input(message),
        _ => Failure::Failed(message),
    }
}
