//! A click on a button (Slack's interactivity): verified by its signature, looked up by an explicit table of people, judged by
//! the ticket as it stands now.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, verify};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use url::Url;

use super::message::marked;
use crate::approvals::Approvals;
use crate::approvals::place::one;
use crate::names::TicketId;
use crate::settings::{Slack, SlackPost};
use crate::store::tickets::{AnswerError, Channel, TicketState, Verdict};
use crate::wire::json::{Document, Node};

/// `action_id` of the buttons.
pub(super) const APPROVE: &str = "holdpoint_approve";
pub(super) const DENY: &str = "holdpoint_deny";

/// A request that is older, or from the future, counts no more.
const WINDOW: Duration = Duration::from_mins(5);

const TIMESTAMP: HeaderName = HeaderName::from_static("x-slack-request-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("x-slack-signature");

/// Whether Slack has signed the body within the window: `v0=` and HMAC-SHA256 of `v0:timestamp:body`.
fn is_signed(secret: &[u8], headers: &HeaderMap, body: &[u8], now: Timestamp) -> bool {
    let (Some(timestamp), Some(signature)) = (one(headers, &TIMESTAMP), one(headers, &SIGNATURE))
    else {
        return false;
    };
    let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let sent = timestamp.parse::<i64>().ok().filter(|_| digits);
    let age = sent.map(|sent| now.as_second().abs_diff(sent));
    if age.is_none_or(|age| age > WINDOW.as_secs()) {
        return false;
    }
    let Some(signature) = signature.strip_prefix("v0=") else {
        return false;
    };
    let Ok(signature) = HEXLOWER.decode(signature.as_bytes()) else {
        return false;
    };
    let mut text = format!("v0:{timestamp}:").into_bytes();
    text.extend_from_slice(body);
    verify(&Key::new(HMAC_SHA256, secret), &text, &signature).is_ok()
}

/// What was clicked.
struct Click {
    user: String,
    verdict: Verdict,
    ticket: TicketId,
    digest_prefix: String,
    answer_to: Option<String>,
}

/// `payload` of the form; `None`: nothing of ours, such as a click on a link.
fn read(body: &[u8]) -> Option<Click> {
    let mut payloads = url::form_urlencoded::parse(body).filter(|(name, _)| name == "payload");
    let (Some((_, payload)), None) = (payloads.next(), payloads.next()) else {
        return None;
    };
    let document = Document::read(Bytes::from(payload.into_owned()), 64).ok()?;
    let root = document.root();
    let text = |node: Option<&Node>| node.and_then(Node::as_str).map(str::to_owned);
    if root.get("type").and_then(Node::as_str) != Some("block_actions") {
        return None;
    }
    let [action] = root.get("actions")?.elements() else {
        return None;
    };
    let verdict = match action.get("action_id")?.as_str()? {
        APPROVE => Verdict::Approve,
        DENY => Verdict::Deny,
        _ => return None,
    };
    let (ticket, digest_prefix) = action.get("value")?.as_str()?.split_once(' ')?;
    Some(Click {
        user: text(root.get("user")?.get("id"))?,
        verdict,
        ticket: TicketId::new(ticket),
        digest_prefix: digest_prefix.to_owned(),
        answer_to: text(root.get("response_url")),
    })
}

pub(super) async fn take(
    State(approvals): State<Arc<Approvals>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(slack) = &approvals.people.approvers().slack else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let secret = slack.signing_secret.0.as_bytes();
    if !is_signed(secret, &headers, &body, approvals.clock.now()) {
        approvals.refused("slack_signature");
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Some(click) = read(&body) else {
        return StatusCode::OK.into_response();
    };
    let said = answer(&approvals, slack, &click).await;
    if let Some(url) = click.answer_to.filter(|url| is_slacks(slack, url)) {
        // Slack waits three seconds for the answer to its click, and takes words for people at this URL alone.
        tokio::spawn(async move {
            let body = json!({
                "response_type": "ephemeral", "replace_original": false, "text": marked(&said),
            });
            let sent = match Url::parse(&url).map(|url| super::outbound(&url)) {
                Ok(Ok(http)) => super::send(&http, &url, None, &body).await.map(drop),
                _ => Err("its URL cannot be used".to_owned()),
            };
            if let Err(cause) = sent {
                tracing::warn!(cause, "Slack was not told what a click did");
            }
        });
    }
    StatusCode::OK.into_response()
}

/// The request is Slack's, and still its URL must not lead to just anybody.
fn is_slacks(slack: &Slack, url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let own = match &slack.post {
        Some(SlackPost::Bot { api, .. }) => Some(api.origin()),
        Some(SlackPost::Webhook(hook)) => Url::parse(&hook.0).ok().map(|hook| hook.origin()),
        None => None,
    };
    own == Some(url.origin()) || url.origin().ascii_serialization() == "https://hooks.slack.com"
}

/// What a person is told of their click.
async fn answer(approvals: &Approvals, slack: &Slack, click: &Click) -> String {
    let Some(who) = slack.users.get(&click.user) else {
        approvals.metrics.slack_click("unknown_user");
        tracing::warn!("a user of Slack who is nobody in the config clicked");
        return "You are not in the table of approvers, so this did nothing.".to_owned();
    };
    let voter = approvals
        .people
        .person(who, None)
        .voter(Channel::Slack, false);
    let prefix = Some(click.digest_prefix.clone());
    let answered = approvals
        .answer(voter, click.ticket.clone(), click.verdict, prefix, None)
        .await;
    match answered {
        Ok(ticket) => {
            approvals.metrics.slack_click("ok");
            match ticket.state {
                TicketState::Requested => format!(
                    "Noted: {} of {} approvals of {}.",
                    ticket.approved_by(),
                    ticket.approvals,
                    ticket.id
                ),
                state => format!("{} is {state}: {}", ticket.id, ticket.summary),
            }
        }
        Err(AnswerError::AlreadyDecided { ticket, state }) => {
            approvals.metrics.slack_click("late");
            format!("{ticket} is {state} already: this click did nothing.")
        }
        Err(error) => {
            approvals.metrics.slack_click("refused");
            format!("This did nothing: {error}.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Slack's page on verifying requests.
    #[test]
    fn a_request_is_slacks_by_its_signature_and_its_time() {
        let secret = b"8f742231b10e8888abcd99yyyzzz85a5";
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let at = |seconds: i64| Timestamp::from_second(1_531_420_618 + seconds).unwrap();
        let headers = |pairs: &[(&HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, value.parse().unwrap());
            }
            headers
        };
        let good = headers(&[(&TIMESTAMP, "1531420618"), (&SIGNATURE, signature)]);
        for (seconds, fine) in [
            (0, true),
            (300, true),
            (-300, true),
            (301, false),
            (-301, false),
        ] {
            assert_eq!(
                is_signed(secret, &good, body, at(seconds)),
                fine,
                "{seconds}"
            );
        }
        assert!(!is_signed(b"another secret", &good, body, at(0)));
        assert!(!is_signed(secret, &good, b"token=other", at(0)));
        let short = signature.get(..20).unwrap();
        for bad in [
            headers(&[(&SIGNATURE, signature)]),
            headers(&[(&TIMESTAMP, "1531420618")]),
            headers(&[(&TIMESTAMP, "1531420619"), (&SIGNATURE, signature)]),
            headers(&[(&TIMESTAMP, "+1531420618"), (&SIGNATURE, signature)]),
            headers(&[(&TIMESTAMP, "1531420618"), (&SIGNATURE, short)]),
            headers(&[
                (&TIMESTAMP, "1531420618"),
                (&SIGNATURE, &signature.replace("v0", "v1")),
            ]),
            headers(&[
                (&TIMESTAMP, "1531420618"),
                (&SIGNATURE, signature),
                (&SIGNATURE, signature),
            ]),
        ] {
            assert!(!is_signed(secret, &bad, body, at(0)), "{bad:?}");
        }
    }
}
