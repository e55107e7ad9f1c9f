//! Calls that their own user confirms: the client is asked to open the page (MCP 2026-07-28, multi round-trip requests with
//! an elicitation in URL mode), and sends the call again with the state that it was given.
//!
//! What comes back is no authority: that the user has opened a page approves nothing. The state is sealed for its caller and
//! for its call, runs out with the request, and only says which request is meant.

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use super::message::{Message, document};
use super::{Mcp, headers, render};
use crate::clock::{Clock, SystemClock};
use crate::guard::Decision;
use crate::item::Item;
use crate::names::TicketId;
use crate::principal::Principal;
use crate::protocols::strict::{invalid_request, present};
use crate::protocols::{Malformed, Refusal, Request, unwritable};
use crate::verdict::{Hold, Verdict};
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::splice::Splice;

/// What a state of the proxy's own begins with: any other is the server's.
const OWN: &str = "hpr1.";

/// The key of the question, and of its answer.
const QUESTION: &str = "holdpoint-approval";

/// `_meta`: what the client can do.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// How long a call waits whose user has just opened the page, where no rule says how long.
const PATIENCE: Duration = Duration::from_secs(25);

/// What an agent sends back of a question, put among the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The request that is meant.
    pub(super) ticket: Arc<str>,
    /// The user was willing to open the page.
    accepted: bool,
}

#[derive(Serialize, Deserialize)]
struct State<'s> {
    ticket: &'s str,
    /// SHA-256 of the call.
    call: String,
    until: Timestamp,
}

/// What a state is sealed for: it is of no use to anybody else.
fn used_for(caller: &Principal) -> Vec<u8> {
    let Principal {
        tenant,
        issuer,
        subject,
        agent,
        ..
    } = caller;
    json!(["holdpoint-request-state-v1", tenant, issuer, subject, agent])
        .to_string()
        .into_bytes()
}

fn refused(what: &str) -> Malformed {
    invalid_request("/params/requestState", what)
}

impl Mcp {
    /// The one call of a request, as a digest.
    fn call_of(&self, request: &Request) -> Result<Option<String>, Malformed> {
        let sent = self.sent(request)?;
        let item = sent.and_then(|sent| {
            let asked = sent.asked?;
            Some(asked.located(request, sent.document, &self.route.wrapped))
        });
        let Some(Item::ToolCall(call)) = item.map(|located| located.item) else {
            return Ok(None);
        };
        let whole = serde_json_canonicalizer::to_vec(&json!([call.tool, call.args.value]));
        let digest = |bytes: Vec<u8>| {
            let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes);
            data_encoding::HEXLOWER.encode(hash.as_ref())
        };
        Ok(whole.ok().map(digest))
    }

    /// Takes an own state, and the answer to the own question, out of a call.
    pub(super) fn taken_back(&self, mut request: Request) -> Result<Request, Malformed> {
        let Some(old) = request.json.clone() else {
            return Ok(request);
        };
        let Ok(Message::Request {
            method: "tools/call",
            params: Some(params),
            ..
        }) = Message::read(&old)
        else {
            return Ok(request);
        };
        let state = present(params, "requestState").and_then(Node::as_str);
        let Some(sealed) = state.and_then(|state| state.strip_prefix(OWN)) else {
            return Ok(request);
        };
        let not_good = || {
            refused(
                "is not one of this proxy's for this caller, or has run out: send the call without it",
            )
        };
        let caller = request.parts.extensions.get::<Arc<Principal>>();
        let opened = caller.zip(self.sealer.as_ref());
        let opened = opened.and_then(|(caller, sealer)| sealer.open(&used_for(caller), sealed));
        let opened = opened.ok_or_else(not_good)?;
        let state: State<'_> = serde_json::from_slice(&opened).map_err(|_| not_good())?;
        if state.until <= SystemClock.now() {
            return Err(not_good());
        }
        let accepted = accepted(params)?;
        let mut splice = Splice::new(&old);
        splice.remove_members(params, |key| {
            matches!(key, "requestState" | "inputResponses")
        });
        let body = splice.finish();
        request.json = Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?);
        request.body = body;
        if self.call_of(&request)? != Some(state.call) {
            return Err(refused("belongs to another call: send this one without it"));
        }
        let answered = Answered {
            ticket: state.ticket.into(),
            accepted,
        };
        request.parts.extensions.insert(answered);
        Ok(request)
    }

    /// How long the user who was just asked may take.
    pub(super) fn patience_of(request: &Request) -> Option<Duration> {
        let answered = request.parts.extensions.get::<Answered>()?;
        answered.accepted.then_some(PATIENCE)
    }

    /// The ticket and the page, where the client can ask its user about this call.
    fn asked_of<'h>(&self, request: &Request, hold: &'h Hold) -> Option<(&'h TicketId, &'h str)> {
        let ticket = hold.ticket.as_ref().filter(|_| hold.confirm)?;
        let page = hold.page.as_deref()?;
        self.sealer.as_ref()?;
        let parts = &request.parts;
        if parts.extensions.get::<Answered>().is_some() || self.announced(request).is_some() {
            return None;
        }
        let message = Message::read(request.json.as_ref()?).ok()?;
        let Message::Request {
            method: "tools/call",
            params: Some(params),
            ..
        } = message
        else {
            return None;
        };
        // The server's own questions go on: two at once cannot be told apart.
        let open = ["requestState", "inputResponses"];
        let is_open = open.iter().any(|key| present(params, key).is_some());
        let can = present(params, "_meta")?.get(CAPABILITIES)?;
        let can = present(present(can, "elicitation")?, "url").is_some();
        (can && !is_open && headers::modern(&parts.headers, &message)).then_some((ticket, page))
    }

    /// Whether the answer to this request asks its user.
    pub(super) fn asks_user(&self, request: &Request, decision: &Decision) -> bool {
        let verdict = decision.rulings.first().map(|ruling| &ruling.verdict);
        matches!(verdict, Some(Verdict::Hold(hold)) if self.asked_of(request, hold).is_some())
    }

    /// The answer that asks the user, where the client can do that.
    pub(super) fn asking(
        &self,
        request: &Request,
        refusal: &Refusal,
    ) -> Result<Option<Response<Bytes>>, Malformed> {
        let asked = refusal.hold.as_ref();
        let Some((hold, (ticket, page))) =
            asked.and_then(|hold| Some((hold, self.asked_of(request, hold)?)))
        else {
            return Ok(None);
        };
        let until = hold.expires_at.as_deref().and_then(|at| at.parse().ok());
        let parts = self.call_of(request)?.zip(until);
        let Some((call, until)) = parts else {
            return Ok(None);
        };
        let state = State {
            ticket: ticket.as_str(),
            call,
            until,
        };
        let note = serde_json::to_vec(&state).map_err(|_| unwritable())?;
        let caller = request.parts.extensions.get::<Arc<Principal>>();
        let sealed = caller
            .zip(self.sealer.as_ref())
            .and_then(|(caller, sealer)| sealer.seal(&used_for(caller), &note));
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let summary = hold.summary.as_deref().unwrap_or_default();
        let result = json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: {
                "method": "elicitation/create",
                "params": {
                    "mode": "url",
                    "url": page,
                    "message": format!("Please look at this and confirm it yourself: {summary}"),
                },
            }},
            "requestState": format!("{OWN}{sealed}"),
            "_meta": { render::REFUSED: refusal.facts() },
        });
        let old = document(request)?;
        let id = old.root().get("id").map(|id| old.raw(id));
        let mut response = Response::new(render::envelope(id.as_ref(), "result", &result));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        Ok(Some(response))
    }
}

/// Whether the user was willing to open the page.
fn accepted(params: &Node) -> Result<bool, Malformed> {
    let Some(answers) = present(params, "inputResponses") else {
        return Ok(false);
    };
    let others = answers.members().iter().any(|m| &*m.key != QUESTION);
    if others || !matches!(answers.kind, Kind::Object(_)) {
        return Err(invalid_request(
            "/params/inputResponses",
            "answers what was not asked with this state",
        ));
    }
    let answer = answers.get(QUESTION);
    let action = answer.and_then(|answer| answer.get("action")?.as_str());
    Ok(action == Some("accept"))
}
