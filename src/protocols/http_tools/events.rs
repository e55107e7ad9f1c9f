//! A tool's answer that comes in events: each is judged as it comes, alone and as the continuation of those before it.

use bytes::Bytes;

use super::response::{found, looks_like_json, ruled, strict};
use crate::guard::Decision;
use crate::item::{Item, Located, Place, ToolOutput};
use crate::names::ToolName;
use crate::protocols::strict::misframed;
use crate::protocols::texts::{self, Source};
use crate::protocols::{Event, Frame, Framing, Malformed, ResponseReader, Step, note, unwritable};
use crate::verdict::{Ruling, Verdict};
use crate::wire::json::Document;
use crate::wire::splice::Splice;
use crate::wire::sse;

/// Bytes of earlier text that are judged with the next: an instruction is no longer than a few sentences.
const TAIL: usize = 2 << 10;
/// Longest type or id of an event that is taken for a mere name.
const NAME: usize = 64;

/// Reads the events of one answer.
#[derive(Debug)]
pub(super) struct Events {
    source: Source,
    /// The end of what has left, where it was text.
    tail: String,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    event: Event,
    data: Data,
    /// The event's own texts, one after the other.
    text: String,
    /// Whether its type and id are items.
    names: [bool; 2],
    /// Whether it is judged with what came before.
    joined: bool,
}

#[derive(Debug)]
enum Data {
    None,
    Text(String),
    Json(Document),
}

impl Events {
    pub(super) const fn new(tool: Option<ToolName>) -> Self {
        Self {
            source: Source {
                tool,
                call_id: None,
            },
            tail: String::new(),
            held: None,
        }
    }

    fn item(&self, text: String) -> Located {
        Located {
            place: Place::default(),
            item: Item::ToolOutput(ToolOutput {
                tool: self.source.tool.clone(),
                call_id: None,
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
        let own = judge.len();
        match &data {
            Data::None => {}
            Data::Text(text) => judge.push(self.item(text.clone())),
            Data::Json(document) => {
                let found = found(document, &self.source)?;
                judge.extend(found.into_iter().map(|found| found.located));
            }
        }
        let text: String = judge
            .iter()
            .skip(own)
            .filter_map(|located| match &located.item {
                Item::ToolOutput(output) => Some(&*output.text),
                _ => None,
            })
            .collect();
        let joined = !text.is_empty() && !self.tail.is_empty();
        if joined {
            judge.push(self.item(format!("{}{text}", self.tail)));
            judge.push(self.item(format!("{}\n{text}", self.tail)));
        }
        let held = Held {
            event,
            data,
            text,
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

    fn keep(&mut self, text: &str) {
        self.tail.push_str(text);
        let from = self.tail.len().saturating_sub(TAIL);
        let from = self.tail.ceil_char_boundary(from);
        self.tail.drain(..from);
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
            text,
            names,
            joined,
        } = self.held.take().ok_or_else(unwritable)?;
        let mut rulings = &decision.rulings[..];
        for (name, judged) in [&mut event.event, &mut event.id].into_iter().zip(names) {
            if judged && first(&mut rulings)?.verdict != Verdict::Allow {
                *name = None;
            }
        }
        let last = if joined { 2 } else { 0 };
        let (own, last) = rulings
            .len()
            .checked_sub(last)
            .and_then(|own| rulings.split_at_checked(own))
            .ok_or_else(unwritable)?;
        let is_fine = own.iter().all(|ruling| ruling.verdict == Verdict::Allow);
        let before = self.tail.len();
        let split = last.iter().find(|ruling| touches(ruling, before));
        let (data, said) = match split.and_then(|ruling| ruling.verdict.finding()) {
            // An instruction that this event ends.
            Some(finding) if is_fine => (Some(note::withheld(finding.reason)), None),
            _ if is_fine => (plain(data), Some(text)),
            _ => (self.edited(data, own)?, None),
        };
        self.keep(&said.unwrap_or_default());
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
        Verdict::Rewrite(rewrite) => rewrite.edits.iter().any(|(span, _)| span.end > before),
        Verdict::Deny(_) | Verdict::Hold(_) => true,
    }
}

fn written(mut event: Event, data: Option<String>) -> Result<Bytes, Malformed> {
    event.data = data;
    sse::encode(event).map_err(|_| unwritable())
}
