//! A tool's answer: every text in it is judged.
//!
//! In JSON each string is an item of its own, and so is each distinct key: a key can carry an instruction as well. Anything
//! else is one item, whatever its label says. Bytes that are not UTF-8 are judged as a lenient reader shows them, so that one
//! stray byte does not carry a text past the guard.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::unwritable;
use crate::guard::Decision;
use crate::item::{Item, Located, Place, ToolOutput};
use crate::names::ToolName;
use crate::protocols::{Frame, Framing, MOST_TEXTS, Malformed, ResponseReader, Step, note};
use crate::verdict::Verdict;
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::splice::{Splice, quote};

/// Reads one answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    tool: Option<ToolName>,
    json: bool,
    held: Option<Held>,
    done: bool,
}

#[derive(Debug)]
enum Held {
    Json(Document, Vec<Spot>),
    Text(Bytes, Arc<str>),
}

/// Where one judged text stands: a key may stand in many places.
#[derive(Debug)]
struct Spot {
    text: Arc<str>,
    spans: Vec<Range<usize>>,
    is_key: bool,
}

impl Answer {
    pub(super) const fn new(tool: Option<ToolName>, json: bool) -> Self {
        Self {
            tool,
            json,
            held: None,
            done: false,
        }
    }

    fn located(&self, pointer: String, span: Range<usize>, text: &Arc<str>) -> Located {
        Located {
            place: Place {
                pointer,
                span: Some(span),
            },
            item: Item::ToolOutput(ToolOutput {
                tool: self.tool.clone(),
                call_id: None,
                text: Arc::clone(text),
            }),
        }
    }

    fn json(&mut self, bytes: Bytes) -> Result<Step, Malformed> {
        let document = Document::read(bytes, BODY_DEPTH).map_err(|error| Malformed {
            code: "upstream_invalid_response",
            message: format!("The tool's answer is not strict JSON: {error}."),
        })?;
        let mut found = Found::default();
        found.walk(document.root(), &mut String::new());
        if found.spots.len() > MOST_TEXTS {
            return Err(Malformed {
                code: "upstream_too_large",
                message: format!("The tool's answer has more than {MOST_TEXTS} texts."),
            });
        }
        if found.spots.is_empty() {
            return Ok(Step {
                send: vec![document.bytes().clone()],
                judge: Vec::new(),
            });
        }
        let judge = found
            .spots
            .iter()
            .zip(found.pointers)
            .filter_map(|(spot, pointer)| {
                let span = spot.spans.first()?.clone();
                Some(self.located(pointer, span, &spot.text))
            })
            .collect();
        self.held = Some(Held::Json(document, found.spots));
        Ok(Step {
            send: Vec::new(),
            judge,
        })
    }

    fn text(&mut self, bytes: Bytes) -> Step {
        if bytes.is_empty() {
            return Step {
                send: vec![bytes],
                judge: Vec::new(),
            };
        }
        let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
        let judge = vec![self.located(String::new(), 0..bytes.len(), &text)];
        self.held = Some(Held::Text(bytes, text));
        Step {
            send: Vec::new(),
            judge,
        }
    }
}

impl ResponseReader for Answer {
    fn framing(&self) -> Framing {
        Framing::Whole
    }

    fn push(&mut self, frame: Frame) -> Result<Step, Malformed> {
        let Frame::Whole(bytes) = frame else {
            return Err(early());
        };
        self.done = true;
        if self.json && !bytes.is_empty() {
            self.json(bytes)
        } else {
            Ok(self.text(bytes))
        }
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        let verdicts = || decision.rulings.iter().map(|ruling| &ruling.verdict);
        match self.held.take() {
            None => Err(early()),
            Some(Held::Text(bytes, text)) => {
                let verdict = verdicts().next().ok_or_else(early)?;
                let new = ruled(&text, verdict)?;
                Ok(vec![new.map_or(bytes, Bytes::from)])
            }
            Some(Held::Json(document, spots)) => {
                if decision.rulings.len() != spots.len() {
                    return Err(early());
                }
                Ok(vec![written(&document, &spots, verdicts())?])
            }
        }
    }

    fn finish(&mut self) -> Result<Step, Malformed> {
        if self.done && self.held.is_none() {
            Ok(Step::default())
        } else {
            Err(early())
        }
    }
}

fn early() -> Malformed {
    Malformed {
        code: "upstream_invalid_response",
        message: "The tool's answer was not read whole.".to_owned(),
    }
}

/// The text that the verdict leaves; `None` where it is unchanged.
fn ruled(text: &str, verdict: &Verdict) -> Result<Option<String>, Malformed> {
    let new = match verdict {
        Verdict::Allow => return Ok(None),
        Verdict::Deny(finding) => Some(note::withheld(finding.reason)),
        Verdict::Rewrite(rewrite) => rewrite.apply(text),
        Verdict::Hold(_) => None,
    };
    new.map(Some).ok_or_else(unwritable)
}

fn written<'v>(
    document: &Document,
    spots: &[Spot],
    verdicts: impl Iterator<Item = &'v Verdict>,
) -> Result<Bytes, Malformed> {
    let mut splice = Splice::new(document);
    for (index, (spot, verdict)) in spots.iter().zip(verdicts).enumerate() {
        let Some(mut new) = ruled(&spot.text, verdict)? else {
            continue;
        };
        if spot.is_key {
            // Keys of one object stay distinct.
            new = format!("{new} #{index}");
        }
        for span in &spot.spans {
            splice.replace_span(span.clone(), quote(&new));
        }
    }
    Ok(splice.finish())
}

#[derive(Debug, Default)]
struct Found {
    spots: Vec<Spot>,
    pointers: Vec<String>,
    keys: HashMap<Box<str>, usize>,
}

impl Found {
    fn walk(&mut self, node: &Node, at: &mut String) {
        let length = at.len();
        match &node.kind {
            Kind::String(text) if !text.is_empty() => {
                self.add(text, node.span.clone(), at, false);
            }
            Kind::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    Place::push_step(at, &index.to_string());
                    self.walk(element, at);
                    at.truncate(length);
                }
            }
            Kind::Object(members) => {
                for member in members {
                    Place::push_step(at, &member.key);
                    self.key(&member.key, member.key_span.clone(), at);
                    self.walk(&member.value, at);
                    at.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn key(&mut self, key: &str, span: Range<usize>, at: &str) {
        if key.is_empty() {
            return;
        }
        if let Some(spot) = self
            .keys
            .get(key)
            .and_then(|index| self.spots.get_mut(*index))
        {
            spot.spans.push(span);
            return;
        }
        self.keys.insert(key.into(), self.spots.len());
        self.add(key, span, at, true);
    }

    fn add(&mut self, text: &str, span: Range<usize>, at: &str, is_key: bool) {
        // One more tells that there are too many.
        if self.spots.len() > MOST_TEXTS {
            return;
        }
        self.spots.push(Spot {
            text: text.into(),
            spans: vec![span],
            is_key,
        });
        self.pointers.push(at.to_owned());
    }
}
