//! Streamed responses: text goes through at once, calls are held until their choice ends, then leave in canonical form:
//! one delta that opens the call, one with its whole text.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::call::{Call, Form, Fragment, choice_index, fault_nameless};
use super::render::names_calls;
use super::whole::{no_calls_in, pointer};
use super::{ReplyRules, exact_keys, invalid_response, misframed, present, unwritable};
use crate::guard::Decision;
use crate::item::Located;
use crate::protocols::calls::check_held;
use crate::protocols::fates::{Fate, fates, notes};
use crate::protocols::object::Object;
use crate::protocols::passed::{encoded, passed};
use crate::protocols::strict::{array, must_be_object};
use crate::protocols::{Event, Frame, Framing, Malformed, ResponseReader, Step, note};
use crate::wire::json::{BODY_DEPTH, Document, Node};
use crate::wire::splice::Splice;

/// Members of a chunk that every chunk of a stream repeats, and so do those that are made here.
const REPEATED: [&str; 7] = [
    "id",
    "object",
    "created",
    "model",
    "system_fingerprint",
    "service_tier",
    "provider",
];

/// Longest of them that is repeated, in bytes.
const REPEATED_MAX: usize = 1024;

/// Keys of a delta that are held.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// Reads a stream of chunks.
pub(super) struct Reader {
    rules: ReplyRules,
    state: State,
    /// Calls seen in the whole stream.
    calls: usize,
    choices: BTreeMap<u64, Choice>,
    pending: Option<Pending>,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    /// `[DONE]` or an error came: nothing goes through any more.
    Over,
}

#[derive(Default)]
struct Choice {
    /// Some text of it has left.
    said: bool,
    finished: bool,
    /// It had calls and none was released.
    emptied: bool,
    /// How chunks of it start, up to the delta.
    head: Vec<u8>,
    held: Vec<Held>,
}

struct Held {
    /// As the upstream counts; several calls may claim one index.
    index: Option<u64>,
    /// For sorting: the index, or that of the call before.
    order: u64,
    call: Call,
}

/// An event that waits for the rulings over the calls of some choices.
struct Pending {
    /// Without data where there is a document.
    event: Event,
    /// The event's chunk; `None` for `[DONE]`.
    document: Option<Document>,
    ripe: Vec<u64>,
}

impl Reader {
    pub const fn new(rules: ReplyRules) -> Self {
        Self {
            rules,
            state: State::Open,
            calls: 0,
            choices: BTreeMap::new(),
            pending: None,
        }
    }

    fn chunk(&mut self, event: Event, data: String) -> Result<Step, Malformed> {
        let document = Document::read(data.into(), BODY_DEPTH)
            .map_err(|error| invalid_response(format!("a chunk is not strict JSON: {error}")))?;
        let root = document.root();
        must_be_object(root)?;
        exact_keys(root, &["choices", "error"])?;
        let mut ended = Vec::new();
        for (position, node) in array(root, "choices")?.iter().enumerate() {
            let index = choice_index(&document, node, position)?;
            let choice = self.choices.entry(index).or_default();
            self.calls += choice.absorb(&document, index, node)?;
            // Some backends send an empty reason until there is one.
            let reason = node.get("finish_reason").and_then(Node::as_str);
            if reason.is_some_and(|reason| !reason.is_empty()) && !ended.contains(&index) {
                ended.push(index);
            }
        }
        let held = self.choices.values().flat_map(|choice| &choice.held);
        check_held(
            self.calls,
            held.map(|h| h.call.size()).sum(),
            self.rules.held,
        )?;
        if present(root, "error").is_some() {
            self.state = State::Over;
            self.choices.clear();
            ended.clear();
        }
        let judge = self.ripen(&ended);
        if judge.is_empty() {
            let send = self.written(event, &document, &BTreeMap::new())?;
            return Ok(Step {
                send: send.into_iter().collect(),
                judge,
            });
        }
        self.pending = Some(Pending {
            event,
            document: Some(document),
            ripe: ended,
        });
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    fn done(&mut self, event: Event) -> Result<Step, Malformed> {
        self.state = State::Over;
        let ripe: Vec<u64> = self.choices.keys().copied().collect();
        let judge = self.ripen(&ripe);
        if judge.is_empty() {
            return passed(event);
        }
        self.pending = Some(Pending {
            event,
            document: None,
            ripe,
        });
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    /// The calls of choices that have ended, in the order in which they will be ruled.
    fn ripen(&mut self, ended: &[u64]) -> Vec<Located> {
        let mut judge = Vec::new();
        for index in ended {
            let Some(choice) = self.choices.get_mut(index) else {
                continue;
            };
            choice.finished = true;
            // `function_call` is last, as in a whole response.
            choice
                .held
                .sort_by_key(|held| (held.call.form() == Form::Legacy, held.order));
            fault_nameless(choice.held.iter_mut().map(|held| &mut held.call));
            for (position, held) in choice.held.iter().enumerate() {
                let pointer = pointer(*index, held.call.form(), position);
                judge.push(held.call.located(pointer));
            }
        }
        judge
    }

    /// The chunk without calls, with the notes behind the text of their choices; `None` where nothing is left of it.
    fn written(
        &self,
        mut event: Event,
        document: &Document,
        notes: &BTreeMap<u64, String>,
    ) -> Result<Option<Bytes>, Malformed> {
        let root = document.root();
        let choices = array(root, "choices")?;
        let mut splice = Splice::new(document);
        let mut empty = !choices.is_empty() && says_nothing(root);
        for (position, node) in choices.iter().enumerate() {
            let index = choice_index(document, node, position)?;
            empty &= is_only_calls(node);
            if let Some(delta) = present(node, "delta") {
                let held = |key: &str| CALLS.contains(&key) && present(delta, key).is_some();
                if CALLS.into_iter().any(held) {
                    splice.remove_members(delta, held);
                }
                if let (Some((said, content)), Some(note)) = (text(delta), notes.get(&index)) {
                    splice.replace_text(content, &note::after(said, note));
                }
            }
            let reason = node.get("finish_reason");
            if self.choices.get(&index).is_some_and(|c| c.emptied)
                && let Some(reason) = reason.filter(|r| r.as_str().is_some_and(names_calls))
            {
                splice.replace_text(reason, "stop");
            }
        }
        if empty && !splice.is_empty() {
            return Ok(None);
        }
        event.data = Some(String::from_utf8(splice.finish().into()).map_err(|_| unwritable())?);
        Ok(Some(encoded(event)?))
    }
}

impl ResponseReader for Reader {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Event(mut event) = frame else {
            return Err(misframed());
        };
        if self.state == State::Over {
            return Ok(Step::default());
        }
        match event.data.take() {
            Some(data) if !matches!(data.trim(), "" | "[DONE]") => self.chunk(event, data),
            data => {
                let done = data.as_ref().is_some_and(|data| !data.trim().is_empty());
                event.data = data;
                if done {
                    self.done(event)
                } else {
                    passed(event)
                }
            }
        }
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let pending = self.pending.take().ok_or_else(unwritable)?;
        let mut ripe = Vec::new();
        for index in &pending.ripe {
            if let Some(choice) = self.choices.get_mut(index) {
                ripe.push((*index, std::mem::take(&mut choice.held)));
            }
        }
        let calls = ripe.iter().map(|(_, held)| held.len()).sum();
        let fates = fates(calls, decision)?;
        let mut send = Vec::new();
        let mut left_for_chunk = BTreeMap::new();
        let mut rest = &fates[..];
        for (index, held) in &ripe {
            let (own, others) = rest.split_at_checked(held.len()).ok_or_else(unwritable)?;
            rest = others;
            let Some(choice) = self.choices.get_mut(index) else {
                continue;
            };
            if let Some(note) = notes(own).filter(|_| self.rules.note) {
                if says_something(pending.document.as_ref(), *index)? {
                    left_for_chunk.insert(*index, note);
                } else {
                    send.push(choice.note(&note)?);
                }
            }
            choice.release(held, own, &mut send)?;
        }
        match pending.document {
            Some(document) => {
                send.extend(self.written(pending.event, &document, &left_for_chunk)?);
            }
            None => send.push(encoded(pending.event)?),
        }
        Ok(send)
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        if self.choices.values().any(|choice| !choice.held.is_empty()) {
            return Err(Malformed {
                code: "upstream_truncated",
                message: "the stream ended before its calls were whole".to_owned(),
            });
        }
        Ok(Step::default())
    }
}

impl Choice {
    /// Takes what a chunk says of this choice; gives how many calls it opens.
    fn absorb(&mut self, document: &Document, index: u64, node: &Node) -> Result<usize, Malformed> {
        exact_keys(node, &["index", "message", "delta", "finish_reason"])?;
        no_calls_in(node, "message")?;
        let Some(delta) = present(node, "delta") else {
            return Ok(0);
        };
        must_be_object(delta)?;
        exact_keys(delta, &["content", "tool_calls", "function_call"])?;
        let before = self.held.len();
        let legacy = present(delta, "function_call");
        let fragments = array(delta, "tool_calls")?;
        if self.finished && (legacy.is_some() || !fragments.is_empty()) {
            return Err(invalid_response("a call comes after the end of its choice"));
        }
        let mut touched = None;
        for fragment in fragments {
            let fragment = Fragment::of_tool_call(document, fragment)?;
            touched = Some(self.take(fragment, touched));
        }
        if let Some(node) = legacy {
            let fragment = Fragment::of_legacy(document, node)?;
            let known = self.held.iter_mut().find(|h| h.call.form() == Form::Legacy);
            match known {
                Some(held) => held.call.extend(fragment),
                None => self.open(fragment),
            }
        }
        self.said |= text(delta).is_some();
        if before == 0 && !self.held.is_empty() {
            self.head = head(document, index);
        }
        Ok(self.held.len() - before)
    }

    /// Finds the call that a fragment belongs to, and gives its place. `touched`: the call that the fragment before it in
    /// the same chunk went to.
    fn take(&mut self, fragment: Fragment<'_>, touched: Option<usize>) -> usize {
        let last = |is: &dyn Fn(&Held) -> bool| {
            let tools = |held: &Held| held.call.form() != Form::Legacy;
            self.held.iter().rposition(|held| tools(held) && is(held))
        };
        let known = match (fragment.index, fragment.id) {
            (Some(index), Some(id)) => last(&|h| h.index == Some(index) && h.call.is(id))
                .or_else(|| last(&|h| h.index == Some(index) && h.call.id.is_none())),
            (Some(index), None) => last(&|h| h.index == Some(index)),
            (None, Some(id)) => last(&|h| h.call.is(id)).or_else(|| {
                last(&|_| true).filter(|at| self.held.get(*at).is_some_and(|h| h.call.id.is_none()))
            }),
            // Without index and id, another call shows in another name, or in a second fragment within one chunk.
            (None, None) => last(&|_| true).filter(|at| {
                let same = |known: &String| fragment.name.is_none_or(|name| name == known);
                let name = self.held.get(*at).and_then(|held| held.call.name.as_ref());
                touched != Some(*at) && name.is_none_or(same)
            }),
        };
        if let Some(at) = known
            && let Some(held) = self.held.get_mut(at)
        {
            held.call.extend(fragment);
            return at;
        }
        self.open(fragment);
        self.held.len() - 1
    }

    fn open(&mut self, fragment: Fragment<'_>) {
        let before = self.held.last().map_or(0, |held| held.order);
        self.held.push(Held {
            index: fragment.index,
            order: fragment.index.unwrap_or(before),
            call: Call::new(fragment),
        });
    }

    fn note(&self, note: &str) -> Result<Bytes, Malformed> {
        let text = if self.said {
            format!("\n\n{note}")
        } else {
            note.to_owned()
        };
        let mut delta = Object::default();
        delta.text("content", &text);
        self.made(&delta.finish())
    }

    fn release(
        &mut self,
        held: &[Held],
        fates: &[Fate],
        send: &mut Vec<Bytes>,
    ) -> Result<(), Malformed> {
        let mut survivors = 0;
        for (held, fate) in held.iter().zip(fates) {
            let Fate::Release(stored) = fate else {
                continue;
            };
            let stored = stored.as_ref().map(|args| held.call.stored_text(args));
            let stored = stored.map(|text| text.ok_or_else(unwritable)).transpose()?;
            let text = stored.as_ref().unwrap_or(&held.call.text);
            send.push(self.made(&held.call.opening(survivors))?);
            if !text.is_empty() {
                send.push(self.made(&held.call.content(survivors, text))?);
            }
            survivors += 1;
        }
        self.emptied |= survivors == 0 && !held.is_empty();
        Ok(())
    }

    /// A chunk of this choice with this delta.
    fn made(&self, delta: &[u8]) -> Result<Bytes, Malformed> {
        let data = [&self.head, delta, &br#","finish_reason":null}]}"#[..]].concat();
        encoded(Event {
            data: Some(String::from_utf8(data).map_err(|_| unwritable())?),
            ..Event::default()
        })
    }
}

fn head(document: &Document, index: u64) -> Vec<u8> {
    let mut chunk = Object::default();
    for key in REPEATED {
        let value = document.root().get(key).map(|node| document.raw(node));
        if let Some(raw) = value.filter(|raw| raw.len() <= REPEATED_MAX) {
            chunk.raw(key, &raw);
        }
    }
    chunk.open("choices", &format!(r#"[{{"index":{index},"delta":"#))
}

/// The text that a delta says, if it says any.
fn text(delta: &Node) -> Option<(&str, &Node)> {
    let content = delta.get("content")?;
    let said = content.as_str().filter(|said| !said.is_empty())?;
    Some((said, content))
}

/// Whether the chunk has text of this choice.
fn says_something(document: Option<&Document>, wanted: u64) -> Result<bool, Malformed> {
    let Some(document) = document else {
        return Ok(false);
    };
    for (position, node) in array(document.root(), "choices")?.iter().enumerate() {
        let says = node.get("delta").and_then(text).is_some();
        if says && choice_index(document, node, position)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a chunk has nothing besides its choices that another chunk does not say.
fn says_nothing(chunk: &Node) -> bool {
    chunk.members().iter().all(|member| {
        let key = &*member.key;
        REPEATED.contains(&key)
            || matches!(key, "choices" | "obfuscation")
            || member.value.is_null()
    })
}

/// Whether nothing of a choice is left without its calls.
fn is_only_calls(choice: &Node) -> bool {
    choice.members().iter().all(|member| match &*member.key {
        "index" => true,
        "delta" => member
            .value
            .members()
            .iter()
            .all(|member| CALLS.contains(&&*member.key) || member.value.is_null()),
        _ => member.value.is_null(),
    })
}
