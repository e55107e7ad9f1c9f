//! Streamed responses: text goes through at once, but for what of it is judged; calls are held until their choice ends, then leave in canonical form:
//! one delta that opens the call, one with its whole text.

mod choice;
mod chunk;
mod pieces;
mod texts;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use choice::Choice;
use texts::Texts;

use super::call::choice_index;
use super::render::names_calls;
use super::stray;
use super::{Rules, exact_keys, invalid_response, misframed, present, unwritable};
use crate::guard::Decision;
use crate::item::Located;
use crate::protocols::calls::check_held;
use crate::protocols::fates::{Fate, fates_before};
use crate::protocols::passed::{encoded, passed};
use crate::protocols::strict::{array, must_be_object};
use crate::protocols::{Event, Frame, Framing, Malformed, ResponseReader, Step};
use crate::verdict::Ruling;
use crate::wire::json::{BODY_DEPTH, Document, Node};
use crate::wire::splice::Splice;

/// Keys of a delta that are held.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// Reads a stream of chunks.
pub(super) struct Reader {
    rules: Arc<Rules>,
    /// A rule asks what clients would fetch or follow in the text.
    renders: bool,
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

/// An event that waits for the rulings over the calls in it, and over those of the choices that it ends.
struct Pending {
    /// Without data where there is a document; `None`: the stream has ended.
    event: Option<Event>,
    /// The event's chunk; `None` for `[DONE]`.
    document: Option<Document>,
    /// How many items are calls where nobody expects them; they come first.
    strays: usize,
    /// Choices that have ended.
    ripe: Vec<u64>,
    /// How many items are calls of these.
    held: usize,
    /// The calls of each sealed choice among them.
    sealed: Vec<Range<usize>>,
    /// Text that leaves with it; its pieces are the last items.
    texts: Texts,
}

/// What is written into a chunk.
#[derive(Default)]
struct Rulings<'f> {
    /// For each choice of the chunk, by position: what becomes of the calls where nobody expects them.
    strays: Vec<&'f [Fate]>,
    /// Behind the text of a choice, by its index.
    notes: BTreeMap<u64, String>,
    /// The strings of each choice's text, by position, where a rule asks.
    texts: Vec<Vec<String>>,
}

impl Rulings<'_> {
    /// The string that is all of a delta's text, as it leaves.
    fn said<'s>(&'s self, position: usize, delta: &'s Node) -> Option<&'s str> {
        let own = delta.get("content")?.as_str()?;
        match self.texts.get(position) {
            Some(strings) => strings.first().map(|said| &**said),
            None => Some(own),
        }
        .filter(|said| !said.is_empty())
    }

    /// Whether the chunk has text of this choice in one string.
    fn says(&self, document: &Document, wanted: u64) -> Result<bool, Malformed> {
        for (position, node) in array(document.root(), "choices")?.iter().enumerate() {
            let delta = present(node, "delta");
            let says = delta.is_some_and(|delta| self.said(position, delta).is_some());
            if says && choice_index(document, node, position)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Reader {
    pub const fn new(rules: Arc<Rules>, renders: bool) -> Self {
        Self {
            rules,
            renders,
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
        stray::none_in(root, &stray::OF_RESPONSE)?;
        let wrapped = &self.rules.route.wrapped;
        let mut judge = Vec::new();
        let mut ripe = Vec::new();
        for (position, node) in array(root, "choices")?.iter().enumerate() {
            let index = choice_index(&document, node, position)?;
            let choice = self.choices.entry(index);
            let choice = choice.or_insert_with(|| Choice::new(self.renders));
            let (strays, opened) = choice.absorb(&document, index, node, self.calls)?;
            self.calls += strays.len() + opened;
            judge.extend(strays.iter().map(|stray| stray.located(&document, wrapped)));
            // Some backends send an empty reason until there is one.
            let reason = node.get("finish_reason").and_then(|reason| reason.as_str());
            if reason.is_some_and(|reason| !reason.is_empty()) && !ripe.contains(&index) {
                ripe.push(index);
            }
        }
        let held = self.choices.values().map(Choice::size).sum();
        check_held(self.calls, held, self.rules.held)?;
        let texts = Texts::read(&mut self.choices, &document, &ripe)?;
        if root.get("error").is_some_and(chunk::is_error) {
            self.state = State::Over;
            self.choices.clear();
            ripe.clear();
        }
        self.step(Some(event), Some(document), judge, texts, ripe)
    }

    /// `event`: the one that says so, if any.
    fn done(&mut self, event: Option<Event>) -> Result<Step, Malformed> {
        self.state = State::Over;
        let ripe: Vec<_> = self.choices.keys().copied().collect();
        let texts = Texts::rest(&mut self.choices, &ripe);
        self.step(event, None, Vec::new(), texts, ripe)
    }

    /// Waits for rulings where there is anything to rule, and passes the event on otherwise.
    fn step(
        &mut self,
        event: Option<Event>,
        document: Option<Document>,
        mut judge: Vec<Located>,
        texts: Texts,
        ripe: Vec<u64>,
    ) -> Result<Step, Malformed> {
        let strays = judge.len();
        let mut sealed = Vec::new();
        for index in &ripe {
            if let Some(choice) = self.choices.get_mut(index) {
                let from = judge.len();
                judge.extend(choice.ended(*index, &self.rules.route.wrapped));
                if choice.is_sealed() {
                    sealed.push(from..judge.len());
                }
            }
        }
        let held = judge.len() - strays;
        judge.extend(texts.located());
        let pending = Pending {
            event,
            document,
            strays,
            ripe,
            held,
            sealed,
            texts,
        };
        let mut step = Step {
            send: Vec::new(),
            judge,
        };
        if step.judge.is_empty() {
            step.send = self.release(pending, &[], &[])?;
        } else {
            self.pending = Some(pending);
        }
        Ok(step)
    }

    /// Sends what was held, by what becomes of each call and the rulings over texts, and then the event.
    fn release(
        &mut self,
        pending: Pending,
        fates: &[Fate],
        texts: &[Ruling],
    ) -> Result<Vec<Bytes>, Malformed> {
        let (stray_fates, mut rest) = fates
            .split_at_checked(pending.strays)
            .ok_or_else(unwritable)?;
        let document = pending.document.as_ref();
        let mut rulings = Rulings::default();
        if let Some(document) = document {
            rulings.strays = self.strayed(document, stray_fates)?;
        }
        let mut send = Vec::new();
        let texts = &mut texts.iter();
        rulings.texts = pending.texts.written(&mut self.choices, texts, &mut send)?;
        if texts.next().is_some() {
            return Err(unwritable());
        }
        for index in &pending.ripe {
            let says = document.map_or(Ok(false), |document| rulings.says(document, *index))?;
            let Some(choice) = self.choices.get_mut(index) else {
                continue;
            };
            let held = choice.take_held();
            let (own, others) = rest.split_at_checked(held.len()).ok_or_else(unwritable)?;
            rest = others;
            let note = choice.note(own);
            let dropped = note.is_some();
            if let Some(note) = note.filter(|_| self.rules.route.note) {
                if says {
                    rulings.notes.insert(*index, note);
                } else {
                    send.push(choice.note_chunk(&note)?);
                }
            }
            choice.release(&held, own, &self.rules.route.wrapped, &mut send)?;
            if dropped {
                choice.dropped();
            }
        }
        match (pending.event, &pending.document) {
            (Some(event), Some(document)) => {
                send.extend(self.written(event, document, &rulings)?);
            }
            (Some(event), None) => send.push(encoded(event)?),
            (None, _) => {}
        }
        Ok(send)
    }

    /// Tells the choices of a chunk what becomes of their calls where nobody expects them; gives it for each choice.
    fn strayed<'f>(
        &mut self,
        document: &Document,
        fates: &'f [Fate],
    ) -> Result<Vec<&'f [Fate]>, Malformed> {
        let mut rest = fates;
        let mut all = Vec::new();
        for (position, node) in array(document.root(), "choices")?.iter().enumerate() {
            if rest.is_empty() {
                break;
            }
            let index = choice_index(document, node, position)?;
            let delta = present(node, "delta");
            let strays = delta.map_or_else(Vec::new, |delta| stray::find(index, delta));
            let (own, others) = rest.split_at_checked(strays.len()).ok_or_else(unwritable)?;
            rest = others;
            all.push(own);
            if let Some(choice) = self.choices.get_mut(&index) {
                let gone = stray::gone(&strays, own);
                let left = strays.iter().filter(|stray| !gone.contains(stray.member));
                choice.strayed(own, left.count());
            }
        }
        Ok(all)
    }

    /// The chunk without what is held or dropped, with the notes behind the text of their choices; `None` where nothing is
    /// left of it.
    fn written(
        &self,
        mut event: Event,
        document: &Document,
        rulings: &Rulings<'_>,
    ) -> Result<Option<Bytes>, Malformed> {
        let root = document.root();
        let choices = array(root, "choices")?;
        let wrapped = &self.rules.route.wrapped;
        let mut splice = Splice::new(document);
        let mut empty = !choices.is_empty() && chunk::says_nothing(root);
        for (position, node) in choices.iter().enumerate() {
            let index = choice_index(document, node, position)?;
            let mut gone = Vec::from(CALLS);
            if let Some(delta) = present(node, "delta") {
                if let Some(fates) = rulings.strays.get(position) {
                    let strays = stray::find(index, delta);
                    gone.extend(stray::write(
                        &mut splice,
                        document,
                        &strays,
                        fates,
                        wrapped,
                    )?);
                }
                let said = rulings.said(position, delta);
                // All of it waits.
                if said.is_none() && chunk::text(delta).is_some() {
                    gone.push("content");
                }
                let goes = |key: &str| gone.contains(&key) && present(delta, key).is_some();
                if gone.iter().any(|key| goes(key)) {
                    splice.remove_members(delta, goes);
                }
                let note = rulings.notes.get(&index);
                if !gone.contains(&"content") {
                    let strings = rulings.texts.get(position).map(Vec::as_slice);
                    texts::write(&mut splice, delta, strings, note.map(|note| &**note));
                }
            }
            empty &= chunk::is_only(node, |key| gone.contains(&key));
            let reason = node.get("finish_reason");
            if self.choices.get(&index).is_some_and(Choice::is_emptied)
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
                    self.done(Some(event))
                } else {
                    passed(event)
                }
            }
        }
    }

    fn held(&self) -> usize {
        let pending = self.pending.as_ref().and_then(|p| p.document.as_ref());
        let choices = self.choices.values();
        let choices: usize = choices.map(|choice| choice.size() + choice.waits()).sum();
        choices + pending.map_or(0, |document| document.bytes().len())
    }

    fn together(&self) -> Vec<Range<usize>> {
        let pending = self.pending.as_ref();
        pending.map_or_else(Vec::new, |pending| pending.sealed.clone())
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let pending = self.pending.take().ok_or_else(unwritable)?;
        let (fates, texts) = fates_before(pending.strays + pending.held, decision)?;
        self.release(pending, &fates, texts)
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        if self.choices.values().any(Choice::holds) {
            return Err(Malformed {
                code: "upstream_truncated",
                message: "the stream ended before its calls were whole".to_owned(),
            });
        }
        if self.choices.values().any(|choice| choice.waits() > 0) {
            return self.done(None);
        }
        Ok(Step::default())
    }
}
