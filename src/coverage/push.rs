//! One canary on its way through an adapter.

use std::sync::Arc;

use data_encoding::BASE64;

use crate::guard::Decision;
use crate::item::{Item, Located};
use crate::names::RuleId;
use crate::policy::PolicyHash;
use crate::protocols::canary::{Answer, Canary, Fate, HALVES, ItemKind, MARK, Message, Sample};
use crate::protocols::{Frame, Framing, Malformed, Protocol, Request, Step, Unjudged, Written};
use crate::proxy;
use crate::unscanned::Unscanned;
use crate::verdict::{Finding, LayerId, Reason, Ruling, Verdict};
use crate::wire::sse;

/// Largest canary.
const LIMIT: usize = 1 << 20;

/// What is wrong with a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The adapter cannot read or write its own canary.
    #[error("the adapter refuses its own message: {0}")]
    Unreadable(String),
    /// The message passes with the mark in it, and no layer gets to see it.
    #[error("it comes out of no item, so no layer can judge it")]
    NotJudged,
    /// An item of another kind.
    #[error("it comes out as another kind of item")]
    OtherKind,
    /// The item was denied, and the mark is still in what is sent.
    #[error("it is still there after its item was denied")]
    NotRendered,
    /// All was allowed, and the mark does not arrive.
    #[error("it does not arrive though nothing was denied")]
    Lost,
    /// It passes and its bytes are not counted under its reason, or under another one.
    #[error("its bytes are not counted as `{0}`")]
    NotCounted(&'static str),
    /// It should have been refused, and was read.
    #[error("it is not refused")]
    NotRefused,
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Unreadable(malformed.message)
    }
}

/// Whether the canary's fate is what it says.
pub(super) fn push(protocol: &dyn Protocol, canary: &Canary) -> Result<(), Fault> {
    let run = |deny: bool| match &canary.message {
        Message::Request(sample) => request(protocol, sample, deny),
        Message::Answer(answer) => response(protocol, answer, deny),
    };
    match canary.fate {
        Fate::Refused(code) => match run(false) {
            Err(malformed) if malformed.code == code => Ok(()),
            Err(malformed) => Err(malformed.into()),
            Ok(_) => Err(Fault::NotRefused),
        },
        Fate::Passed(reason) => {
            let passed = run(false)?;
            if !passed.marked.is_empty() {
                return Err(Fault::OtherKind);
            }
            if !passed.shows_mark() {
                return Err(Fault::Lost);
            }
            // The other reasons are what is left of a message: the proxy counts them.
            let told = [
                Unscanned::Binary,
                Unscanned::Sealed,
                Unscanned::ProviderResult,
            ];
            let counted: Vec<_> = passed.unjudged.iter().map(|(reason, _)| reason).collect();
            if told.contains(&reason) != counted.contains(&reason) {
                return Err(Fault::NotCounted(reason.as_str()));
            }
            Ok(())
        }
        Fate::Judged(kind) => {
            let allowed = run(false)?;
            if allowed.marked.is_empty() {
                return Err(Fault::NotJudged);
            }
            if !allowed.marked.contains(&kind) {
                return Err(Fault::OtherKind);
            }
            // What cannot be read is refused by the guard itself.
            if kind != ItemKind::Unreadable && !allowed.shows_mark() {
                return Err(Fault::Lost);
            }
            if run(true)?.shows_mark() {
                return Err(Fault::NotRendered);
            }
            Ok(())
        }
    }
}

/// What came of a message.
#[derive(Default)]
struct Outcome {
    /// Kinds of the items that have the mark.
    marked: Vec<ItemKind>,
    /// All that would be sent on, or answered instead.
    sent: Vec<u8>,
    /// What the adapter says passes without a text.
    unjudged: Unjudged,
}

impl Outcome {
    fn shows_mark(&self) -> bool {
        let text = String::from_utf8_lossy(&self.sent);
        let coded = BASE64.encode(MARK.as_bytes());
        [HALVES.0, HALVES.1, &coded]
            .into_iter()
            .any(|mark| text.contains(mark))
    }

    /// Denies the items with the mark, or nothing.
    fn decide(&mut self, items: &[Located], deny: bool) -> Decision {
        let rulings = items.iter().map(|located| {
            // A provider's tool may have no text of its own: it is the request that must not go.
            let marked =
                matches!(located.item, Item::ProviderTool(_)) || text(&located.item).contains(MARK);
            if marked {
                self.marked.push(ItemKind::of(&located.item));
            }
            Ruling {
                place: located.place.clone(),
                verdict: if marked && deny {
                    denial()
                } else {
                    Verdict::Allow
                },
                opinions: Vec::new(),
            }
        });
        Decision::new(PolicyHash(Arc::from("")), rulings.collect())
    }
}

fn denial() -> Verdict {
    Verdict::Deny(Finding {
        layer: LayerId::Catalog,
        rule: RuleId::from("coverage"),
        reason: Reason::Undecided,
        argument: None,
        detail: "a canary".into(),
    })
}

fn request(protocol: &dyn Protocol, sample: &Sample, deny: bool) -> Result<Outcome, Malformed> {
    let mut outcome = Outcome::default();
    let request = read(sample)?;
    let items = protocol.read(&request)?;
    let address = protocol.address(&request);
    outcome.unjudged = protocol.unjudged(&request, &items);
    let decision = outcome.decide(&items, deny);
    match protocol.write(request, &decision)? {
        Written::Forward(request) => {
            outcome.sent.extend(request.parts.uri.to_string().bytes());
            for value in request.parts.headers.values() {
                outcome.sent.extend(value.as_bytes());
            }
            outcome.sent.extend(&request.body);
        }
        Written::Refuse(refusal) => {
            let answer = protocol.refuse(&refusal, address.as_ref());
            outcome.sent.extend(answer.body());
        }
        Written::Ask(answer, _) => outcome.sent.extend(answer.body()),
        Written::Replay(receipt) => outcome.sent.extend(&receipt.body),
    }
    Ok(outcome)
}

fn read(sample: &Sample) -> Result<Request, Malformed> {
    proxy::read(sample.parts.clone(), sample.body.clone()).map_err(|refused| Malformed {
        code: refused.code,
        message: refused.message.clone(),
    })
}

fn response(protocol: &dyn Protocol, answer: &Answer, deny: bool) -> Result<Outcome, Malformed> {
    let mut outcome = Outcome::default();
    let request = read(&answer.to)?;
    let head = http::Response::builder()
        .status(answer.status)
        .header(http::header::CONTENT_TYPE, answer.media_type)
        .body(())
        .map_err(|error| invalid(error.to_string()))?;
    let head = head.into_parts().0;
    let mut reader = if answer.is_rendered {
        protocol.rendered_response(&request, &head)?
    } else {
        protocol.response(&request, &head)?
    };
    let frames = match reader.framing() {
        Framing::Whole => vec![Frame::Whole(answer.body.clone())],
        Framing::Events => sse::Decoder::new(LIMIT)
            .push(answer.body.clone())
            .map_err(|error| invalid(error.to_string()))?
            .into_iter()
            .map(Frame::Event)
            .collect(),
    };
    let mut steps = frames.into_iter().map(Some).collect::<Vec<_>>();
    steps.push(None);
    for frame in steps {
        let Step { send, judge } = match frame {
            Some(frame) => reader.push(frame)?,
            None => reader.finish()?,
        };
        for bytes in &send {
            outcome.sent.extend(bytes);
        }
        if !judge.is_empty() {
            let decision = outcome.decide(&judge, deny);
            for bytes in reader.resolve(&decision)? {
                outcome.sent.extend(bytes);
            }
        }
    }
    outcome.unjudged = reader.unjudged();
    Ok(outcome)
}

fn invalid(message: String) -> Malformed {
    Malformed {
        code: "upstream_invalid_response",
        message,
    }
}

/// All that layers see of an item.
fn text(item: &Item) -> String {
    match item {
        Item::Definition(definition) => format!("{}\n{}", definition.tool, definition.text),
        Item::ToolOutput(output) => output.text.to_string(),
        Item::ToolCall(call) => {
            format!("{}\n{}", call.tool, String::from_utf8_lossy(&call.args.raw))
        }
        Item::Unreadable(call) => call.tool.to_string(),
        Item::ProviderTool(tool) => format!("{} {:?}", tool.kind, tool.server),
        Item::ModelText(text) => text.text.to_string(),
        Item::Egress(target) => target.authority.to_string(),
    }
}
