use std::borrow::Cow;

use futures_util::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::guard::{Claim, Outcome, Receipt};
use crate::names::{RuleId, TicketId};
use crate::policy::PolicyHash;
use crate::protocols::{Frame, MOST_TEXTS};
use crate::verdict::{Finding, Hold};
use crate::verdict::{LayerId, Rewrite, RewriteKind, Ruling, Undecided};

fn tool(name: Option<&str>, method: Method, path: &str) -> HttpTool {
    HttpTool::new(name.map(ToolName::from), method, path)
}

fn shop() -> HttpTools {
    HttpTools::new(
        &vec![
            tool(Some("get_order"), Method::GET, "/orders/{order_id}"),
            tool(Some("refund"), Method::POST, "/orders/{order_id}/refund"),
            tool(None, Method::POST, "/tools/{tool}"),
        ]
        .into(),
    )
    .unwrap()
}

fn request(method: Method, uri: &str, body: &str) -> Request {
    let parts = http::Request::builder()
        .method(method)
        .uri(uri)
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let body = Bytes::copy_from_slice(body.as_bytes());
    let json = Document::read(body.clone(), BODY_DEPTH).ok();
    Request { parts, body, json }
}

fn finding(reason: Reason) -> Finding {
    Finding {
        layer: LayerId::Tickets,
        rule: RuleId::from("r"),
        reason,
        argument: None,
        detail: Cow::Borrowed(""),
    }
}

fn decision(verdicts: impl IntoIterator<Item = Verdict>) -> Decision {
    let rulings = verdicts.into_iter().map(|verdict| Ruling {
        place: Place::default(),
        verdict,
        opinions: Vec::new(),
    });
    Decision::new(PolicyHash("p".into()), rulings.collect())
}

struct Stored(TicketId, Bytes);

impl Claim for Stored {
    fn ticket(&self) -> &TicketId {
        &self.0
    }

    fn arguments(&self) -> &Bytes {
        &self.1
    }

    fn finish(self: Box<Self>, _: Outcome) -> BoxFuture<'static, Result<(), Undecided>> {
        Box::pin(async { Ok(()) })
    }
}

fn call(request: &Request) -> Result<(String, Value), &'static str> {
    let items = shop().read(request).map_err(|malformed| malformed.code)?;
    match &items[..] {
        [
            Located {
                item: Item::ToolCall(call),
                ..
            },
        ] => Ok((call.tool.to_string(), call.args.value.clone())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_template_names_tool_and_arguments() {
    let refund = request(
        Method::POST,
        "/orders/A%201/refund?why=late",
        r#"{"amount": 5}"#,
    );
    assert_eq!(
        call(&refund).unwrap(),
        (
            "refund".to_owned(),
            json!({"order_id": "A 1", "why": "late", "amount": 5})
        )
    );
    let named = request(Method::POST, "/tools/send_email", r#"{"to": "a"}"#);
    assert_eq!(
        call(&named).unwrap(),
        ("send_email".to_owned(), json!({"to": "a"}))
    );
    let empty = request(Method::GET, "/orders/1", "");
    assert_eq!(call(&empty).unwrap().1, json!({"order_id": "1"}));
}

#[test]
fn what_no_template_matches_is_refused() {
    for (method, uri) in [
        (Method::DELETE, "/orders/1"),
        (Method::HEAD, "/orders/1"),
        (Method::GET, "/orders"),
        (Method::GET, "/orders/1/"),
        (Method::GET, "/Orders/1"),
    ] {
        let refused = call(&request(method, uri, ""));
        assert_eq!(refused.unwrap_err(), "endpoint_unknown", "{uri}");
    }
    let unnamed = request(Method::POST, "/tools/x", "a=1");
    assert_eq!(call(&unnamed).unwrap_err(), "unsupported_media_type");
}

#[test]
fn a_path_that_a_backend_may_route_elsewhere_is_refused() {
    let desk = HttpTools::new(
        &vec![
            tool(Some("get_order"), Method::GET, "/orders/{order_id}"),
            tool(Some("export"), Method::GET, "/orders/export"),
            tool(Some("pay"), Method::POST, "/Pay"),
            tool(None, Method::POST, "/tools/{tool}"),
        ]
        .into(),
    )
    .unwrap();
    let code = |method, uri| {
        let read = desk.read(&request(method, uri, ""));
        read.map(|items| items.len())
            .map_err(|malformed| malformed.code)
    };
    assert_eq!(code(Method::GET, "/orders/Abc"), Ok(1));
    assert_eq!(code(Method::GET, "/orders/EXPORT"), Err("endpoint_unknown"));
    assert_eq!(
        code(Method::GET, "/orders/export;v=1"),
        Err("argument_unreadable")
    );
    assert_eq!(code(Method::GET, "/orders/a%3Bb"), Ok(1));
    assert_eq!(code(Method::POST, "/Pay"), Ok(1));
    // The tool has a path of its own: an approval of it is for no other.
    assert_eq!(code(Method::POST, "/tools/pay"), Err("endpoint_unknown"));
    assert_eq!(code(Method::POST, "/tools/send"), Ok(1));
}

#[test]
fn the_header_asks_for_a_second_act() {
    let mut twice = request(Method::GET, "/orders/1", "");
    twice
        .parts
        .headers
        .insert("holdpoint-again", HeaderValue::from_static("true"));
    let items = shop().read(&twice).unwrap();
    assert!(matches!(&items[0].item, Item::ToolCall(call) if call.again));
}

#[test]
fn an_allowed_request_keeps_its_bytes_and_a_bound_one_gets_the_stored_arguments() {
    let fresh = || {
        request(
            Method::POST,
            "/orders/1/refund",
            "{ \"amount\": 5.0, \"why\": \"\\u0061\" }",
        )
    };
    let plain = shop().write(fresh(), &decision([Verdict::Allow])).unwrap();
    let Written::Forward(plain) = plain else {
        panic!("forwarded")
    };
    assert_eq!(plain.body, fresh().body);
    let mut redeemed = decision([Verdict::Allow]);
    let stored = Bytes::from_static(br#"{"amount":5,"order_id":"1","why":"a"}"#);
    redeemed
        .claims
        .push((0, Box::new(Stored(TicketId::from("tkt_1"), stored))));
    let Written::Forward(bound) = shop().write(fresh(), &redeemed).unwrap() else {
        panic!("forwarded")
    };
    assert_eq!(&bound.body[..], br#"{"amount":5,"why":"a"}"#);
    assert_eq!(bound.parts.uri.path(), "/orders/1/refund");
}

#[test]
fn a_receipt_is_replayed_and_a_refusal_says_what_lifts_it() {
    let order = || request(Method::GET, "/orders/1", "");
    let receipt = Receipt {
        ticket: TicketId::from("tkt_1"),
        status: 201,
        content_type: None,
        body: Bytes::from_static(b"done"),
        completed_at: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let mut before = decision([Verdict::Allow]);
    before.receipts.push((0, receipt.clone()));
    let written = shop().write(order(), &before).unwrap();
    assert!(matches!(written, Written::Replay(replayed) if replayed == receipt));

    let hold = Verdict::Hold(Hold {
        ticket: Some(TicketId::from("tkt_2")),
        summary: Some("Refund 5".to_owned()),
        expires_at: Some("2026-01-01T00:00:00Z".to_owned()),
        ..Hold::new(finding(Reason::ApprovalRequired))
    });
    let Written::Refuse(refused) = shop().write(order(), &decision([hold])).unwrap() else {
        panic!("refused")
    };
    let answer = shop().refuse(&refused, None);
    assert_eq!(answer.status(), 403);
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(
        body,
        json!({
            "type": "urn:holdpoint:error:approval_required",
            "title": "Forbidden",
            "status": 403,
            "detail": Reason::ApprovalRequired.advice(),
            "error": "approval_required",
            "request_id": "tkt_2",
            "summary": "Refund 5",
            "expires_at": "2026-01-01T00:00:00Z",
            "retry": {"how": "repeat the identical call after the approval", "after_s": 15},
            "tell_user": "This waits for the approval of another person.",
        })
    );

    let busy = Verdict::Deny(finding(Reason::InProgress));
    let Written::Refuse(busy) = shop().write(order(), &decision([busy])).unwrap() else {
        panic!("refused")
    };
    let answer = shop().refuse(&busy, None);
    assert_eq!((answer.status().as_u16(), busy.retry), (409, true));
    assert_eq!(answer.headers()[header::RETRY_AFTER], "1");
}

/// Texts found in an answer, and the bytes after `verdict` was given for each.
fn answer(
    content_type: &str,
    body: &[u8],
    verdict: impl Fn(&str) -> Verdict,
) -> Result<(Vec<String>, Bytes), &'static str> {
    let code = |malformed: Malformed| malformed.code;
    let mut head = http::Response::new(()).into_parts().0;
    if !content_type.is_empty() {
        head.headers
            .insert(header::CONTENT_TYPE, content_type.parse().unwrap());
    }
    let order = request(Method::GET, "/orders/1", "");
    let mut reader = shop().response(&order, &head).map_err(code)?;
    let frame = Frame::Whole(Bytes::copy_from_slice(body));
    let step = reader.push(frame).map_err(code)?;
    let mut texts = Vec::new();
    for located in &step.judge {
        let Item::ToolOutput(output) = &located.item else {
            panic!("{located:?}")
        };
        assert_eq!(output.tool, Some(ToolName::from("get_order")));
        texts.push(output.text.to_string());
    }
    let mut out = step.send;
    if !texts.is_empty() {
        let decision = decision(texts.iter().map(|text| verdict(text)));
        out.extend(reader.resolve(&decision).map_err(code)?);
    }
    assert!(reader.finish().map_err(code)?.judge.is_empty());
    Ok((texts, out.concat().into()))
}

fn redact(text: &str) -> Verdict {
    match text.find("evil") {
        None => Verdict::Allow,
        Some(at) => Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            edits: vec![(at..at + 4, "[x]".into())],
            finding: finding(Reason::InjectionDetected),
        }),
    }
}

#[test]
fn every_text_of_a_json_answer_is_judged_and_edited_in_place() {
    let body = r#"{ "a": [ "ok", {"note": "very \u0065vil"} ], "n": 1e3, "b": [{"note": ""}], "evil key": null }"#;
    let (texts, out) = answer("application/json", body.as_bytes(), redact).unwrap();
    assert_eq!(
        texts,
        ["a", "ok", "note", "very evil", "n", "b", "evil key"]
    );
    assert_eq!(
        std::str::from_utf8(&out).unwrap(),
        r#"{ "a": [ "ok", {"note": "very [x]"} ], "n": 1e3, "b": [{"note": ""}], "[x] key #6": null }"#
    );
    let (_, same) = answer("application/json", body.as_bytes(), |_| Verdict::Allow).unwrap();
    assert_eq!(&same[..], body.as_bytes());
}

#[test]
fn text_is_judged_whatever_its_label() {
    for label in ["text/plain", "text/html", "application/xml", ""] {
        let deny = |_: &str| Verdict::Deny(finding(Reason::InjectionDetected));
        let (texts, out) = answer(label, b"data: evil\n\n", deny).unwrap();
        assert_eq!(texts, ["data: evil\n\n"], "{label}");
        assert_eq!(
            &out[..],
            b"[holdpoint: tool output withheld: injection_detected]"
        );
    }
    let (texts, out) = answer("application/json", b"", redact).unwrap();
    assert!(texts.is_empty() && out.is_empty());
}

#[test]
fn a_stray_byte_takes_no_text_past_the_guard() {
    for (label, body, shown) in [
        ("text/plain", &b"evil \xff"[..], "[x] \u{fffd}"),
        ("text/html", b"caf\xe9 evil", "caf\u{fffd} [x]"),
        ("image/png", b"\x89PNG evil", "\u{fffd}PNG [x]"),
        ("", b"\xc3evil", "\u{fffd}[x]"),
    ] {
        let (_, out) = answer(label, body, redact).unwrap();
        assert_eq!(std::str::from_utf8(&out).unwrap(), shown, "{label}");
    }
    let (texts, out) = answer("image/png", b"\x89PNG\xff", redact).unwrap();
    assert_eq!(texts, ["\u{fffd}PNG\u{fffd}"]);
    assert_eq!(&out[..], b"\x89PNG\xff");
}

#[test]
fn an_answer_that_cannot_be_read_one_way_is_refused() {
    for (label, body) in [
        ("application/json", &b"{\"a\":1,\"a\":2}"[..]),
        ("application/json", b"evil"),
        ("text/plain; charset=utf-16", b"e\0v\0i\0l\0"),
        ("application/xml; charset=utf-7", b"+AGUAdgBpAGw-"),
        (
            "application/octet-stream; charset=\"IBM037\"",
            b"\x85\xa5\x89\x93",
        ),
    ] {
        let refused = answer(label, body, redact).unwrap_err();
        assert_eq!(refused, "upstream_invalid_response");
    }
}

#[test]
fn many_texts_are_refused_and_long_keys_are_not_repeated_for_each() {
    let texts = |count: usize| format!("[{}]", vec!["\"a\""; count].join(","));
    let found = answer("application/json", texts(MOST_TEXTS).as_bytes(), redact);
    assert_eq!(found.unwrap().0.len(), MOST_TEXTS);
    let refused = answer("application/json", texts(MOST_TEXTS + 1).as_bytes(), redact);
    assert_eq!(refused.unwrap_err(), "upstream_too_large");

    let long = format!("{{\"{}\":{}}}", "k".repeat(10_000), texts(10));
    let mut reader = response::Answer::new(None, Label::Json);
    let step = reader.push(Frame::Whole(long.into())).unwrap();
    assert_eq!(step.judge.len(), 11);
    assert!(step.judge.iter().all(|l| l.place.pointer.len() < 100));
}

#[test]
fn templates_that_cannot_work_are_all_named() {
    let bad = [
        tool(Some("a"), Method::GET, "orders"),
        tool(None, Method::GET, "/x"),
        tool(Some("b"), Method::GET, "/files/{*rest}"),
        tool(Some("c"), Method::GET, "/y?z=1"),
        tool(Some("d"), Method::GET, "/d/{id}"),
        tool(Some("e"), Method::GET, "/d/{other}"),
        tool(Some("d"), Method::DELETE, "/d/{id}"),
        tool(None, Method::GET, "/f/{tool}"),
        tool(None, Method::DELETE, "/g/{tool}"),
    ];
    let problems = HttpTools::new(&bad.to_vec().into()).unwrap_err().0;
    let told: Vec<_> = problems.iter().map(|p| p.message.clone()).collect();
    assert_eq!(told.len(), 7, "{told:#?}");
    assert!(told[4].contains("GET /d/{other}"), "{told:#?}");
    assert!(told[5].contains("`d` has another path"), "{told:#?}");
    assert!(told[6].contains("DELETE /g/{tool}"), "{told:#?}");
}
