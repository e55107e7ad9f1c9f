//! Unstreamed responses: one frame, edited in place.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::call::{Call, Form, Fragment, choice_index, fault_nameless, is_sealed};
use super::render::names_calls;
use super::shown::{self, Shown};
use super::stray::{self, Stray};
use super::{Rules, exact_keys, invalid_response, misframed, present, unwritable};
use crate::guard::Decision;
use crate::protocols::calls::check_held;
use crate::protocols::fates::{Fate, fates_before, notes, one_fate};
use crate::protocols::rendered::{Text, check_pieces};
use crate::protocols::strict::{array, must_be_object};
use crate::protocols::{Frame, Framing, Malformed, ResponseReader, Step, note};
use crate::settings::ModelRoute;
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::splice::{Splice, quote};

/// Reads the body of a response that is not a stream.
pub(super) struct Reader {
    rules: Arc<Rules>,
    /// A rule asks what clients would fetch or follow in the text.
    renders: bool,
    judged: Option<Document>,
    /// The text of each choice, where a rule asks.
    shown: Vec<Shown>,
    /// The calls of each sealed choice, among the items.
    sealed: Vec<Range<usize>>,
}

impl Reader {
    pub const fn new(rules: Arc<Rules>, renders: bool) -> Self {
        Self {
            rules,
            renders,
            judged: None,
            shown: Vec::new(),
            sealed: Vec::new(),
        }
    }
}

impl ResponseReader for Reader {
    fn framing(&self) -> Framing {
        Framing::Whole
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Whole(body) = frame else {
            return Err(misframed());
        };
        let document = Document::read(body, BODY_DEPTH).map_err(|error| {
            invalid_response(format!("the response is not strict JSON: {error}"))
        })?;
        let choices = choices(&document)?;
        let calls = || choices.iter().flat_map(|choice| &choice.calls);
        check_held(
            choices.iter().map(Choice::count).sum(),
            calls().map(|p| p.call.size()).sum(),
            self.rules.held,
        )?;
        let wrapped = &self.rules.route.wrapped;
        let mut judge = Vec::new();
        for choice in &choices {
            let from = judge.len();
            let calls = choice.calls.iter();
            judge.extend(calls.map(|p| p.call.located(p.pointer(choice), wrapped)));
            // What nobody expects is no part of the turn that is sealed.
            if is_sealed(choice.message) {
                self.sealed.push(from..judge.len());
            }
            let strays = choice.strays.iter();
            judge.extend(strays.map(|stray| stray.located(&document, wrapped)));
        }
        if self.renders {
            self.shown = choices.iter().map(Choice::shown).collect();
            check_pieces(self.shown.iter().map(Shown::pieces).sum())?;
            let shown = choices.iter().zip(&self.shown);
            judge.extend(shown.flat_map(|(choice, shown)| shown.located(choice.index)));
        }
        if judge.is_empty() {
            return Ok(Step {
                send: vec![document.bytes().clone()],
                judge,
            });
        }
        self.judged = Some(document);
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    fn together(&self) -> Vec<Range<usize>> {
        self.sealed.clone()
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let document = self.judged.take().ok_or_else(unwritable)?;
        let choices = choices(&document)?;
        let count = choices.iter().map(Choice::count).sum();
        let (fates, rulings) = fates_before(count, decision)?;
        let mut rulings = rulings.iter();
        for sealed in &self.sealed {
            one_fate(fates.get(sealed.clone()).ok_or_else(unwritable)?)?;
        }
        let mut splice = Splice::new(&document);
        let mut rest = &fates[..];
        let mut shown = self.shown.iter();
        for choice in &choices {
            let (own, others) = rest
                .split_at_checked(choice.count())
                .ok_or_else(unwritable)?;
            let said = match shown.next() {
                Some(shown) => choice.said(&shown.written(&mut rulings)?),
                None => Vec::new(),
            };
            choice.edit(&mut splice, &document, own, &said, &self.rules.route)?;
            rest = others;
        }
        match rulings.next() {
            None => Ok(vec![splice.finish()]),
            Some(_) => Err(unwritable()),
        }
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        Ok(Step::default())
    }
}

struct Choice<'d> {
    index: u64,
    node: &'d Node,
    message: &'d Node,
    calls: Vec<Proposal<'d>>,
    /// Calls where nobody expects them.
    strays: Vec<Stray<'d>>,
}

struct Proposal<'d> {
    /// The element of `tool_calls`, or the `function_call`.
    node: &'d Node,
    /// Where it stands in `tool_calls`.
    position: usize,
    call: Call,
}

impl Proposal<'_> {
    fn pointer(&self, choice: &Choice<'_>) -> String {
        pointer(choice.index, self.call.form(), self.position)
    }
}

/// Where a call stands: the same words for a whole response and a stream, as if a choice held its calls itself.
pub(super) fn pointer(choice: u64, form: Form, position: usize) -> String {
    match form {
        Form::Legacy => format!("/choices/{choice}/function_call"),
        Form::Function | Form::Custom => format!("/choices/{choice}/tool_calls/{position}"),
    }
}

/// Refuses calls where this kind of response has none: a client may look there all the same.
pub(super) fn no_calls_in(choice: &Node, key: &str) -> Result<(), Malformed> {
    let Some(node) = present(choice, key) else {
        return Ok(());
    };
    let calls = ["tool_calls", "function_call"];
    if calls.iter().any(|key| present(node, key).is_some()) || !stray::find(0, node).is_empty() {
        return Err(invalid_response(format!(
            "calls stand in `{key}`, where none can be"
        )));
    }
    Ok(())
}

fn choices(document: &Document) -> Result<Vec<Choice<'_>>, Malformed> {
    let root = document.root();
    must_be_object(root)?;
    exact_keys(root, &["choices"])?;
    stray::none_in(root, &stray::OF_RESPONSE)?;
    let mut choices = Vec::new();
    for (position, node) in array(root, "choices")?.iter().enumerate() {
        let index = choice_index(document, node, position)?;
        exact_keys(node, &["index", "message", "delta", "finish_reason"])?;
        no_calls_in(node, "delta")?;
        stray::none_in(node, &stray::OF_CHOICE)?;
        if choices
            .iter()
            .any(|choice: &Choice<'_>| choice.index == index)
        {
            return Err(invalid_response("two choices have the same index"));
        }
        let Some(message) = present(node, "message") else {
            continue;
        };
        must_be_object(message)?;
        stray::none_as(message)?;
        exact_keys(message, &["content", "tool_calls", "function_call"])?;
        let mut calls = Vec::new();
        for (position, node) in array(message, "tool_calls")?.iter().enumerate() {
            calls.push(Proposal {
                node,
                position,
                call: Call::new(Fragment::of_tool_call(document, node)?),
            });
        }
        if let Some(node) = present(message, "function_call") {
            calls.push(Proposal {
                node,
                position: 0,
                call: Call::new(Fragment::of_legacy(document, node)?),
            });
        }
        fault_nameless(calls.iter_mut().map(|proposal| &mut proposal.call));
        choices.push(Choice {
            index,
            node,
            message,
            calls,
            strays: stray::find(index, message),
        });
    }
    Ok(choices)
}

impl<'d> Choice<'d> {
    fn count(&self) -> usize {
        self.calls.len() + self.strays.len()
    }

    fn shown(&self) -> Shown {
        let mut text = Text::default();
        let mut shown = Shown::read(&mut text, self.message);
        shown.end(&mut text);
        shown
    }

    /// The strings of its text that change.
    fn said(&self, written: &[String]) -> Vec<(&'d Node, String)> {
        let strings = shown::strings(self.message).into_iter().zip(written);
        strings
            .filter(|(string, written)| string.as_str() != Some(written))
            .map(|(string, written)| (string, written.clone()))
            .collect()
    }

    /// `said`: strings of its text that change.
    fn edit(
        &self,
        splice: &mut Splice<'_>,
        document: &Document,
        fates: &[Fate],
        said: &[(&Node, String)],
        route: &ModelRoute,
    ) -> Result<(), Malformed> {
        let (fates, stray_fates) = fates
            .split_at_checked(self.calls.len())
            .ok_or_else(unwritable)?;
        let strays = &self.strays;
        let lost = stray::write(splice, document, strays, stray_fates, &route.wrapped)?;
        let mut dropped = Vec::new();
        let mut survivors = strays.iter().filter(|s| !lost.contains(s.member)).count();
        let mut legacy_dropped = false;
        for (proposal, fate) in self.calls.iter().zip(fates) {
            let legacy = proposal.call.form() == Form::Legacy;
            match fate {
                Fate::Drop(_) if legacy => legacy_dropped = true,
                Fate::Drop(_) => dropped.push(proposal.position),
                Fate::Release(stored) => {
                    let position = proposal.position.saturating_sub(dropped.len());
                    let stored = stored.as_ref();
                    let wrapped = &route.wrapped;
                    let stored = stored.map(|args| proposal.call.stored_text(args, wrapped));
                    let stored = stored.map(|text| text.ok_or_else(unwritable));
                    proposal.edit(splice, position, stored.transpose()?.as_deref());
                    survivors += 1;
                }
            }
        }
        let content = self.message.get("content");
        let is_content = |node: &Node| content.is_some_and(|content| std::ptr::eq(content, node));
        let note = notes(stray_fates.iter().chain(fates)).filter(|_| route.note);
        // What the note stands behind is written with it.
        let others = said
            .iter()
            .filter(|(node, _)| note.is_none() || !is_content(node));
        for (node, text) in others.filter(|_| !lost.contains("content")) {
            splice.replace_text(node, text);
        }
        if dropped.is_empty() && !legacy_dropped && lost.is_empty() {
            return Ok(());
        }
        let tools = self.message.get("tool_calls");
        let all = tools.is_some_and(|tools| tools.elements().len() == dropped.len());
        let mut gone: Vec<&str> = lost.into_iter().collect();
        match tools {
            Some(_) if all && !dropped.is_empty() => gone.push("tool_calls"),
            Some(tools) => splice.remove_elements(tools, |i| dropped.contains(&i)),
            None => {}
        }
        if legacy_dropped {
            gone.push("function_call");
        }
        if let Some(note) = note {
            let said = said.iter().find(|(node, _)| is_content(node));
            self.add_note(splice, &mut gone, said.map(|(_, text)| &**text), &note);
        }
        splice.remove_members(self.message, |key| gone.contains(&key));
        let reason = self.node.get("finish_reason");
        if survivors == 0
            && let Some(reason) = reason.filter(|r| r.as_str().is_some_and(names_calls))
        {
            splice.replace_text(reason, "stop");
        }
        Ok(())
    }

    /// Puts the note after the content, which `said` is where it changes, or in the place of a member that goes.
    fn add_note(
        &self,
        splice: &mut Splice<'_>,
        gone: &mut Vec<&str>,
        said: Option<&str>,
        note: &str,
    ) {
        let content = self.message.get("content");
        if let Some(content) = content.filter(|_| !gone.contains(&"content")) {
            if let Some(own) = content.as_str() {
                let said = said.unwrap_or(own);
                splice.replace_text(content, &note::after(said, note));
            } else if content.is_null() {
                splice.replace_text(content, note);
            } else if let Kind::Array(_) = content.kind {
                let part = json!({"type": "text", "text": note}).to_string();
                splice.add_element(content, part.as_bytes());
            }
            return;
        }
        let mut members = self.message.members().iter();
        match members.find(|member| gone.contains(&&*member.key)) {
            Some(member) => {
                gone.retain(|key| *key != &*member.key);
                splice.replace_member(member, "content", &quote(note));
            }
            None => splice.add_member(self.message, "content", &quote(note)),
        }
    }
}

impl Proposal<'_> {
    fn edit(&self, splice: &mut Splice<'_>, position: usize, stored: Option<&str>) {
        let form = self.call.form();
        if let Some(index) = present(self.node, "index").filter(|_| position != self.position) {
            splice.replace(index, position.to_string());
        }
        let Some(stored) = stored else {
            return;
        };
        let body = match form {
            Form::Legacy => Some(self.node),
            Form::Function | Form::Custom => self.node.get(form.key()),
        };
        let Some(body) = body else {
            return;
        };
        match body.get(form.text_key()) {
            Some(text) => splice.replace_text(text, stored),
            None => splice.add_member(body, form.text_key(), &quote(stored)),
        }
    }
}
