//! A tool's answer that comes in events: each is judged as it comes, alone and as the continuation of those before it.

use std::collections::HashMap;

use bytes::Bytes;

use super::response::{found, looks_like_json, ruled, strict};
use crate::guard::Decision;
use crate::item::{Item, Located, Origin, Place, ToolOutput};
use crate::names::ToolName;
use crate::protocols::strict::misframed;
use crate::protocols::texts::{self, Slot, Source};
use crate::protocols::{Event, Frame, Framing, Malformed, ResponseReader, Step, note, unwritable};
use crate::verdict::{Ruling, Verdict};
use crate::wire::json::Document;
use crate::wire::splice::Splice;
use crate::wire::sse;

/// Bytes of earlier text that are judged with the next: an instruction is no longer than a few sentences.
const TAIL: usize = 2 << 10;
/// Most fields of events whose texts are followed each by itself.
const FIELDS: usize = 64;
/// Longest type or id of an event that is taken for a mere name.
const NAME: usize = 64;

/// Reads the events of one answer.
#[derive(Debug)]
pub(super) struct Events {
    source: Source,
    /// By field, the end of what has left: readers of a stream append what one field brings.
    tails: HashMap<String, String>,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    event: Event,
    data: Data,
    /// The event's own texts with their fields.
    texts: Vec<(String, String)>,
    /// Whether its type and id are items.
    names: [bool; 2],
    /// How much of each joined text came before.
    joined: Vec<usize>,
}

#[derive(Debug)]
enum Data {
    None,
    Text(String),
    Json(Document),
}

impl Events {
    pub(super) fn new(tool: Option<ToolName>) -> Self {
        Self {
            source: Source {
                tool,
                ..Source::default()
            },
            tails: HashMap::new(),
            held: None,
        }
    }

    fn item(&self, text: String) -> Located {
        Located {
            place: Place::default(),
            item: Item::ToolOutput(ToolOutput {
                tool: self.source.tool.clone(),
                call_id: None,
                origin: Origin::Tool,
                text: text.into(),
            }),
        }
    }

    fn take(&mut self, mut event: Event) -> Result<Step, Malformed> {
        let data = data(event.data.take())?;
        let mut judge = Vec::new();
        let names = [&event.event, &event.id].map(|name| {
            let says = name.as_deref().filter(|name| says_something(name));
            judge.extend(says.map(|name| self.item(name.to_owned())));
            says.is_some()
        });
        let mut texts = Vec::new();
        match &data {
            Data::None => {}
            Data::Text(text) => {
                judge.push(self.item(text.clone()));
                texts.push((String::new(), text.clone()));
            }
            Data::Json(document) => {
                for found in found(document, &self.source)? {
                    if let (Slot::Text(..), Item::ToolOutput(output)) =
                        (&found.slot, &found.located.item)
                    {
                        self.add(&mut texts, &found.located.place.pointer, &output.text);
                    }
                    judge.push(found.located);
                }
            }
        }
        let mut joined = Vec::new();
        for (field, text) in &texts {
            let Some(tail) = self.tails.get(field).filter(|tail| !tail.is_empty()) else {
                continue;
            };
            for separator in ["", "\n"] {
                judge.push(self.item(format!("{tail}{separator}{text}")));
                joined.push(tail.len());
            }
        }
        let held = Held {
            event,
            data,
            texts,
            names,
            joined,
        };
        if judge.is_empty() {
            return Ok(Step {
                send: vec![written(held.event, plain(held.data))?],
                judge,
            });
        }
        self.held = Some(held);
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    /// Adds a text to its field. The many fields that an odd stream has share one, so that what is judged again stays small.
    fn add(&self, texts: &mut Vec<(String, String)>, pointer: &str, text: &str) {
        let known = self.tails.contains_key(pointer) || texts.iter().any(|(f, _)| f == pointer);
        let field = if known || self.tails.len() + texts.len() < FIELDS {
            pointer
        } else {
            ""
        };
        match texts.iter_mut().find(|(known, _)| known == field) {
            Some((_, said)) => said.push_str(text),
            None => texts.push((field.to_owned(), text.to_owned())),
        }
    }

    fn keep(&mut self, texts: Vec<(String, String)>) {
        for (field, text) in texts {
            let tail = self.tails.entry(field).or_default();
            tail.push_str(&text);
            let from = tail.ceil_char_boundary(tail.len().saturating_sub(TAIL));
            tail.drain(..from);
        }
    }
}

impl ResponseReader for Events {
    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        match frame {
            Frame::Event(event) => self.take(event),
            Frame::Whole(_) => Err(misframed()),
        }
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let Held {
            mut event,
            data,
            texts,
            names,
            joined,
        } = self.held.take().ok_or_else(unwritable)?;
        let mut rulings = &decision.rulings[..];
        for (name, judged) in [&mut event.event, &mut event.id].into_iter().zip(names) {
            if judged && first(&mut rulings)?.verdict != Verdict::Allow {
                *name = None;
            }
        }
        let (own, last) = rulings
            .len()
            .checked_sub(joined.len())
            .and_then(|own| rulings.split_at_checked(own))
            .ok_or_else(unwritable)?;
        let is_fine = own.iter().all(|ruling| ruling.verdict.says_all());
        let is_plain = own.iter().all(|ruling| ruling.verdict == Verdict::Allow);
        let mut last = last.iter().zip(joined);
        let split = last.find(|(ruling, before)| touches(ruling, *before));
        let data = match split.and_then(|(ruling, _)| ruling.verdict.finding()) {
            // An instruction that this event ends.
            Some(finding) if is_fine => Some(note::withheld(finding.reason)),
            _ if is_fine => {
                self.keep(texts);
                if is_plain {
                    plain(data)
                } else {
                    self.edited(data, own)?
                }
            }
            _ => self.edited(data, own)?,
        };
        Ok(vec![written(event, data)?])
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        if self.held.is_some() {
            return Err(unwritable());
        }
        Ok(Step::default())
    }
}

impl Events {
    fn edited(&self, data: Data, rulings: &[Ruling]) -> Result<Option<String>, Malformed> {
        match data {
            Data::None => Ok(None),
            Data::Text(text) => {
                let ruling = rulings.first().ok_or_else(unwritable)?;
                Ok(Some(ruled(&text, &ruling.verdict)?.unwrap_or(text)))
            }
            Data::Json(document) => {
                let mut splice = Splice::new(&document);
                texts::write(&mut splice, &found(&document, &self.source)?, rulings)?;
                Ok(Some(text_of(&splice.finish())))
            }
        }
    }
}

fn data(data: Option<String>) -> Result<Data, Malformed> {
    let Some(text) = data.filter(|text| !text.is_empty()) else {
        return Ok(Data::None);
    };
    if !looks_like_json(text.as_bytes()) {
        return Ok(Data::Text(text));
    }
    match strict(text.clone().into()) {
        Ok(document) => Ok(Data::Json(document)),
        // Without escapes it says what it shows, such as `[DONE]`.
        Err(_) if !text.contains('\\') => Ok(Data::Text(text)),
        Err(malformed) => Err(malformed),
    }
}

fn plain(data: Data) -> Option<String> {
    match data {
        Data::None => None,
        Data::Text(text) => Some(text),
        Data::Json(document) => Some(text_of(document.bytes())),
    }
}

fn text_of(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn says_something(name: &str) -> bool {
    name.len() > NAME || name.contains(char::is_whitespace)
}

fn first<'r>(rulings: &mut &'r [Ruling]) -> Result<&'r Ruling, Malformed> {
    let (first, rest) = rulings.split_first().ok_or_else(unwritable)?;
    *rulings = rest;
    Ok(first)
}

/// Whether a ruling over joined texts is about what stands from `before` on.
fn touches(ruling: &Ruling, before: usize) -> bool {
    match &ruling.verdict {
        Verdict::Allow => false,
        Verdict::Rewrite(rewrite) => rewrite.removed().any(|span| span.end > before),
        Verdict::Deny(_) | Verdict::Hold(_) => true,
    }
}

fn written(mut event: Event, data: Option<String>) -> Result<Bytes, Malformed> {
    event.data = data;
    sse::encode(event).map_err(|_| unwritable())
}
