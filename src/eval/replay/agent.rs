//! The recorded agent: asks the model, carries out what the proxy releases, puts the outputs into the conversation.

use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

use super::chat::Answer;
use super::stage::Stage;
use super::tally::Tally;
use super::{Approver, CallResult, Fate, MODEL, SESSION, prefix};
use crate::eval::case::{Call, Case, Step};
use crate::item::RouteKind;
use crate::names::{RouteName, TicketId};
use crate::proxy::{Body, ProxyService, full};
use crate::store::tickets::{
    Answer as Decision, Decider, TicketState, TicketStore, Verdict as Vote,
};
use crate::verdict::Verdict;

/// How often a held call is repeated after its approval.
const REPEATS: usize = 2;

/// No rule asks for more people.
const MOST_PEOPLE: u32 = 10;

/// One trial's agent.
pub(super) struct Agent<'a> {
    pub service: ProxyService<Stage>,
    /// Sent with every request, where principals come with tokens.
    pub token: Option<String>,
    pub stage: Stage,
    pub tally: Arc<Tally>,
    pub tickets: Option<Arc<dyn TicketStore>>,
    pub approver: Approver,
    pub case: &'a Case,
    pub routes: &'a HashMap<String, RouteName>,
    pub session: &'a str,
    pub stream: bool,
    pub conversation: Conversation,
    pub transcript: Transcript,
    pub calls: Vec<CallResult>,
    pub approvals: usize,
    pub asked: bool,
}

/// What the agent sends to the model every turn: the messages as they were written once.
pub(super) struct Conversation {
    messages: String,
    /// The tools' definitions, as JSON; empty where there are none.
    tools: Arc<str>,
    /// Outputs were added that the model has not read.
    unread: bool,
}

impl Conversation {
    pub(super) fn new(system: Option<&str>, tools: Arc<str>) -> Self {
        let mut conversation = Self {
            messages: String::new(),
            tools,
            unread: false,
        };
        if let Some(text) = system {
            conversation.push(&json!({"role": "system", "content": text}));
        }
        conversation
    }

    fn push(&mut self, message: &Value) {
        if !self.messages.is_empty() {
            self.messages.push(',');
        }
        let _ = write!(self.messages, "{message}");
    }

    fn request(&self, stream: bool) -> Bytes {
        let mut request = String::with_capacity(self.messages.len() + self.tools.len() + 80);
        let _ = write!(
            request,
            r#"{{"model":"recorded","messages":[{}]"#,
            self.messages
        );
        if !self.tools.is_empty() {
            let _ = write!(request, r#","tools":{}"#, self.tools);
        }
        request.push_str(if stream { r#","stream":true}"# } else { "}" });
        request.into()
    }
}

/// What was said and done, kept where somebody wants it.
pub(super) struct Transcript(Option<Vec<Value>>);

impl Transcript {
    pub(super) fn new(keep: bool) -> Self {
        Self(keep.then(Vec::new))
    }

    fn add(&mut self, line: impl FnOnce() -> Value) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }

    pub(super) fn into_lines(self) -> Option<Vec<Value>> {
        self.0
    }
}

impl Agent<'_> {
    /// Plays the case from its first step to its last.
    ///
    /// # Errors
    /// Why the trial is inconclusive.
    pub(super) async fn play(&mut self, case: &Case) -> Result<(), String> {
        for (index, step) in case.steps.iter().enumerate() {
            match step {
                Step::User(text) => {
                    self.transcript.add(|| json!({"user": text}));
                    let message = json!({"role": "user", "content": text});
                    self.conversation.push(&message);
                }
                Step::Model { calls, .. } => self.turn(index, calls).await?,
            }
        }
        if self.conversation.unread {
            // The last outputs must reach the model too, or nobody would know what it gets to read of them.
            self.stage.turn(None);
            let _ = self.ask().await?;
        }
        Ok(())
    }

    async fn turn(&mut self, index: usize, calls: &[Call]) -> Result<(), String> {
        self.stage.turn(Some(index));
        let mut answer = match self.ask().await? {
            Ok(answer) => answer,
            Err(code) => {
                for call in calls {
                    let fate = Fate::TurnedAway { code: code.clone() };
                    let result = self.result(call, fate, false);
                    self.calls.push(result);
                }
                return Ok(());
            }
        };
        // What a proposal needs is asked for before anything is carried out.
        for _ in 0..REPEATS {
            let mut approved = false;
            for call in calls {
                let held = self.tally.verdict(&call.id, RouteKind::Model);
                if let Some(Verdict::Hold(hold)) = held {
                    approved |= self.approve(call, hold.ticket).await?;
                }
            }
            if !approved {
                break;
            }
            match self.ask().await? {
                Ok(again) => answer = again,
                Err(code) => return Err(format!("the model route turned to `{code}`")),
            }
        }
        let proposed: Vec<String> = {
            let proposed = self.stage.proposed(index).into_iter();
            proposed.map(|call| call.id.clone()).collect()
        };
        if answer.text.is_some() || !answer.calls.is_empty() {
            self.conversation.push(&answer.message());
        }
        for call in calls {
            let released = answer.calls.iter().find(|(id, ..)| *id == call.id);
            let result = match released {
                Some((_, _, args)) => self.carry_out(call, args.clone()).await?,
                None if proposed.contains(&call.id) => self.stopped(call, RouteKind::Model)?,
                None => self.result(call, Fate::NotProposed, false),
            };
            self.transcript
                .add(|| json!({"call": call.id, "result": result}));
            self.calls.push(result);
        }
        Ok(())
    }

    /// Sends the conversation to the model. The inner error is the code with which the proxy turned the caller away.
    async fn ask(&mut self) -> Result<Result<Answer, String>, String> {
        let request = self.conversation.request(self.stream);
        let path = format!("{}/chat/completions", prefix(&RouteName::from(MODEL)));
        let (head, body) = self.post(&path, request).await?;
        self.conversation.unread = false;
        if let Some(code) = self.turned_away(head.status, &body) {
            self.transcript.add(|| json!({"turned_away": code}));
            return Ok(Err(code));
        }
        if head.status != StatusCode::OK {
            return Err(unexpected("the model route", head.status, &body));
        }
        let answer = Answer::read(&body, self.stream)?;
        self.transcript.add(|| json!({"model": answer.message()}));
        Ok(Ok(answer))
    }

    /// The code of a caller whose token is not taken.
    fn turned_away(&self, status: StatusCode, body: &Bytes) -> Option<String> {
        if status != StatusCode::UNAUTHORIZED || self.token.is_none() {
            return None;
        }
        let body: Value = serde_json::from_slice(body).ok()?;
        let error = body.get("error")?;
        let code = error.get("code").unwrap_or(error).as_str()?;
        Some(code.to_owned())
    }

    /// Sends a released call to its tool.
    async fn carry_out(&mut self, call: &Call, args: String) -> Result<CallResult, String> {
        let route = self
            .routes
            .get(&call.tool)
            .ok_or("a tool without a route")?;
        let tool = utf8_percent_encode(&call.tool, NON_ALPHANUMERIC);
        let path = format!("{}/{tool}", prefix(route));
        let body = Bytes::from(args);
        let mut needed_ticket = false;
        let mut last = None;
        for _ in 0..=REPEATS {
            self.stage.carry_out(Some(&call.id));
            let (head, output) = self.post(&path, body.clone()).await?;
            let text = String::from_utf8_lossy(&output).into_owned();
            let verdict = self.tally.verdict(&call.id, RouteKind::Http);
            let fate = self.fate(call, &head, &output, verdict.as_ref())?;
            let waits = matches!(fate, Fate::Held { .. });
            last = Some((fate, text));
            let Some(Verdict::Hold(hold)) = verdict else {
                break;
            };
            needed_ticket = true;
            if !waits || !self.approve(call, hold.ticket).await? {
                break;
            }
        }
        self.stage.carry_out(None);
        let (fate, text) = last.ok_or("no answer")?;
        self.transcript
            .add(|| json!({"output_of": call.id, "text": text}));
        let message = json!({"role": "tool", "tool_call_id": call.id, "content": text});
        self.conversation.push(&message);
        self.conversation.unread = true;
        Ok(self.result(call, fate, needed_ticket))
    }

    fn fate(
        &self,
        call: &Call,
        head: &http::response::Parts,
        body: &Bytes,
        verdict: Option<&Verdict>,
    ) -> Result<Fate, String> {
        if let Some(code) = self.turned_away(head.status, body) {
            return Ok(Fate::TurnedAway { code });
        }
        let kind = head.headers.get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/problem+json")) {
            return match verdict {
                Some(Verdict::Deny(_) | Verdict::Hold(_)) => {
                    Ok(self.stopped(call, RouteKind::Http)?.fate)
                }
                _ => Err(unexpected("the tool route", head.status, body)),
            };
        }
        if head.headers.contains_key("holdpoint-replayed") {
            self.stage
                .replayed(&call.id, &String::from_utf8_lossy(body));
            return Ok(Fate::Replayed);
        }
        match self.stage.done(&call.id) {
            Some(true) => Ok(Fate::Done),
            Some(false) => Ok(Fate::Failed),
            None => Err(unexpected("the tool route", head.status, body)),
        }
    }

    /// The fate of a call that the proxy did not let through.
    fn stopped(&self, call: &Call, kind: RouteKind) -> Result<CallResult, String> {
        match self.tally.verdict(&call.id, kind) {
            Some(Verdict::Deny(finding)) => {
                let fate = Fate::Refused {
                    layer: finding.layer,
                    rule: finding.rule,
                    reason: finding.reason,
                };
                Ok(self.result(call, fate, false))
            }
            Some(Verdict::Hold(hold)) => {
                let fate = Fate::Held {
                    layer: hold.finding.layer,
                    rule: hold.finding.rule,
                };
                Ok(self.result(call, fate, true))
            }
            _ => Err(format!(
                "the call `{}` vanished without a verdict against it",
                call.id
            )),
        }
    }

    #[expect(clippy::unused_self, reason = "reads as the agent's word on the call")]
    fn result(&self, call: &Call, fate: Fate, needed_ticket: bool) -> CallResult {
        CallResult {
            call: call.id.clone(),
            tool: call.tool.clone(),
            cause: call.cause,
            fate,
            needed_ticket,
        }
    }

    /// Has the approver answer; whether a ticket was approved.
    async fn approve(&mut self, call: &Call, ticket: Option<TicketId>) -> Result<bool, String> {
        let (Some(store), Some(ticket)) = (&self.tickets, ticket) else {
            return Ok(false);
        };
        self.asked = true;
        if !self.approver.approves(self.case, call) {
            return Ok(false);
        }
        // As many people as the rule asks for, all of one mind.
        for person in 1..=MOST_PEOPLE {
            let answer = Decision {
                ticket: ticket.clone(),
                verdict: Vote::Approve,
                by: Decider::Local(format!("eval {person}")),
                digest_prefix: None,
                comment: None,
            };
            let answered = store.answer(answer).await;
            let answered = answered.map_err(|error| format!("the approver failed: {error}"))?;
            self.approvals += 1;
            if answered.state == TicketState::Approved {
                break;
            }
        }
        self.transcript.add(|| json!({"approved": call.id}));
        Ok(true)
    }

    async fn post(
        &mut self,
        path: &str,
        body: Bytes,
    ) -> Result<(http::response::Parts, Bytes), String> {
        let mut request = Request::post(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(SESSION, self.session);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(full(body))
            .map_err(|error| error.to_string())?;
        let (head, body) = sent(self.service.clone(), request).await.into_parts();
        let body = body
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        for said in self.tally.said() {
            self.transcript.add(|| json!({"verdict": said}));
        }
        match self.stage.fault() {
            Some(fault) => Err(fault.cause),
            None => Ok((head, body)),
        }
    }
}

/// Sends one request through the proxy. Its future is boxed: the compiler cannot see that it is `Send` inside another.
fn sent(
    service: ProxyService<Stage>,
    request: Request<Body>,
) -> BoxFuture<'static, Response<Body>> {
    Box::pin(service.oneshot(request).map(|answered| match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }))
}

/// An answer that no verdict explains. The body is the proxy's own error, which holds no payload.
fn unexpected(what: &str, status: StatusCode, body: &Bytes) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String = text.chars().take(300).collect();
    format!("{what} answered {status}: {text}")
}
