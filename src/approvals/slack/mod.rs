//! Slack: messages with buttons out, signed clicks in.

mod click;
mod message;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};
use url::Url;

use super::Approvals;
use super::outbound::{Outbound, Reach};
use super::webhook::Deliver;
use crate::settings::SlackPost;
use crate::store::tickets::TicketState;
use crate::store::tickets::audit::{AuditRow, Event};

/// Largest answer of Slack that is read, in bytes.
const MOST: usize = 256 << 10;
/// Largest click: it brings the message along.
const MAX_CLICK: usize = 256 << 10;

/// `/slack/actions`.
pub(crate) fn router() -> Router<Arc<Approvals>> {
    Router::new()
        .route("/slack/actions", post(click::take))
        .layer(DefaultBodyLimit::max(MAX_CLICK))
}

/// A client for a URL of the operator's: public, or what they themselves have named.
fn outbound(url: &Url) -> Result<Outbound, String> {
    let local = crate::settings::is_local(url);
    let reach = if local { Reach::Private } else { Reach::Public };
    Outbound::new(None, reach)
}

async fn send(
    http: &Outbound,
    url: &str,
    token: Option<&str>,
    body: &Value,
) -> Result<Value, String> {
    let mut request =
        Request::post(url).header(header::CONTENT_TYPE, "application/json; charset=utf-8");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request
        .body(Full::from(Bytes::from(body.to_string())))
        .map_err(|_| "the request cannot be made".to_owned())?;
    let (status, answer) = http.send(request, MOST).await?;
    if status != StatusCode::OK {
        return Err(format!("Slack answers {status}"));
    }
    Ok(serde_json::from_slice(&answer).unwrap_or(Value::Null))
}

/// Posts new requests.
pub(crate) struct Poster {
    post: SlackPost,
    http: Outbound,
    approvals: Arc<Approvals>,
}

impl Poster {
    pub(crate) fn new(post: &SlackPost, approvals: &Arc<Approvals>) -> Result<Self, String> {
        let url = match post {
            SlackPost::Webhook(url) => Url::parse(&url.0).map_err(|_| "its URL is none")?,
            SlackPost::Bot { api, .. } => api.clone(),
        };
        approvals.metrics.announce_webhook("slack");
        Ok(Self {
            post: post.clone(),
            http: outbound(&url)?,
            approvals: Arc::clone(approvals),
        })
    }

    async fn send(&self, row: &AuditRow) -> Result<(), String> {
        let Some(id) = row.ticket.clone() else {
            return Ok(());
        };
        let found = self.approvals.store.get(id).await;
        let ticket = found.map_err(|error| error.to_string())?;
        // Answered in the meantime: there is nothing left to ask.
        let Some(ticket) = ticket.filter(|ticket| ticket.state == TicketState::Requested) else {
            return Ok(());
        };
        let link = self
            .approvals
            .place
            .link(&format!("/tickets/{}", ticket.id));
        let mut message = message::asks(&ticket, link.as_deref());
        match &self.post {
            SlackPost::Webhook(url) => send(&self.http, &url.0, None, &message).await.map(drop),
            SlackPost::Bot {
                api,
                token,
                channel,
            } => {
                if let Value::Object(members) = &mut message {
                    members.insert("channel".to_owned(), json!(channel));
                }
                let url = api
                    .join("chat.postMessage")
                    .map_err(|_| "its URL is none")?;
                let answer = send(&self.http, url.as_str(), Some(&token.0), &message).await?;
                if answer.get("ok") == Some(&Value::Bool(true)) {
                    Ok(())
                } else {
                    // A code of Slack's, such as `channel_not_found`.
                    let code = answer.get("error").and_then(Value::as_str);
                    let code: String = code
                        .unwrap_or("no reason")
                        .chars()
                        .filter(|c| c.is_ascii_alphanumeric() || *c == '_')
                        .take(64)
                        .collect();
                    Err(format!("Slack refuses the message: {code}"))
                }
            }
        }
    }
}

impl Deliver for Poster {
    fn wants(&self, row: &AuditRow) -> bool {
        row.event == Event::Requested
    }

    fn deliver<'a>(&'a self, row: &'a AuditRow) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let sent = self.send(row).await;
            let outcome = if sent.is_ok() { "ok" } else { "failed" };
            self.approvals.metrics.webhook("slack", outcome);
            sent
        })
    }
}
