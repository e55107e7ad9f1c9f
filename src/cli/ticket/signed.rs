//! Signed tickets at the command line: keys, tickets that an orchestrator issues, and tickets for executors outside the guard.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{StoreArgs, failed, get, open_claiming, refused, view};
use crate::cli::{Failure, print};
use crate::guard::{Outcome, Receipt};
use crate::store::tickets::digest::{BoundCall, CallDigest, sha256_hex};
use crate::store::tickets::issued::{Claims, SignedMandate, SigningKey};
use crate::store::tickets::{
    AnswerError, Claiming, Presented, Terms, Ticket, TicketState, TicketStore,
};
use crate::verdict::{LayerId, Reason};

/// Keys that sign tickets.
#[derive(Debug, clap::Subcommand)]
pub enum KeyCommand {
    /// Make a private key that only its owner can read, and print what the config needs of it.
    New {
        /// Where to write it; must not exist.
        file: PathBuf,
    },
}

/// A ticket to sign.
#[derive(Debug, clap::Args)]
pub struct IssueArgs {
    /// The private key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// How long it may be used, such as `10m`; at most 720h.
    #[arg(long, value_name = "DURATION", value_parser = super::answer::duration)]
    within: Duration,
    /// Digest of the one call that it permits: 64 hex digits.
    #[arg(
        long,
        value_name = "HEX",
        conflicts_with = "mandate",
        required_unless_present = "mandate"
    )]
    digest: Option<String>,
    /// JSON file of the mandate that it gives: tenant, iss, sub, agent, upstream, tool, uses, and what the
    /// rule limits: `at_most`, currency, same.
    #[arg(long, value_name = "FILE")]
    mandate: Option<PathBuf>,
}

/// An approved ticket that is handed out.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The ticket's id.
    id: String,
    #[command(flatten)]
    store: StoreArgs,
    /// The private key that signs it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Makes a key.
pub(super) fn key(command: &KeyCommand) -> Result<(), Failure> {
    let KeyCommand::New { file } = command;
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("error: {error}"));
    let pem = SigningKey::generate().map_err(|error| failed(&error))?;
    let key = SigningKey::from_pem(&pem).map_err(|error| failed(&error))?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(file)
        .and_then(|mut opened| opened.write_all(pem.as_bytes()));
    written.map_err(|error| {
        Failure::Input(format!("error: cannot write {}: {error}", file.display()))
    })?;
    print(format!(
        "{{kid: \"{}\", public: \"{}\"}}",
        key.kid(),
        key.public()
    ));
    Ok(())
}

fn signing_key(file: &Path) -> Result<SigningKey, Failure> {
    let wrong =
        |why: &dyn std::fmt::Display| Failure::Input(format!("error: {}: {why}", file.display()));
    let pem = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    SigningKey::from_pem(&pem).map_err(|error| wrong(&error))
}

/// Signs a ticket.
pub(super) fn issue(args: &IssueArgs) -> Result<(), Failure> {
    let key = signing_key(&args.key)?;
    let call = match &args.digest {
        Some(digest) if CallDigest::from_hex(digest).is_none() => {
            let why = "error: a digest has 64 lower-case hex digits";
            return Err(Failure::Input(why.to_owned()));
        }
        digest => digest.clone(),
    };
    let mandate = match &args.mandate {
        Some(file) => Some(mandate(file)?),
        None => None,
    };
    let within = i64::try_from(args.within.as_secs()).unwrap_or(i64::MAX);
    let now = Timestamp::now().as_second();
    let claims = Claims {
        jti: Uuid::now_v7().simple().to_string(),
        iat: now,
        nbf: now,
        exp: now.saturating_add(within),
        call,
        mandate,
        tool: None,
        arguments: None,
    };
    let token = key.sign(&claims);
    print(token.map_err(|error| Failure::Input(format!("error: {error}")))?);
    Ok(())
}

fn mandate(file: &Path) -> Result<SignedMandate, Failure> {
    let wrong =
        |why: &dyn std::fmt::Display| Failure::Input(format!("error: {}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|error| wrong(&error))?;
    serde_json::from_slice(&text).map_err(|error| wrong(&error))
}

/// Hands an approved ticket to an executor outside the guard. It is spent here: the guard sends the call no more.
pub(super) async fn export(args: &ExportArgs) -> Result<(), Failure> {
    let key = signing_key(&args.key)?;
    let store = open_claiming(&args.store)?;
    let ticket = get(store.as_ref(), &args.id).await?;
    let arguments = ticket.arguments.get().as_bytes().to_vec();
    let now = Timestamp::now();
    let claims = Claims {
        jti: ticket.id.to_string(),
        iat: now.as_second(),
        nbf: now.as_second(),
        exp: ticket.expires_at.as_second(),
        call: Some(ticket.digest.to_string()),
        mandate: None,
        tool: Some(ticket.tool.clone()),
        arguments: Some(sha256_hex(&arguments)),
    };
    let late = || AnswerError::AlreadyDecided {
        ticket: ticket.id.clone(),
        state: ticket.state,
    };
    if ticket.state != TicketState::Approved {
        return Err(refused(&late()));
    }
    let token = key
        .sign(&claims)
        .map_err(|error| Failure::Failed(format!("error: {error}")))?;
    spend(store.as_ref(), &ticket, now).await?;
    view::json(&json!({
        "ticket": token,
        "tool": ticket.tool,
        "arguments": ticket.arguments,
    }))
}

async fn spend(store: &dyn TicketStore, ticket: &Ticket, now: Timestamp) -> Result<(), Failure> {
    let claimed = store.claim(presented(ticket), ticket.id.clone()).await;
    let Claiming::Claimed(claim) = claimed.map_err(|error| failed(&error))? else {
        return Err(refused(&AnswerError::AlreadyDecided {
            ticket: ticket.id.clone(),
            state: TicketState::Redeeming,
        }));
    };
    let body = json!({"holdpoint_receipt": ticket.id, "exported": true});
    let receipt = Receipt {
        ticket: ticket.id.clone(),
        status: 202,
        content_type: Some("application/json".to_owned()),
        body: body.to_string().into(),
        completed_at: now,
    };
    let stored = claim.finish(Outcome::Answered(receipt)).await;
    stored.map_err(|undecided| Failure::Failed(format!("error: {}", undecided.cause)))
}

/// The call as its ticket has it.
fn presented(ticket: &Ticket) -> Presented {
    Presented {
        call: BoundCall {
            digest: ticket.digest,
            arguments: ticket.arguments.get().as_bytes().to_vec().into(),
        },
        principal: Arc::new(ticket.principal.clone()),
        session: ticket.session.clone(),
        route: ticket.route.clone(),
        upstream: ticket.upstream.clone(),
        tool: ticket.tool.clone(),
        again: false,
        hint: None,
        said: None,
        bound: ticket.bound.clone(),
        terms: Terms {
            policy: ticket.policy.clone(),
            layer: LayerId::Tickets,
            rule: ticket.rule.clone(),
            reason: Reason::ApprovalRequired,
            gate: ticket.gate,
            roles: ticket.roles.clone(),
            approvals: ticket.approvals,
            fresh: ticket.fresh,
            ttl: Duration::ZERO,
            summary: ticket.summary.clone(),
            reconcile: ticket.reconcile.clone(),
            mandate: None,
            idempotent: None,
        },
    }
}
