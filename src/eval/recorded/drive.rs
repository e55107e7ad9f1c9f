//! Drives recorded runs through the proxy's own service in process and listens to what the guard says of each call.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::read::Run;
use crate::clock::SystemClock;
use crate::eval::import::agentdojo::record::{Call, Message};
use crate::eval::replay::chat::Answer;
use crate::eval::replay::{MODEL, Reading, SESSION, prefix, settings};
use crate::guard::{Cleared, Decision, Guard, Observer, Parts};
use crate::item::{Exchange, Item, Leg};
use crate::metrics::Metrics;
use crate::names::{RouteName, RuleId, UpstreamName};
use crate::policy::Policy;
use crate::principal::Principal;
use crate::proxy::{self, Body, ProxyService, Setup, Upstream, UpstreamError, full};
use crate::settings::Principals;
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::store::tickets::{TicketLimits, TicketStore, sqlite as tickets};
use crate::verdict::{Finding, LayerId, Mode, Reason, Ruling, Verdict};

/// Nobody approves anything, so nothing is ever replayed.
const REPLAY_WINDOW: Duration = Duration::from_hours(1);

/// What the guard said of one recorded call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Said {
    /// Its id in the run.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Allowed, held or refused.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What becomes of a call by its own arguments; that another call of its turn is refused does not count.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Fate {
    /// It passes.
    Allowed,
    /// It would wait for a person.
    Held(Why),
    /// It is refused.
    Refused(Why),
}

impl Fate {
    /// Held or refused: without an approver it does not happen.
    pub const fn stopped(&self) -> bool {
        !matches!(self, Self::Allowed)
    }
}

/// Who objects, and to what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// The layer.
    pub layer: LayerId,
    /// Its rule.
    pub rule: RuleId,
    /// The stable code.
    pub reason: Reason,
    /// JSON Pointer into the arguments, where it is about one of them.
    pub argument: Option<String>,
}

impl From<&Finding> for Why {
    fn from(finding: &Finding) -> Self {
        Self {
            layer: finding.layer,
            rule: finding.rule.clone(),
            reason: finding.reason,
            argument: finding.argument.clone(),
        }
    }
}

/// A proxy with one policy, a recorded model behind it and nobody who approves.
pub struct Driver {
    service: ProxyService<Recorded>,
    model: Recorded,
    heard: Arc<Heard>,
    reading: Reading,
}

impl Driver {
    /// A proxy for the policy, with the layers `injection` and `ownership` off: a recording has no database that says whose a
    /// resource is.
    ///
    /// # Errors
    /// Layers that cannot run, such as others with look-ups.
    pub fn new(policy: Arc<Policy>, reading: Reading) -> Result<Self, Problems> {
        let layers = policy
            .modes
            .clone()
            .with(LayerId::Injection, Mode::Off)
            .with(LayerId::Ownership, Mode::Off);
        let heard = Arc::new(Heard::default());
        let stores = Stores {
            tickets: (layers.of(LayerId::Tickets) == Mode::Enforce)
                .then(ticket_store)
                .transpose()?,
            ..Stores::default()
        };
        let parts = Parts {
            stores,
            observers: vec![Arc::clone(&heard) as _],
            ..Parts::default()
        };
        let guard = Guard::new(policy, &layers, parts)?;
        let model = Recorded::default();
        let principal = Principal {
            tenant: "recorded".into(),
            issuer: "config".into(),
            subject: "user".into(),
            agent: "agent".into(),
            actors: Vec::new(),
            scopes: std::collections::BTreeSet::new(),
        };
        let setup = Setup {
            guard: Arc::new(ArcSwap::from_pointee(guard)),
            settings: Arc::new(settings(
                &HashMap::new(),
                Principals::Fixed(Arc::new(principal)),
            )),
            metrics: Metrics::new(),
        };
        Ok(Self {
            service: proxy::service(setup, model.clone())?,
            model,
            heard,
            reading,
        })
    }

    /// What the guard says of every call of the run, in order.
    ///
    /// # Errors
    /// The proxy refused a request or gave an answer that no verdict explains.
    pub async fn run(&self, run: &Run, session: &str) -> Result<Vec<Said>, String> {
        let mut conversation: Vec<Value> = Vec::new();
        let mut said: Vec<Said> = Vec::new();
        for (at, message) in run.trajectory.messages.iter().enumerate() {
            match message {
                Message::System(text) => conversation.push(turn("system", text)),
                Message::User(text) => conversation.push(turn("user", text)),
                Message::Assistant { text, calls } => {
                    let verdicts = if at < run.judged_from {
                        Vec::new()
                    } else {
                        self.turn(&conversation, text, calls, session).await?
                    };
                    let kept = calls.iter().filter(|call| {
                        self.reading == Reading::Pessimistic || !stopped(&verdicts, &call.id)
                    });
                    conversation.push(answer(text, kept).message());
                    said.extend(verdicts);
                }
                Message::Output(output) => {
                    // In the optimistic reading what was refused has never happened.
                    if self.reading == Reading::Optimistic && stopped(&said, &output.call) {
                        continue;
                    }
                    let text = match &output.error {
                        Some(error) if output.text.is_empty() => error,
                        _ => &output.text,
                    };
                    let mut message = turn("tool", text);
                    if let Value::Object(fields) = &mut message {
                        fields.insert("tool_call_id".to_owned(), output.call.clone().into());
                    }
                    conversation.push(message);
                }
            }
        }
        Ok(said)
    }

    /// The verdicts on the calls of one answer of the model.
    async fn turn(
        &self,
        conversation: &[Value],
        text: &str,
        calls: &[Call],
        session: &str,
    ) -> Result<Vec<Said>, String> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        self.model.says(answer(text, calls.iter()).whole());
        self.heard.lock().clear();
        let request = json!({"model": "recorded", "messages": conversation});
        let (status, body) = self.post(session, request.to_string().into()).await?;
        if status != StatusCode::OK {
            let body = String::from_utf8_lossy(&body);
            let body: String = body.chars().take(300).collect();
            return Err(format!("the proxy answered {status}: {body}"));
        }
        let heard = self.heard.lock();
        let verdicts = calls.iter().map(|call| {
            let fate = heard.get(&call.id).cloned();
            let fate = fate.ok_or_else(|| format!("nothing was said of the call `{}`", call.id))?;
            Ok(Said {
                call: call.id.clone(),
                tool: call.tool.clone(),
                fate,
            })
        });
        verdicts.collect()
    }

    async fn post(&self, session: &str, body: Bytes) -> Result<(StatusCode, Bytes), String> {
        let path = format!("{}/chat/completions", prefix(&RouteName::from(MODEL)));
        let request = Request::post(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(SESSION, session)
            .body(full(body))
            .map_err(|error| error.to_string())?;
        let (head, body) = sent(self.service.clone(), request).await.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok((head.status, body.to_bytes()))
    }
}

/// Sends one request through the proxy. Its future is boxed: the compiler cannot see that it is `Send` inside another.
fn sent(
    service: ProxyService<Recorded>,
    request: Request<Body>,
) -> BoxFuture<'static, Response<Body>> {
    Box::pin(service.oneshot(request).map(|answered| match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }))
}

pub(super) fn ticket_store() -> Result<Arc<dyn TicketStore>, Problems> {
    let store = tickets::open(
        Path::new(":memory:"),
        SystemClock::shared(),
        TicketLimits::replaying(REPLAY_WINDOW),
    );
    store.map_err(|error| Problem::new(error.to_string()).into())
}

fn stopped(said: &[Said], call: &str) -> bool {
    said.iter()
        .any(|said| said.call == call && said.fate.stopped())
}

fn turn(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

pub(super) fn answer<'c>(text: &str, calls: impl Iterator<Item = &'c Call>) -> Answer {
    Answer {
        text: (!text.is_empty()).then(|| text.to_owned()),
        calls: calls
            .map(|call| {
                let args = Value::Object(call.args.clone()).to_string();
                (call.id.clone(), call.tool.clone(), args)
            })
            .collect(),
    }
}

/// The model: it answers what it is told to.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Bytes>>);

impl Recorded {
    fn says(&self, answer: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

impl Upstream for Recorded {
    fn send(
        &self,
        _: &UpstreamName,
        _: Cleared<Request<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, UpstreamError>> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut response = Response::new(full(answer.clone()));
        let kind = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// What the guard said of the calls of the last answer.
#[derive(Default)]
struct Heard(Mutex<BTreeMap<String, Fate>>);

impl Heard {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Fate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Heard {
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        if exchange.leg == Leg::ToAgent {
            let mut heard = self.lock();
            for (located, ruling) in exchange.items.iter().zip(&decision.rulings) {
                let call = match &located.item {
                    Item::ToolCall(call) => call.call_id.as_deref(),
                    Item::Unreadable(call) => call.call_id.as_deref(),
                    _ => None,
                };
                if let Some(call) = call {
                    heard.insert(call.to_owned(), fate(ruling));
                }
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What the enforcing layers say of the call itself: a call is also taken back with its turn, and a held one is settled.
fn fate(ruling: &Ruling) -> Fate {
    let enforced = || {
        ruling
            .opinions
            .iter()
            .filter(|opinion| opinion.mode == Mode::Enforce)
            .map(|opinion| &opinion.verdict)
    };
    let denied = enforced().find_map(|verdict| match verdict {
        Verdict::Deny(finding) => Some(Fate::Refused(finding.into())),
        _ => None,
    });
    let held = || {
        enforced().find_map(|verdict| match verdict {
            Verdict::Hold(hold) => Some(Fate::Held((&hold.finding).into())),
            _ => None,
        })
    };
    let unjudged = || match &ruling.verdict {
        Verdict::Deny(finding) if ruling.opinions.is_empty() => Some(Fate::Refused(finding.into())),
        _ => None,
    };
    denied
        .or_else(held)
        .or_else(unjudged)
        .unwrap_or(Fate::Allowed)
}
