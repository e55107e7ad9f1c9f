//! `holdpoint ticket`: works on the store itself, so that access to the store is the authority to approve.

mod answer;
mod signed;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;

use super::{Failure, print, user};
use crate::clock::SystemClock;
use crate::layers::tickets::show::escape;
use crate::names::{MandateId, TicketId};
use crate::settings::{self, Overrides, TicketPlace, TicketSettings};
use crate::store::tickets::{
    self, AnswerError, Decider, Filter, MandateFilter, Ticket, TicketError, TicketLimits,
    TicketState, TicketStore, Verdict, sqlite,
};

/// Which store.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct StoreArgs {
    /// Config file; the store of its `tickets` is used.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The ticket store itself.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// Which tickets.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Only tickets in this state; several with commas between.
    #[arg(long, value_parser = states(), value_delimiter = ',')]
    state: Vec<TicketState>,
    /// Only this tenant's.
    #[arg(long)]
    tenant: Option<String>,
    /// Only this user's.
    #[arg(long)]
    subject: Option<String>,
    /// Only for this tool.
    #[arg(long)]
    tool: Option<String>,
    /// Only those asked for before the one with this `seq`: the next page.
    #[arg(long, value_name = "SEQ")]
    before: Option<u64>,
    /// At most so many.
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An answer to a request.
#[derive(Debug, clap::Args)]
pub struct AnswerArgs {
    /// The ticket's id.
    id: String,
    #[command(flatten)]
    store: StoreArgs,
    /// For the record, and for the agent where the answer is a no.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List tickets, newest first.
    List(ListArgs),
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
    /// Approve a request: with enough approvals the identical call goes through once.
    Approve {
        #[command(flatten)]
        answer: AnswerArgs,
        /// First 8 or more hex digits of the digest that was shown. On a terminal they are asked for.
        #[arg(long, value_name = "PREFIX")]
        digest: Option<String>,
    },
    /// Deny a request, or take back an approval that is not used yet.
    Deny(AnswerArgs),
    /// Take back an approval that is not used yet.
    Revoke(AnswerArgs),
    /// Say what became of a call whose outcome is unknown.
    Reconcile(answer::ReconcileArgs),
    /// Give the mandate that the request's rule offers, or a smaller one.
    Grant(answer::GrantArgs),
    /// Make keys that sign tickets.
    #[command(subcommand)]
    Key(signed::KeyCommand),
    /// Sign a ticket for an orchestrator that has the user's consent already.
    Issue(signed::IssueArgs),
    /// Hand an approved ticket, signed, to an executor outside the guard. It is spent by that.
    Export(signed::ExportArgs),
    /// List mandates, or end one.
    Mandates {
        #[command(flatten)]
        store: StoreArgs,
        /// Only those under which a call may pass.
        #[arg(long)]
        live: bool,
        /// End this one now.
        #[arg(long, value_name = "ID")]
        end: Option<String>,
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
///
/// # Errors
/// What was asked for is wrong, does not count, or the store failed.
pub fn run(command: &Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("error: cannot start: {error}")))?;
    runtime.block_on(dispatch(command))
}

async fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args).await,
        Command::Show {
            id,
            store,
            full,
            json,
        } => {
            let ticket = get(&*open(store)?, id).await?;
            if *json {
                return view::json(&ticket);
            }
            print(view::show(&ticket, *full));
            Ok(())
        }
        Command::Approve { answer, digest } => answer::approve(answer, digest.as_deref()).await,
        Command::Deny(args) => answer::answer(args, Verdict::Deny, None).await,
        Command::Revoke(args) => answer::answer(args, Verdict::Revoke, None).await,
        Command::Reconcile(args) => answer::reconcile(args).await,
        Command::Grant(args) => answer::grant(args).await,
        Command::Key(command) => signed::key(command),
        Command::Issue(args) => signed::issue(args),
        Command::Export(args) => signed::export(args).await,
        Command::Mandates {
            store,
            live,
            end,
            json,
        } => mandates(store, *live, end.as_deref(), *json).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), Failure> {
    let filter = Filter {
        states: args.state.clone(),
        tenants: args.tenant.clone().map(|tenant| vec![tenant]),
        subject: args.subject.clone(),
        tool: args.tool.clone(),
        before: args.before,
        limit: args.limit,
        ..Filter::default()
    };
    let listed = open(&args.store)?.list(filter).await;
    let tickets = listed.map_err(|error| failed(&error))?;
    if args.json {
        return view::json(&tickets);
    }
    print(view::list(&tickets));
    Ok(())
}

async fn mandates(
    store: &StoreArgs,
    live: bool,
    end: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let store = open(store)?;
    let mandates = if let Some(id) = end {
        let by = Decider::Local(user::name());
        let ended = store.end_mandate(MandateId::from(id), by).await;
        let ended = ended.map_err(|error| failed(&error))?;
        vec![ended.ok_or_else(|| {
            Failure::Input(format!(
                "error: there is no mandate {}; `holdpoint ticket mandates` names them",
                escape(id)
            ))
        })?]
    } else {
        let filter = MandateFilter {
            live,
            limit: 1000,
            ..MandateFilter::default()
        };
        let listed = store.mandates(filter).await;
        listed.map_err(|error| failed(&error))?
    };
    if json {
        return view::json(&mandates);
    }
    print(view::mandates(&mandates));
    Ok(())
}

async fn get(store: &dyn TicketStore, id: &str) -> Result<Ticket, Failure> {
    let id = TicketId::from(id);
    let found = store.get(id.clone()).await;
    let found = found.map_err(|error| failed(&error))?;
    found.ok_or_else(|| refused(&AnswerError::NoSuchTicket(id)))
}

/// Opens the store that the arguments name.
pub(super) fn open(args: &StoreArgs) -> Result<Arc<dyn TicketStore>, Failure> {
    let clock = SystemClock::shared();
    let opened = match &args.store {
        Some(store) => sqlite::open_existing(store, clock, TicketLimits::default()),
        None => tickets::existing(&configured(args)?, clock).map(|opened| opened.tickets),
    };
    opened.map_err(|error| Failure::Input(format!("error: {error}")))
}

/// As [`open`], so that a call can be claimed: in a database that takes a lease, as a process that serves has one.
pub(super) fn open_claiming(args: &StoreArgs) -> Result<Arc<dyn TicketStore>, Failure> {
    if args.store.is_some() {
        return open(args);
    }
    let settings = configured(args)?;
    let clock = SystemClock::shared();
    let opened = match &settings.store {
        TicketPlace::File(_) => tickets::existing(&settings, clock),
        TicketPlace::Postgres(_) => tickets::serve(&settings, clock),
    };
    let opened = opened.map_err(|error| Failure::Input(format!("error: {error}")))?;
    Ok(opened.tickets)
}

/// The ticket store that the config names.
fn configured(args: &StoreArgs) -> Result<TicketSettings, Failure> {
    let config = args.config.as_deref().unwrap_or(Path::new(""));
    // A whole config names secrets that a person at the command line need not have.
    let settings = settings::load(config, &Overrides::default()).map_err(|problems| {
        Failure::Input(format!(
            "{problems}\nnote: `--store FILE` names a ticket store in a file without the config"
        ))
    })?;
    settings.tickets.ok_or_else(|| {
        Failure::Input(format!(
            "error: {} names no ticket store; set `tickets` in it",
            config.display()
        ))
    })
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
