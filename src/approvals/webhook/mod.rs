//! Telling others what happened: followers of the audit rows, each with a place of its own that outlives the process.

mod follow;
mod sign;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, header};
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) use self::follow::{Deliver, follow};
use self::sign::signature;
use super::Approvals;
use super::outbound::{Outbound, Reach};
use super::slack;
use crate::layers::tickets::show::visible_json;
use crate::settings::Webhook;
use crate::source::{Problem, Problems};
use crate::store::tickets::Ticket;
use crate::store::tickets::audit::AuditRow;

/// Bytes of an answer that are read, to keep the connection; nothing of it is used.
const MOST: usize = 64 << 10;

/// Starts every follower of the config: webhooks, and messages to Slack.
///
/// # Errors
/// Authorities that cannot be read.
pub fn spawn(approvals: &Arc<Approvals>) -> Result<Vec<JoinHandle<()>>, Problems> {
    let approvers = approvals.people.approvers();
    let mut tasks = Vec::new();
    for webhook in &approvers.webhooks {
        let hook = Hook::new(webhook, approvals).map_err(|cause| {
            Problem::new(format!(
                "the webhook `{}` cannot be used: {cause}",
                webhook.name
            ))
            .help("check `approvers.webhooks` in the config")
        })?;
        let name = format!("webhook:{}", webhook.name);
        tasks.push(tokio::spawn(follow(Arc::clone(approvals), name, hook)));
    }
    if let Some(post) = approvers
        .slack
        .as_ref()
        .and_then(|slack| slack.post.as_ref())
    {
        let poster = slack::Poster::new(post, approvals).map_err(|cause| {
            Problem::new(format!("Slack cannot be used: {cause}"))
                .help("check `approvers.slack.post` in the config")
        })?;
        let name = "slack".to_owned();
        tasks.push(tokio::spawn(follow(Arc::clone(approvals), name, poster)));
    }
    Ok(tasks)
}

struct Hook {
    webhook: Webhook,
    http: Outbound,
    approvals: Arc<Approvals>,
}

impl Hook {
    fn new(webhook: &Webhook, approvals: &Arc<Approvals>) -> Result<Self, String> {
        let reach = if webhook.private {
            Reach::Private
        } else {
            Reach::Public
        };
        approvals.metrics.announce_webhook(&webhook.name);
        Ok(Self {
            http: Outbound::new(webhook.ca.as_deref(), reach)?,
            webhook: webhook.clone(),
            approvals: Arc::clone(approvals),
        })
    }

    async fn send(&self, row: &AuditRow) -> Result<(), String> {
        let ticket = match &row.ticket {
            Some(id) => {
                let found = self.approvals.store.get(id.clone()).await;
                found.map_err(|error| error.to_string())?
            }
            None => None,
        };
        let body = visible_json(&payload(row, ticket.as_ref(), &self.approvals).to_string());
        let timestamp = self.approvals.clock.now().as_second();
        let signed = signature(self.webhook.secret.0.as_bytes(), timestamp, body.as_bytes());
        let request = Request::post(self.webhook.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header("holdpoint-event-id", event_id(row))
            .header("holdpoint-timestamp", timestamp)
            .header("holdpoint-signature", format!("v1={signed}"))
            .body(Full::from(Bytes::from(body)))
            .map_err(|_| "the request cannot be made".to_owned())?;
        let (status, _) = self.http.send(request, MOST).await?;
        if status.is_success() {
            Ok(())
        } else {
            Err(format!("it is answered with {status}"))
        }
    }
}

impl Deliver for Hook {
    fn wants(&self, row: &AuditRow) -> bool {
        let events = self.webhook.events.as_ref();
        events.is_none_or(|events| events.contains(&row.event))
    }

    fn deliver<'a>(&'a self, row: &'a AuditRow) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let sent = self.send(row).await;
            let outcome = if sent.is_ok() { "ok" } else { "failed" };
            self.approvals.metrics.webhook(&self.webhook.name, outcome);
            sent
        })
    }
}

/// The same for one row whenever it is sent: receivers know by it what they have had.
fn event_id(row: &AuditRow) -> String {
    let hash = row.hash.to_string();
    let start: String = hash.chars().take(16).collect();
    format!("evt_{}_{start}", row.seq)
}

/// No arguments but those that the summary names.
fn payload(row: &AuditRow, ticket: Option<&Ticket>, approvals: &Approvals) -> Value {
    json!({
        "id": event_id(row),
        "type": row.event.as_str(),
        "seq": row.seq,
        "at": row.at,
        "actor": row.actor,
        "ticket": ticket.map(|ticket| told(ticket, approvals)),
        "mandate": row.mandate,
        "details": row.details,
    })
}

fn told(ticket: &Ticket, approvals: &Approvals) -> Value {
    let principal = &ticket.principal;
    let expires: Timestamp = ticket.expires_at;
    json!({
        "id": ticket.id,
        "state": ticket.state.as_str(),
        "digest": ticket.digest.to_string(),
        "summary": ticket.summary,
        "tool": ticket.tool,
        "upstream": ticket.upstream,
        "route": ticket.route,
        "gate": ticket.gate,
        "roles": ticket.roles,
        "approvals": {"needed": ticket.approvals, "given": ticket.approved_by()},
        "principal": {
            "tenant": &*principal.tenant,
            "issuer": &*principal.issuer,
            "subject": &*principal.subject,
            "agent": &*principal.agent,
        },
        "created_at": ticket.created_at,
        "expires_at": expires,
        "url": approvals.place.link(&format!("/tickets/{}", ticket.id)),
    })
}
