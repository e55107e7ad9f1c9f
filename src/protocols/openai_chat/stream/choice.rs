//! One choice of a stream: which call each fragment belongs to, and the chunks that its calls leave in.

use bytes::Bytes;

use super::super::call::{Call, Form, Fragment, fault_nameless, is_sealed};
use super::super::stray::{self, Stray};
use super::super::whole::{no_calls_in, pointer};
use super::super::{exact_keys, invalid_response, present, unwritable};
use super::chunk::text;
use super::pieces::Pieces;
use crate::item::Located;
use crate::protocols::calls::check_count;
use crate::protocols::fates::{Fate, notes, one_fate};
use crate::protocols::object::Object;
use crate::protocols::passed::encoded;
use crate::protocols::rendered::Text;
use crate::protocols::strict::{array, must_be_object};
use crate::protocols::{Event, Malformed};
use crate::settings::Wrapped;
use crate::wire::json::{Document, Node};

/// Members of a chunk that every chunk of a stream repeats, and so do those that are made here.
pub(super) const REPEATED: [&str; 7] = [
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

/// Most fragments of calls in one delta: backends send one, or one for each call.
const MAX_FRAGMENTS: usize = 1024;

/// Whether a choice has ended.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Ended,
    /// It had calls and none was released.
    Emptied,
}

#[derive(Default)]
pub(super) struct Choice {
    /// Its text, where a rule asks what clients would fetch or follow in it.
    text: Option<Text>,
    /// Some text of it has left.
    said: bool,
    end: End,
    /// Calls that were released, in any form.
    released: usize,
    /// What became of those that were dropped where nobody expects calls: told when the choice ends.
    lost: Vec<Fate>,
    /// Its calls stand or fall together.
    sealed: bool,
    /// Some of its calls were released and some were not.
    divided: bool,
    /// How chunks of it start, up to the delta.
    head: Vec<u8>,
    held: Vec<Held>,
    /// Calls in pieces where nobody expects them.
    pieces: Pieces,
}

pub(super) struct Held {
    /// As the upstream counts; several calls may claim one index.
    index: Option<u64>,
    /// For sorting: the index, or that of the call before.
    order: u64,
    call: Call,
}

impl Choice {
    /// `renders`: a rule asks what clients would fetch or follow in the text.
    pub fn new(renders: bool) -> Self {
        Self {
            text: renders.then(Text::default),
            ..Self::default()
        }
    }

    /// Its text, where a rule asks.
    pub const fn text(&mut self) -> Option<&mut Text> {
        self.text.as_mut()
    }

    /// Bytes of text that wait.
    pub fn waits(&self) -> usize {
        self.text.as_ref().map_or(0, Text::held)
    }

    /// Text that waited, in a chunk of its own.
    pub fn text_chunk(&mut self, text: &str) -> Result<Bytes, Malformed> {
        self.said = true;
        let mut delta = Object::default();
        delta.text("content", text);
        self.made(&delta.finish())
    }

    /// Some text of it leaves.
    pub const fn says(&mut self) {
        self.said = true;
    }

    /// Takes what a chunk says of this choice; gives the calls that stand where nobody expects them, and how many of the others
    /// it opens. `before`: those that the stream has had before.
    pub fn absorb<'d>(
        &mut self,
        document: &'d Document,
        index: u64,
        node: &'d Node,
        before: usize,
    ) -> Result<(Vec<Stray<'d>>, usize), Malformed> {
        exact_keys(node, &["index", "message", "delta", "finish_reason"])?;
        no_calls_in(node, "message")?;
        stray::none_in(node, &stray::OF_CHOICE)?;
        let Some(delta) = present(node, "delta") else {
            return Ok((Vec::new(), 0));
        };
        must_be_object(delta)?;
        exact_keys(delta, &["content", "tool_calls", "function_call"])?;
        let known = self.held.len();
        let legacy = present(delta, "function_call");
        let fragments = array(delta, "tool_calls")?;
        if fragments.len() > MAX_FRAGMENTS {
            return Err(Malformed {
                code: "upstream_too_large",
                message: format!("a chunk has more than {MAX_FRAGMENTS} fragments of calls"),
            });
        }
        let strays = stray::find(index, delta);
        self.pieces.take(delta)?;
        let calls = legacy.is_some() || !fragments.is_empty() || !strays.is_empty();
        if self.end != End::Open && calls {
            return Err(invalid_response("a call comes after the end of its choice"));
        }
        let mut touched = None;
        for fragment in fragments {
            let fragment = Fragment::of_tool_call(document, fragment)?;
            touched = Some(self.take(fragment, touched));
            // Each fragment is looked for among all that are held, so there may not be many.
            check_count(before + self.held.len() - known)?;
        }
        if let Some(node) = legacy {
            let fragment = Fragment::of_legacy(document, node)?;
            let legacy = self.held.iter_mut().find(|h| h.call.form() == Form::Legacy);
            match legacy {
                Some(held) => held.call.extend(fragment),
                None => self.open(fragment),
            }
        }
        self.said |= self.text.is_none() && text(delta).is_some();
        self.sealed |= is_sealed(delta);
        if self.sealed && self.divided {
            return Err(invalid_response(
                "a seal over calls comes after the end of their choice",
            ));
        }
        if (calls || self.text.is_some()) && self.head.is_empty() {
            self.head = head(document, index);
        }
        Ok((strays, self.held.len() - known))
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

    /// Bytes that it holds back.
    pub fn size(&self) -> usize {
        self.held.iter().map(|held| held.call.size()).sum()
    }

    /// Whether its calls stand or fall together.
    pub const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether calls of it wait.
    pub const fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// It has ended: its calls, in the order in which they will be ruled.
    pub fn ended(&mut self, index: u64, wrapped: &[Wrapped]) -> Vec<Located> {
        if self.end == End::Open {
            self.end = End::Ended;
        }
        // `function_call` is last, as in a whole response.
        self.held
            .sort_by_key(|held| (held.call.form() == Form::Legacy, held.order));
        fault_nameless(self.held.iter_mut().map(|held| &mut held.call));
        let held = self.held.iter().enumerate();
        held.map(|(position, held)| {
            let pointer = pointer(index, held.call.form(), position);
            held.call.located(pointer, wrapped)
        })
        .collect()
    }

    /// What became of calls that stand where nobody expects them, in a member that stays or goes.
    pub fn strayed(&mut self, fates: &[Fate], left: usize) {
        self.released += left;
        let lost = fates.iter().filter(|fate| fate.is_dropped());
        self.lost.extend(lost.cloned());
    }

    /// Its calls, which wait no longer.
    pub fn take_held(&mut self) -> Vec<Held> {
        std::mem::take(&mut self.held)
    }

    /// What is said in place of the calls that were dropped, now that these are ruled as well.
    pub fn note(&mut self, fates: &[Fate]) -> Option<String> {
        let lost = std::mem::take(&mut self.lost);
        notes(lost.iter().chain(fates))
    }

    /// Calls of it were dropped.
    pub fn dropped(&mut self) {
        if self.released == 0 {
            self.end = End::Emptied;
        }
    }

    /// Whether it had calls of which none was released.
    pub fn is_emptied(&self) -> bool {
        self.end == End::Emptied
    }

    /// The note in a chunk of its own.
    pub fn note_chunk(&self, note: &str) -> Result<Bytes, Malformed> {
        let text = if self.said {
            format!("\n\n{note}")
        } else {
            note.to_owned()
        };
        let mut delta = Object::default();
        delta.text("content", &text);
        self.made(&delta.finish())
    }

    /// The calls that are released, in canonical form.
    pub fn release(
        &mut self,
        held: &[Held],
        fates: &[Fate],
        wrapped: &[Wrapped],
        send: &mut Vec<Bytes>,
    ) -> Result<(), Malformed> {
        if self.sealed {
            one_fate(fates)?;
        }
        let mut survivors = 0;
        for (held, fate) in held.iter().zip(fates) {
            let Fate::Release(stored) = fate else {
                continue;
            };
            let stored = stored.as_ref();
            let stored = stored.map(|args| held.call.stored_text(args, wrapped));
            let stored = stored.map(|text| text.ok_or_else(unwritable)).transpose()?;
            let text = stored.as_ref().unwrap_or(&held.call.text);
            send.push(self.made(&held.call.opening(survivors))?);
            if !text.is_empty() {
                send.push(self.made(&held.call.content(survivors, text))?);
            }
            survivors += 1;
        }
        self.released += survivors;
        self.divided |= survivors > 0 && survivors < held.len();
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
