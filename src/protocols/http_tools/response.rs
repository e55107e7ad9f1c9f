//! A tool's answer: every text in it is judged.
//!
//! In JSON each string is an item of its own, and so is each distinct key: a key can carry an instruction as well. Anything
//! else is one item, whatever its label says. Bytes that are not UTF-8 are judged as a lenient reader shows them, so that one
//! stray byte does not carry a text past the guard.

use std::sync::Arc;

use bytes::Bytes;

use crate::guard::Decision;
use crate::item::{Item, Located, Place, ToolOutput};
use crate::names::ToolName;
use crate::protocols::texts::{self, Found, Source, Texts};
use crate::protocols::{Frame, Framing, Malformed, ResponseReader, Step, note, unwritable};
use crate::verdict::Verdict;
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::splice::Splice;

/// Reads one answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    source: Source,
    json: bool,
    held: Option<Held>,
    done: bool,
}

#[derive(Debug)]
enum Held {
    Json(Document),
    Text(Bytes, Arc<str>),
}

impl Answer {
    pub(super) const fn new(tool: Option<ToolName>, json: bool) -> Self {
        Self {
            source: Source {
                tool,
                call_id: None,
            },
            json,
            held: None,
            done: false,
        }
    }

    fn found<'d>(&self, document: &'d Document) -> Result<Vec<Found<'d>>, Malformed> {
        let mut texts = Texts::default();
        texts.leaves(document.root(), &mut String::new(), &self.source, true);
        texts.finish("upstream_too_large")
    }

    fn json(&mut self, bytes: Bytes) -> Result<Step, Malformed> {
        let document = Document::read(bytes, BODY_DEPTH).map_err(|error| Malformed {
            code: "upstream_invalid_response",
            message: format!("The tool's answer is not strict JSON: {error}."),
        })?;
        let judge: Vec<_> = self
            .found(&document)?
            .into_iter()
            .map(|found| found.located)
            .collect();
        if judge.is_empty() {
            return Ok(Step {
                send: vec![document.bytes().clone()],
                judge,
            });
        }
        self.held = Some(Held::Json(document));
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
        let judge = vec![Located {
            place: Place {
                pointer: String::new(),
                span: Some(0..bytes.len()),
            },
            item: Item::ToolOutput(ToolOutput {
                tool: self.source.tool.clone(),
                call_id: None,
                text: Arc::clone(&text),
            }),
        }];
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
        match self.held.take() {
            None => Err(early()),
            Some(Held::Text(bytes, text)) => {
                let ruling = decision.rulings.first().ok_or_else(early)?;
                let new = ruled(&text, &ruling.verdict)?;
                Ok(vec![new.map_or(bytes, Bytes::from)])
            }
            Some(Held::Json(document)) => {
                let mut splice = Splice::new(&document);
                texts::write(&mut splice, &self.found(&document)?, &decision.rulings)?;
                Ok(vec![splice.finish()])
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
