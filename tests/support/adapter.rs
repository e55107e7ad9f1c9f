//! Runs an adapter without a proxy, with a closure in place of the guard.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use holdpoint::guard::{Decision, refuse_together};
use holdpoint::item::{Item, Located, ModelText};
use holdpoint::layers::egress::{Entry, Rendered, Rule};
use holdpoint::names::RuleId;
use holdpoint::policy::PolicyHash;
use holdpoint::protocols::{Frame, Framing, Malformed, Protocol, Request, ResponseReader, Step};
use holdpoint::verdict::{Finding, LayerId, Reason, Rewrite, RewriteKind, Ruling, Verdict};
use holdpoint::wire::json::{BODY_DEPTH, Document};
use holdpoint::wire::sse::Decoder;
use proptest::prelude::*;

pub const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream; charset=utf-8";

pub fn request(method: &str, path: &str, body: &str) -> Request {
    let mut builder = http::Request::builder().method(method).uri(path);
    if !body.is_empty() {
        builder = builder.header("content-type", JSON);
    }
    let body = Bytes::copy_from_slice(body.as_bytes());
    let json = Document::read(body.clone(), BODY_DEPTH).ok();
    Request {
        parts: builder.body(()).unwrap().into_parts().0,
        body,
        json,
    }
}

pub fn finding(reason: Reason) -> Finding {
    Finding {
        layer: LayerId::Ownership,
        rule: RuleId::from("test"),
        reason,
        argument: None,
        detail: Cow::Borrowed(""),
    }
}

pub fn deny(reason: Reason) -> Verdict {
    Verdict::Deny(finding(reason))
}

/// As the guard does: what cannot be read is refused, the rest as `judge` says.
pub fn decision(items: &[Located], judge: &dyn Fn(&Located) -> Verdict) -> Decision {
    let rulings = items.iter().map(|located| Ruling {
        place: located.place.clone(),
        verdict: match &located.item {
            Item::Unreadable(_) => deny(Reason::ArgumentsUnreadable),
            _ => judge(located),
        },
        opinions: Vec::new(),
    });
    Decision::new(PolicyHash(Arc::from("test")), rulings.collect())
}

/// What came of a response.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sent: Vec<u8>,
    pub judged: Vec<Located>,
}

impl Outcome {
    pub fn text(&self) -> String {
        String::from_utf8(self.sent.clone()).unwrap()
    }
}

pub type Decide<'a> = &'a dyn Fn(&[Located]) -> Decision;

/// A response to `asked` that comes in these pieces.
pub fn respond(
    adapter: &dyn Protocol,
    asked: &Request,
    status: u16,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let head = http::Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let reader = adapter.response(asked, &head)?;
    driven(reader, pieces, decide)
}

/// The same where a rule asks what clients would fetch or follow in the text.
pub fn rendered(
    adapter: &dyn Protocol,
    asked: &Request,
    content_type: &str,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let head = http::Response::builder().header("content-type", content_type);
    let head = head.body(()).unwrap().into_parts().0;
    driven(adapter.rendered_response(asked, &head)?, pieces, decide)
}

/// What a rule says of a piece of text that lets links to `shop.example` and images of `img.example` pass.
pub fn shown(piece: &ModelText) -> Verdict {
    let rule = |host: &str| {
        let mut rule = Rule::new();
        rule.allow(Entry::read(host).unwrap());
        rule
    };
    let rules = Rendered {
        images: rule("img.example"),
        links: rule("shop.example"),
    };
    match rules.neutralised(piece) {
        None => Verdict::Allow,
        Some((_, edits)) => Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            edits: edits
                .into_iter()
                .map(|(range, text)| (range, text.into()))
                .collect(),
            finding: finding(Reason::HostNotAllowed),
        }),
    }
}

/// Text with what a client would fetch or follow, what only looks so, and parts of both.
pub fn markup() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "![a](https://evil.example/x)",
        "[b](https://evil.example/x)",
        "[b](https://shop.example/)",
        "<img src=//evil.example/1>",
        "https://evil.example/y",
        "[r]: https://evil.example/\n",
        "![r]",
        "`",
        "```\n",
        "\n",
        "\n\n",
        "<a href='",
        "'>",
        "[",
        "]",
        "](",
        "!",
        "htt",
        "//evil.example/z",
        "&#104;ttps://evil.example",
        "wow é ☃ ",
        " ",
    ]);
    prop::collection::vec(fragment, 0..6).prop_map(|fragments| fragments.concat())
}

fn driven(
    mut reader: Box<dyn ResponseReader>,
    pieces: &[Bytes],
    decide: Decide<'_>,
) -> Result<Outcome, Malformed> {
    let mut outcome = Outcome::default();
    match reader.framing() {
        Framing::Whole => {
            let body = Bytes::from(pieces.concat());
            let step = reader.push(Frame::Whole(body))?;
            outcome.take(reader.as_mut(), step, decide)?;
        }
        Framing::Events => {
            let mut decoder = Decoder::new(1 << 20);
            for piece in pieces {
                for event in decoder.push(piece.clone()).unwrap() {
                    let step = reader.push(Frame::Event(event))?;
                    outcome.take(reader.as_mut(), step, decide)?;
                }
            }
        }
    }
    let step = reader.finish()?;
    outcome.take(reader.as_mut(), step, decide)?;
    Ok(outcome)
}

impl Outcome {
    /// As the proxy does.
    fn take(
        &mut self,
        reader: &mut dyn ResponseReader,
        step: Step,
        decide: Decide<'_>,
    ) -> Result<(), Malformed> {
        self.sent.extend(step.send.concat());
        if !step.judge.is_empty() {
            let mut decision = decide(&step.judge);
            let done: Vec<_> = decision.receipts.iter().map(|receipt| receipt.0).collect();
            for group in reader.together() {
                refuse_together(&mut decision.rulings, &group, &done);
            }
            self.judged.extend(step.judge);
            self.sent.extend(reader.resolve(&decision)?.concat());
        }
        Ok(())
    }
}
