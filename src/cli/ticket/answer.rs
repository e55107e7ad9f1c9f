//! Answers at the command line.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;

use super::{AnswerArgs, StoreArgs, get, open, refused, view};
use crate::cli::{Failure, print, user, warn};
use crate::layers::tickets::reconcile::{Reconciled, Reconciler, Unreconciled};
use crate::layers::tickets::show::escape;
use crate::names::TicketId;
use crate::policy;
use crate::proxy::readers;
use crate::settings::{self, Overrides};
use crate::source::read_duration;
use crate::store::Stores;
use crate::store::tickets::{
    Answer, Decider, NewMandate, Resolution, Resolver, TicketStore, Verdict,
};

/// What became of a call.
#[derive(Debug, clap::Args)]
pub struct ReconcileArgs {
    /// The ticket's id.
    id: String,
    #[command(flatten)]
    store: StoreArgs,
    /// The call was carried out.
    #[arg(long, conflicts_with = "not_done", requires = "note")]
    done: bool,
    /// The call was not carried out: a new request may be approved.
    #[arg(long, requires = "note")]
    not_done: bool,
    /// How you know. Without a word of yours the recipe of the call's rule is asked (`reconcile` in the policy).
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A mandate.
#[derive(Debug, clap::Args)]
pub struct GrantArgs {
    /// The id of the request that offers it.
    id: String,
    #[command(flatten)]
    store: StoreArgs,
    /// First 8 or more hex digits of the digest that was shown. On a terminal they are asked for.
    #[arg(long, value_name = "PREFIX")]
    digest: Option<String>,
    /// Fewer calls than offered.
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
    /// A smaller sum than offered.
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    at_most: Option<Decimal>,
    /// A shorter life than offered, such as `8h`.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    within: Option<Duration>,
    /// For the record.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let read = read_duration(text).filter(|duration| !duration.is_zero());
    read.ok_or_else(|| "write a number with its unit, such as `8h` or `30m`".to_owned())
}

fn amount(text: &str) -> Result<Decimal, String> {
    let read = text
        .parse::<Decimal>()
        .ok()
        .filter(|it| !it.is_sign_negative());
    read.ok_or_else(|| "write digits such as `50.00`".to_owned())
}

fn by() -> Decider {
    Decider::Local(user::name())
}

/// What was shown must be what is approved: the digits come with the command, or from who has just read the ticket.
async fn shown(store: &dyn TicketStore, id: &str, digest: Option<&str>) -> Result<String, Failure> {
    if let Some(digest) = digest {
        return Ok(digest.to_owned());
    }
    let ticket = get(store, id).await?;
    let people = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !people {
        return Err(Failure::Input(
            "error: look at the ticket with `holdpoint ticket show` first, and give the first 8 or more digits of its digest \
             with `--digest`"
                .to_owned(),
        ));
    }
    print(view::show(&ticket, false));
    warn(
        "\nType the first 8 digits of the digest to approve exactly this, or nothing to leave it:",
    );
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(200);
    let read = input.read_line(&mut line);
    let typed = line.trim();
    if read.is_err() || typed.is_empty() {
        return Err(Failure::Failed("nothing was approved".to_owned()));
    }
    Ok(typed.to_owned())
}

pub(super) async fn approve(args: &AnswerArgs, digest: Option<&str>) -> Result<(), Failure> {
    let store = open(&args.store)?;
    let digest = shown(&*store, &args.id, digest).await?;
    drop(store);
    answer(args, Verdict::Approve, Some(digest)).await
}

pub(super) async fn answer(
    args: &AnswerArgs,
    verdict: Verdict,
    digest_prefix: Option<String>,
) -> Result<(), Failure> {
    let answer = Answer {
        ticket: TicketId::from(args.id.as_str()),
        verdict,
        by: by(),
        digest_prefix,
        comment: args.comment.clone(),
    };
    let answered = open(&args.store)?.answer(answer).await;
    let answered = answered.map_err(|error| refused(&error))?;
    if args.json {
        return view::json(&answered);
    }
    print(view::answered(&answered));
    Ok(())
}

pub(super) async fn reconcile(args: &ReconcileArgs) -> Result<(), Failure> {
    let ticket = TicketId::from(args.id.as_str());
    let resolved = if args.done || args.not_done {
        let note = args.note.as_deref().unwrap_or_default().trim();
        if note.is_empty() {
            return Err(Failure::Input(
                "error: say with `--note` how you know what became of the call".to_owned(),
            ));
        }
        let resolution = Resolution {
            ticket,
            done: args.done,
            by: Resolver::Person(by()),
            note: Some(note.to_owned()),
            receipt: None,
        };
        let resolved = open(&args.store)?.resolve(resolution).await;
        resolved.map_err(|error| refused(&error))?
    } else {
        by_recipe(&args.store, ticket).await?;
        get(&*open(&args.store)?, &args.id).await?
    };
    if args.json {
        return view::json(&resolved);
    }
    print(view::answered(&resolved));
    Ok(())
}

/// Asks the upstream's books, as the policy of the config says.
async fn by_recipe(store: &StoreArgs, ticket: TicketId) -> Result<(), Failure> {
    let Some(config) = &store.config else {
        return Err(Failure::Input(
            "error: the recipe is in the policy of the config: name it with `--config`, or say `--done` or `--not-done` with `--note`"
                .to_owned(),
        ));
    };
    let settings = settings::load(config, &Overrides::default())?;
    let policy = Arc::new(policy::load(&settings.policy)?);
    let (sql, problems) = settings.open_sql();
    if problems.has_errors() {
        return Err(problems.into());
    }
    let stores = Stores {
        sql,
        http: readers(&settings)?,
        tickets: Some(open(store)?),
        ..Stores::default()
    };
    let reconciler = Reconciler::new(&policy, &stores)?;
    let reconciler = reconciler.ok_or_else(|| {
        Failure::Input("error: the config names no ticket store; set `tickets` in it".to_owned())
    })?;
    match reconciler.once(ticket).await {
        Ok(Reconciled::Done | Reconciled::NotDone) => Ok(()),
        Ok(Reconciled::Open) => Err(Failure::Failed(
            "the books do not say yet what became of the call: it stays unknown".to_owned(),
        )),
        Err(error @ Unreconciled::NoSuchTicket(_)) => Err(Failure::Input(format!(
            "error: {}",
            escape(&error.to_string())
        ))),
        Err(error) => Err(Failure::Failed(format!(
            "error: {}",
            escape(&error.to_string())
        ))),
    }
}

pub(super) async fn grant(args: &GrantArgs) -> Result<(), Failure> {
    let store = open(&args.store)?;
    let digest = shown(&*store, &args.id, args.digest.as_deref()).await?;
    let mandate = NewMandate {
        ticket: TicketId::from(args.id.as_str()),
        by: by(),
        digest_prefix: Some(digest),
        uses: args.uses,
        at_most: args.at_most,
        within: args.within,
        comment: args.comment.clone(),
    };
    let granted = store.grant(mandate).await;
    let granted = granted.map_err(|error| refused(&error))?;
    if args.json {
        return view::json(&granted);
    }
    print(view::mandates(&[granted]));
    Ok(())
}
