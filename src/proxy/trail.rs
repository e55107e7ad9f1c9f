//! What one request adds to what is known of its session, and takes from it.
//!
//! A call that a model proposes is judged by the conversation of its own request alone, so that the verdict is the same each
//! time. A call on a tool's route is judged by what is kept of its session.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::item::{Item, Leg, Located, RouteKind};
use crate::metrics::Metrics;
use crate::provenance::{Evidence, Said, Sessions, Speaker, Tie};
use crate::verdict::{Ruling, Verdict};

/// Where MCP puts structured output, and where texts.
const STRUCTURED: &str = "/result/structuredContent";
const CONTENT: [&str; 2] = ["/result/content/", "/result/contents/"];

pub(super) struct Trail {
    sessions: Arc<Sessions>,
    /// `None`: nothing ties this request to another.
    tie: Option<Tie>,
    kind: RouteKind,
    /// Of the request's own conversation.
    heard: OnceLock<Arc<Evidence>>,
    /// What the request's calls were asked.
    asked: Mutex<Vec<Said>>,
}

impl Trail {
    pub(super) const fn new(sessions: Arc<Sessions>, tie: Option<Tie>, kind: RouteKind) -> Self {
        Self {
            sessions,
            tie,
            kind,
            heard: OnceLock::new(),
            asked: Mutex::new(Vec::new()),
        }
    }

    /// The conversation of a request to a model.
    pub(super) fn hear(&self, said: Vec<Said>, metrics: &Metrics) {
        let heard = Arc::new(Evidence::known(said));
        if let Some(tie) = &self.tie {
            metrics.forgotten(self.sessions.hear(tie, &heard));
        }
        // Once for each request.
        let _ = self.heard.set(heard);
    }

    /// What is known where items of this request and its answer are judged.
    pub(super) fn evidence(&self) -> Arc<Evidence> {
        match (self.kind, &self.tie) {
            (RouteKind::Model, _) => self.heard.get().map(Arc::clone).unwrap_or_default(),
            (_, Some(tie)) => self.sessions.evidence(tie),
            // Nobody knows what else was said.
            (_, None) => Arc::new(Evidence::unknown()),
        }
    }

    /// Keeps what a tool's route was asked, and what it gave back to the agent.
    pub(super) fn judged(
        &self,
        leg: Leg,
        items: &[Located],
        rulings: &[Ruling],
        metrics: &Metrics,
    ) {
        let Some(tie) = self.tie.as_ref().filter(|_| self.kind != RouteKind::Model) else {
            return;
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if leg == Leg::ToUpstream {
            for located in items {
                calls(&located.item, &mut asked);
            }
            return;
        }
        let given = items.iter().zip(rulings);
        let given = given.filter(|(_, ruling)| !matches!(ruling.verdict, Verdict::Deny(_)));
        let given: Vec<_> = given
            .filter_map(|(located, _)| self.output(located))
            .collect();
        if given.is_empty() {
            return;
        }
        let said = asked.iter().cloned().chain(given).collect();
        drop(asked);
        metrics.forgotten(self.sessions.learn(tie, said));
    }

    fn output(&self, located: &Located) -> Option<Said> {
        let Item::ToolOutput(output) = &located.item else {
            return None;
        };
        // Texts that are judged joined stand alone as well.
        located.place.span.as_ref()?;
        let tool = output.tool.clone();
        let call = Some(output.call_id.clone().unwrap_or_default());
        let by = match at(self.kind, &located.place.pointer, &output.text) {
            Stands::Value(at) => Speaker::Tool { tool, call, at },
            Stands::Key(at) => Speaker::Key { tool, call, at },
        };
        Some(Said {
            by,
            text: Arc::clone(&output.text),
        })
    }
}

/// Where in a tool's answer a text stands.
enum Stands {
    /// As a value; `None` for one that has no place.
    Value(Option<String>),
    /// As a key of the object there.
    Key(String),
}

fn at(kind: RouteKind, pointer: &str, text: &str) -> Stands {
    let structured = pointer.split_once(STRUCTURED);
    let at = match (kind, structured) {
        (RouteKind::Mcp, Some((_, below))) => below,
        (RouteKind::Mcp, None) => {
            let mut texts = CONTENT
                .into_iter()
                .filter_map(|place| pointer.split_once(place));
            let value = texts.next().filter(|(_, below)| below.ends_with("/text"));
            return Stands::Value(value.map(|_| String::new()));
        }
        _ => pointer,
    };
    // A key stands where its value does.
    match at.rsplit_once('/') {
        Some((object, last)) if last.replace("~1", "/").replace("~0", "~") == text => {
            Stands::Key(object.to_owned())
        }
        _ => Stands::Value(Some(at.to_owned())),
    }
}

fn calls(item: &Item, said: &mut Vec<Said>) {
    let Item::ToolCall(call) = item else { return };
    let id = call.call_id.clone().unwrap_or_default();
    let mut add = |text: &str| {
        said.push(Said {
            by: Speaker::Call {
                id: Arc::clone(&id),
            },
            text: text.into(),
        });
    };
    texts(&call.args.value, &mut add);
}

fn texts(value: &Value, add: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => add(text),
        Value::Array(elements) => elements.iter().for_each(|element| texts(element, add)),
        Value::Object(members) => members.values().for_each(|member| texts(member, add)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
