//! The other side of the proxy in a trial: the recorded model and the tools of the world, as one in-process upstream.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{MODEL, Reading, chat, common};
use crate::eval::case::{Call, Case, Cause, OutputPart, Step};
use crate::eval::sql::Bindings;
use crate::eval::suite::Suite;
use crate::eval::world::{Answer, Fault, Sandbox};
use crate::guard::Cleared;
use crate::layers::injection::bare;
use crate::names::UpstreamName;
use crate::proxy::{Body, Upstream, UpstreamError, full};

/// The recorded model and the world of one trial.
#[derive(Clone)]
pub(super) struct Stage(Arc<Inner>);

struct Inner {
    suite: Arc<Suite>,
    case: Arc<Case>,
    reading: Reading,
    stream: bool,
    state: Mutex<State>,
}

/// Of a request to the model what it listens for.
#[derive(Deserialize)]
struct Listened<'b> {
    #[serde(borrow, default)]
    messages: Vec<&'b RawValue>,
}

#[derive(Deserialize)]
struct Message<'b> {
    #[serde(borrow, default)]
    role: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'b, str>>,
    #[serde(borrow, default)]
    content: Option<&'b RawValue>,
}

struct State {
    /// Away while a call is carried out.
    world: Option<Sandbox>,
    /// The step that the model answers with; `None`: it only listens.
    turn: Option<usize>,
    /// The call that is being carried out.
    current: Option<String>,
    /// Outputs as the tools gave them, by call.
    given: HashMap<String, String>,
    /// Outputs as the model last read them, by call.
    shown: HashMap<String, String>,
    /// Whether the tool did what the call asked, by call.
    done: HashMap<String, bool>,
    /// The last request to the model, up to the end of its last message.
    heard: Bytes,
    /// What broke in the harness itself.
    fault: Option<Fault>,
    /// How long the world took.
    spent: Duration,
}

impl Stage {
    pub(super) fn new(
        suite: Arc<Suite>,
        case: Arc<Case>,
        reading: Reading,
        stream: bool,
        world: Sandbox,
    ) -> Self {
        let state = State {
            world: Some(world),
            turn: None,
            current: None,
            given: HashMap::new(),
            shown: HashMap::new(),
            done: HashMap::new(),
            heard: Bytes::new(),
            fault: None,
            spent: Duration::ZERO,
        };
        Self(Arc::new(Inner {
            suite,
            case,
            reading,
            stream,
            state: Mutex::new(state),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets which step the model answers with.
    pub(super) fn turn(&self, step: Option<usize>) {
        self.state().turn = step;
    }

    /// Sets which call is carried out next.
    pub(super) fn carry_out(&self, call: Option<&str>) {
        self.state().current = call.map(str::to_owned);
    }

    /// The call that is being carried out.
    pub(super) fn current(&self) -> Option<String> {
        self.state().current.clone()
    }

    /// Whether the tool did what the call asked; `None`: it was never carried out.
    pub(super) fn done(&self, call: &str) -> Option<bool> {
        self.state().done.get(call).copied()
    }

    /// A receipt was given back in place of carrying the call out.
    pub(super) fn replayed(&self, call: &str, text: &str) {
        let mut state = self.state();
        state.given.insert(call.to_owned(), text.to_owned());
        state.done.insert(call.to_owned(), true);
    }

    /// What broke in the harness, if anything.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.state().fault.clone()
    }

    /// The world, for the next trial; `None`: a call was lost on the way.
    pub(super) fn world(&self) -> Option<Sandbox> {
        self.state().world.take()
    }

    /// The calls that the model makes in a step.
    pub(super) fn proposed(&self, step: usize) -> Vec<&Call> {
        let Some(Step::Model { calls, .. }) = self.0.case.steps.get(step) else {
            return Vec::new();
        };
        let state = self.state();
        calls
            .iter()
            .filter(|call| state.proposes(call, self.0.reading))
            .collect()
    }

    /// What the task is made from and did not reach the model.
    pub(super) fn lost(&self) -> Vec<OutputPart> {
        let state = self.state();
        let uses = self.0.case.expect.uses.iter();
        uses.filter(|part| !state.intact(part)).cloned().collect()
    }

    fn answer(&self, body: &Bytes) -> Response<Body> {
        if let Err(cause) = self.listen(body) {
            self.state().fault.get_or_insert(Fault::here(cause));
        }
        let turn = self.state().turn;
        let answer = match turn {
            None => chat::Answer::default(),
            Some(step) => {
                let say = match self.0.case.steps.get(step) {
                    Some(Step::Model { say, .. }) => say.as_ref(),
                    _ => None,
                };
                chat::Answer::recorded(say, self.proposed(step).into_iter())
            }
        };
        if self.0.stream {
            respond(StatusCode::OK, "text/event-stream", answer.streamed())
        } else {
            respond(StatusCode::OK, "application/json", answer.whole())
        }
    }

    /// Takes in the tool outputs that the request shows. A conversation comes again with every turn: what begins as the last
    /// request did is heard from there on.
    fn listen(&self, body: &Bytes) -> Result<(), String> {
        let mut state = self.state();
        let heard = state.heard.len();
        // As the agent writes it and the proxy keeps it: no blanks behind a message.
        let goes_on = matches!(body.get(heard), Some(b',' | b']'));
        let heard_more = heard > 0 && goes_on && body.starts_with(&state.heard);
        let end = if heard_more {
            state.hear_on(body, heard)
        } else {
            state.hear_all(body)
        };
        let end = end.map_err(|error| format!("the proxy sent the model no JSON: {error}"))?;
        state.heard = body.slice(..end);
        Ok(())
    }

    async fn run(self, path: String, body: Bytes) -> Response<Body> {
        match self.carried_out(&path, &body).await {
            Ok(answer) => {
                let status = if answer.ok {
                    StatusCode::OK
                } else {
                    StatusCode::UNPROCESSABLE_ENTITY
                };
                respond(status, "text/plain; charset=utf-8", answer.text)
            }
            Err(cause) => {
                self.state().fault.get_or_insert(cause);
                respond(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "text/plain",
                    "the world failed",
                )
            }
        }
    }

    async fn carried_out(&self, path: &str, body: &Bytes) -> Result<Answer, Fault> {
        let Inner { suite, case, .. } = &*self.0;
        let args: Value = serde_json::from_slice(body)
            .map_err(|error| Fault::here(format!("the proxy sent a tool no JSON: {error}")))?;
        let out_of_turn = || Fault::here("a tool was called out of turn");
        let id = self.current().ok_or_else(out_of_turn)?;
        let call = case.calls().find(|call| call.id == id);
        let call = call.ok_or_else(out_of_turn)?;
        let named = percent_encoding::percent_decode_str(path.trim_start_matches('/'));
        if named.decode_utf8_lossy() != call.tool.as_str() {
            return Err(Fault::here(format!(
                "the call `{id}` came to another tool than `{}`",
                call.tool
            )));
        }
        let tool = suite.tools.get(&call.tool);
        let tool = tool.ok_or_else(|| Fault::here("an unknown tool was called"))?;
        let answer = if call.failed {
            let text = call.output.clone();
            Answer {
                ok: false,
                text: text.unwrap_or_else(|| "the tool failed".to_owned()),
            }
        } else {
            let none = Value::Null;
            let given = tool.args.iter();
            let bound = given.fold(Bindings::default(), |bound, name| {
                bound.json(name, args.get(name).unwrap_or(&none))
            });
            let bound = common(suite, case, bound)
                .text("call", id.as_str())
                .json("args", &args);
            // Nobody else is at work in it: an agent makes one call after the other.
            let mut world = self.state().world.take().ok_or_else(out_of_turn)?;
            let started = Instant::now();
            let answered = world.call(tool, &bound, call.output.as_deref()).await;
            let mut state = self.state();
            state.spent += started.elapsed();
            state.world = Some(world);
            answered?
        };
        let mut state = self.state();
        state.given.insert(id.clone(), answer.text.clone());
        state.done.insert(id, answer.ok);
        Ok(answer)
    }

    /// The time that the world took.
    pub(super) fn spent(&self) -> Duration {
        self.state().spent
    }
}

impl State {
    /// Every message of a request; where the last of them ends.
    fn hear_all(&mut self, body: &[u8]) -> serde_json::Result<usize> {
        let request: Listened<'_> = serde_json::from_slice(body)?;
        for message in &request.messages {
            self.hear(&serde_json::from_str(message.get())?);
        }
        let last = request.messages.last();
        Ok(last.map_or(0, |last| {
            // A slice of the body: its place is the distance of the two.
            last.get().as_ptr().addr() - body.as_ptr().addr() + last.get().len()
        }))
    }

    /// The messages behind the first `end` bytes; where the last of them ends.
    fn hear_on(&mut self, body: &[u8], mut end: usize) -> serde_json::Result<usize> {
        while let Some((b',', rest)) = body.get(end..).and_then(<[u8]>::split_first) {
            let mut rest = serde_json::Deserializer::from_slice(rest).into_iter::<Message<'_>>();
            let Some(message) = rest.next().transpose()? else {
                break;
            };
            self.hear(&message);
            end += 1 + rest.byte_offset();
        }
        Ok(end)
    }

    /// Takes in the tool output that a message is.
    fn hear(&mut self, message: &Message<'_>) {
        if let (Some("tool"), Some(call), Some(content)) = (
            message.role.as_deref(),
            message.tool_call_id.as_deref(),
            message.content,
        ) && let Ok(text) = serde_json::from_str::<Cow<'_, str>>(content.get())
        {
            match self.shown.get_mut(call) {
                Some(shown) if *shown == text => {}
                Some(shown) => *shown = text.into_owned(),
                None => {
                    self.shown.insert(call.to_owned(), text.into_owned());
                }
            }
        }
    }

    /// Whether the recorded model makes this call, given what it has read.
    fn proposes(&self, call: &Call, reading: Reading) -> bool {
        let able = call.needs.iter().all(|id| self.done.get(id) == Some(&true));
        let injected = reading == Reading::Optimistic && call.cause == Cause::Injection;
        able && (!injected || call.carriers.iter().any(|part| self.intact(part)))
    }

    /// Whether the part of the output reached the model.
    fn intact(&self, part: &OutputPart) -> bool {
        let Some(shown) = self.shown.get(&part.call) else {
            return false;
        };
        match &part.text {
            Some(text) => says(shown, text),
            None => self
                .given
                .get(&part.call)
                .is_some_and(|given| says(shown, given)),
        }
    }
}

/// Whether a text still says all of what was given: notes, marks and cleaning take nothing away.
fn says(shown: &str, given: &str) -> bool {
    shown.contains(given) || bare(shown).contains(&bare(given))
}

impl Upstream for Stage {
    fn send(
        &self,
        to: &UpstreamName,
        request: Cleared<http::Request<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, UpstreamError>> {
        let (head, body) = request.into_message().into_parts();
        if to.as_str() == MODEL {
            return Box::pin(std::future::ready(Ok(self.answer(&body))));
        }
        let path = head.uri.path().to_owned();
        Box::pin(self.clone().run(path, body).map(Ok))
    }
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
