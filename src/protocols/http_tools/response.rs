//! A tool's answer that is whole: every text in it is judged.
//!
//! In JSON, also in JSON lines, each string is an item of its own, and so is each distinct key: a key can carry an instruction
//! as well. What is JSON is read as JSON whatever its label says, since its reader will do so. Anything else is one item.
//! Bytes that are not UTF-8 are judged as a lenient reader shows them, so that one stray byte does not carry a text past the
//! guard; those that are no text at all are counted.

use std::sync::Arc;

use bytes::Bytes;

use crate::guard::Decision;
use crate::item::{Item, Located, Origin, Place, ToolOutput};
use crate::names::ToolName;
use crate::protocols::texts::{self, Found, Source, Texts};
use crate::protocols::{
    Frame, Framing, MOST_TEXTS, Malformed, ResponseReader, Step, Unjudged, note, unwritable,
};
use crate::unscanned::Unscanned;
use crate::verdict::Verdict;
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::splice::Splice;

/// What the label of a body promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// One JSON value.
    Json,
    /// A JSON value on each line.
    Lines,
    /// Nothing that binds.
    Other,
}

impl Label {
    /// Of a content type without parameters, in lower case.
    pub(super) fn of(essence: Option<&str>, json: bool) -> Self {
        match essence {
            _ if json => Self::Json,
            Some(
                "application/x-ndjson"
                | "application/ndjson"
                | "application/jsonl"
                | "application/x-jsonlines"
                | "application/jsonlines"
                | "application/json-lines"
                | "application/json-seq",
            ) => Self::Lines,
            _ => Self::Other,
        }
    }
}

/// Reads one answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    source: Source,
    label: Label,
    held: Option<Held>,
    opaque: usize,
    done: bool,
}

#[derive(Debug)]
enum Held {
    Json(Vec<Piece>),
    Text(Bytes, Arc<str>),
}

/// A run of a body.
#[derive(Debug)]
enum Piece {
    /// Line ends and blank lines.
    Between(Bytes),
    /// A value.
    Json(Document),
}

impl Answer {
    pub(super) const fn new(tool: Option<ToolName>, label: Label) -> Self {
        Self {
            source: Source {
                tool,
                call_id: None,
                origin: Origin::Tool,
            },
            label,
            held: None,
            opaque: 0,
            done: false,
        }
    }

    fn found<'d>(&self, pieces: &'d [Piece]) -> Result<Vec<Vec<Found<'d>>>, Malformed> {
        let mut count = 0;
        pieces
            .iter()
            .map(|piece| {
                let found = match piece {
                    Piece::Between(_) => Vec::new(),
                    Piece::Json(document) => found(document, &self.source)?,
                };
                count += found.len();
                if count > MOST_TEXTS {
                    return Err(Malformed {
                        code: "upstream_too_large",
                        message: format!("The answer has more than {MOST_TEXTS} texts."),
                    });
                }
                Ok(found)
            })
            .collect()
    }

    fn json(&mut self, bytes: Bytes, pieces: Vec<Piece>) -> Result<Step, Malformed> {
        let judge: Vec<_> = self
            .found(&pieces)?
            .into_iter()
            .flatten()
            .map(|found| found.located)
            .collect();
        if judge.is_empty() {
            return Ok(Step {
                send: vec![bytes],
                judge,
            });
        }
        self.held = Some(Held::Json(pieces));
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
        self.opaque = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
        let judge = vec![whole_text(&text, bytes.len(), &self.source)];
        self.held = Some(Held::Text(bytes, text));
        Step {
            send: Vec::new(),
            judge,
        }
    }

    fn pieces(&self, bytes: &Bytes) -> Result<Option<Vec<Piece>>, Malformed> {
        match self.label {
            Label::Json => Ok(Some(vec![Piece::Json(strict(bytes.clone())?)])),
            Label::Lines => lines(bytes).map(Some),
            Label::Other if !looks_like_json(bytes) => Ok(None),
            Label::Other => Ok(match strict(bytes.clone()) {
                Ok(document) => Some(vec![Piece::Json(document)]),
                Err(_) => lines(bytes).ok(),
            }),
        }
    }
}

/// A text that is a whole body.
fn whole_text(text: &Arc<str>, bytes: usize, source: &Source) -> Located {
    Located {
        place: Place {
            pointer: String::new(),
            span: Some(0..bytes),
        },
        item: Item::ToolOutput(ToolOutput {
            tool: source.tool.clone(),
            call_id: None,
            origin: Origin::Tool,
            text: Arc::clone(text),
        }),
    }
}

/// Every text of a JSON value.
pub(super) fn found<'d>(
    document: &'d Document,
    source: &Source,
) -> Result<Vec<Found<'d>>, Malformed> {
    let mut texts = Texts::default();
    texts.leaves(document.root(), &mut String::new(), source, true);
    texts.finish("upstream_too_large")
}

/// Whether a reader would take this for JSON that has texts in it.
pub(super) fn looks_like_json(bytes: &[u8]) -> bool {
    let first = bytes.trim_ascii_start().first().copied();
    matches!(first, Some(b'{' | b'[' | b'"' | SEPARATOR))
}

/// A strict JSON value of an answer.
pub(super) fn strict(bytes: Bytes) -> Result<Document, Malformed> {
    Document::read(bytes, BODY_DEPTH).map_err(|error| Malformed {
        code: "upstream_invalid_response",
        message: format!("The tool's answer is not strict JSON: {error}."),
    })
}

/// Begins a value in a JSON text sequence (RFC 7464).
const SEPARATOR: u8 = 0x1e;

/// A value on each line that is not blank.
fn lines(bytes: &Bytes) -> Result<Vec<Piece>, Malformed> {
    let mut pieces = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let separators = line.iter().take_while(|b| **b == SEPARATOR).count();
        let (before, value) = line.split_at_checked(separators).unwrap_or((line, b""));
        for part in [before, value] {
            let part = bytes.slice_ref(part);
            if part.trim_ascii().is_empty() || part.iter().all(|b| *b == SEPARATOR) {
                pieces.push(Piece::Between(part));
            } else {
                pieces.push(Piece::Json(strict(part)?));
            }
        }
    }
    Ok(pieces)
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
        if bytes.is_empty() {
            return Ok(self.text(bytes));
        }
        match self.pieces(&bytes)? {
            Some(pieces) => self.json(bytes, pieces),
            None => Ok(self.text(bytes)),
        }
    }

    fn resolve(&mut self, decision: &Decision) -> Result<Vec<Bytes>, Malformed> {
        match self.held.take() {
            None => Err(early()),
            Some(Held::Text(bytes, text)) => {
                let ruling = decision.rulings.first().ok_or_else(early)?;
                // To clean the text of bytes that are none would break them.
                if self.opaque > 0 && ruling.verdict.says_all() {
                    return Ok(vec![bytes]);
                }
                let new = ruled(&text, &ruling.verdict)?;
                Ok(vec![new.map_or(bytes, Bytes::from)])
            }
            Some(Held::Json(pieces)) => {
                let mut rulings = &decision.rulings[..];
                let mut out = Vec::with_capacity(pieces.len());
                for (piece, found) in pieces.iter().zip(self.found(&pieces)?) {
                    let (own, rest) = rulings
                        .split_at_checked(found.len())
                        .ok_or_else(unwritable)?;
                    rulings = rest;
                    out.push(match piece {
                        Piece::Between(bytes) => bytes.clone(),
                        Piece::Json(document) => {
                            let mut splice = Splice::new(document);
                            texts::write(&mut splice, &found, own)?;
                            splice.finish()
                        }
                    });
                }
                Ok(out)
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

    fn unjudged(&self) -> Unjudged {
        Unjudged::of(Unscanned::Binary, self.opaque)
    }
}

fn early() -> Malformed {
    Malformed {
        code: "upstream_invalid_response",
        message: "The tool's answer was not read whole.".to_owned(),
    }
}

/// The text that the verdict leaves; `None` where it is unchanged.
pub(super) fn ruled(text: &str, verdict: &Verdict) -> Result<Option<String>, Malformed> {
    let new = match verdict {
        Verdict::Allow => return Ok(None),
        Verdict::Deny(finding) => Some(note::withheld(finding.reason)),
        Verdict::Rewrite(rewrite) => rewrite.apply(text),
        Verdict::Hold(_) => None,
    };
    new.map(Some).ok_or_else(unwritable)
}
