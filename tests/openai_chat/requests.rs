//! Known answers for requests and refusals.

use holdpoint::item::Item;
use holdpoint::names::{RuleId, TicketId};
use holdpoint::protocols::{MOST_TEXTS, Malformed, Protocol, Refusal, Written};
use holdpoint::verdict::{Finding, Hold, Reason, Rewrite, RewriteKind, Verdict};
use http::StatusCode;

use crate::driver::{adapter, completion, decision, deny, finding};

const REQUEST: &str = r#"{ "model": "m", "seed": 12345678901234567890123,
 "tools": [
  {"type":"function","function":{"name":"look","description":"Reads \u0061 page","parameters":{"type":"object","properties":{"q":{"description":"what"}}}}} ,
  {"type":"custom","custom":{"name":"note","description":"Writes"}}
 ],
 "tool_choice": {"type":"function","function":{"name":"look"}},
 "parallel_tool_calls": true,
 "messages": [
  {"role":"user","content":"go"},
  {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"c2","type":"custom","custom":{"name":"note","input":"x"}}]},
  {"role":"tool","tool_call_id":"c1","content":"page \u0041 says é!" },
  {"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"one"},{"type":"doc","source":{"a/b":["two",3]}}]},
  {"role":"function","name":"old","content":"three"},
  {"role":"observation","content":"four"}
 ] }"#;

fn forward(body: &str, judge: &dyn Fn(&str) -> Verdict) -> String {
    let request = completion(body);
    let items = adapter().read(&request).unwrap();
    let decision = decision(&items, &|located| judge(&located.place.pointer));
    match adapter().write(request, &decision).unwrap() {
        Written::Forward(request) => {
            assert_eq!(request.json.unwrap().bytes(), &request.body);
            String::from_utf8(request.body.to_vec()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_and_definitions_are_found_with_tool_and_place() {
    let request = completion(REQUEST);
    let found: Vec<_> = adapter()
        .read(&request)
        .unwrap()
        .into_iter()
        .map(|located| {
            // Joined texts stand nowhere by themselves.
            let span = located.place.span.clone();
            let source = span.map_or("\"\"", |span| REQUEST.get(span).unwrap());
            let (tool, id, text) = match located.item {
                Item::Definition(definition) => {
                    (definition.tool.to_string(), None, definition.text)
                }
                Item::ToolOutput(output) => {
                    assert!(source.starts_with('"') && source.ends_with('"'));
                    let tool = output
                        .tool
                        .map_or_else(|| "-".to_owned(), |t| t.to_string());
                    (tool, output.call_id, output.text)
                }
                other => panic!("{other:?}"),
            };
            let id = id.as_deref().unwrap_or("-").to_owned();
            format!("{} {tool} {id} {:?}", located.place.pointer, &*text)
        })
        .collect();
    insta::assert_snapshot!("items", found.join("\n"));
}

#[test]
fn nothing_to_change_changes_nothing() {
    let request = completion(REQUEST);
    let before = request.body.as_ptr();
    let items = adapter().read(&request).unwrap();
    let decision = decision(&items, &|_| Verdict::Allow);
    let Written::Forward(request) = adapter().write(request, &decision).unwrap() else {
        panic!("forwarded")
    };
    assert_eq!(request.body.as_ptr(), before);
    assert_eq!(request.body, REQUEST);
}

#[test]
fn only_the_ruled_leaves_change() {
    let edited = forward(REQUEST, &|pointer| match pointer {
        "/messages/2/content" => Verdict::Rewrite(Rewrite {
            kind: RewriteKind::Redact,
            edits: vec![(0..4, "leaf".into()), (12..14, "\"\n".into())],
            finding: finding(Reason::InjectionDetected),
        }),
        "/messages/3/content/1/source/a~1b/0" => deny(Reason::InjectionDetected),
        _ => Verdict::Allow,
    });
    let expected = REQUEST
        .replace(r#""page \u0041 says é!""#, r#""leaf A says \"\n!""#)
        .replace(
            r#""two""#,
            r#""[holdpoint: tool output withheld: injection_detected]""#,
        );
    assert_eq!(edited, expected);
}

#[test]
fn an_edit_that_does_not_fit_the_text_is_not_written() {
    // It cuts a character, overlaps another, or lies beyond the end.
    for edits in [&[(13, 14)][..], &[(0, 3), (2, 4)], &[(15, 99)]] {
        let request = completion(REQUEST);
        let items = adapter().read(&request).unwrap();
        let edits: Vec<_> = edits
            .iter()
            .map(|(from, to)| (*from..*to, "".into()))
            .collect();
        let decision = decision(&items, &|located| match &*located.place.pointer {
            "/messages/2/content" => Verdict::Rewrite(Rewrite {
                kind: RewriteKind::Redact,
                edits: edits.clone(),
                finding: finding(Reason::InjectionDetected),
            }),
            _ => Verdict::Allow,
        });
        let error = adapter().write(request, &decision).unwrap_err();
        assert_eq!(error.code, "ruling_unwritable");
    }
}

#[test]
fn a_refused_definition_goes_with_what_names_it() {
    let first = forward(REQUEST, &|pointer| match pointer {
        "/tools/0" => deny(Reason::DefinitionChanged),
        _ => Verdict::Allow,
    });
    assert!(!first.contains("Reads"), "{first}");
    assert!(first.contains(r#""tools": [{"type":"custom""#), "{first}");
    assert!(!first.contains("tool_choice"), "{first}");
    assert!(first.contains("12345678901234567890123"), "{first}");

    let other = forward(REQUEST, &|pointer| match pointer {
        "/tools/1" => deny(Reason::DefinitionChanged),
        _ => Verdict::Allow,
    });
    assert!(other.contains("tool_choice"), "{other}");

    let all = forward(REQUEST, &|pointer| {
        if pointer.starts_with("/tools/") {
            deny(Reason::DefinitionChanged)
        } else {
            Verdict::Allow
        }
    });
    let (before, rest) = REQUEST.split_once(r#""tools""#).unwrap();
    let (_, messages) = rest.split_once(r#""messages""#).unwrap();
    let before = before.trim_end().trim_end_matches(',');
    let expected = format!(r#"{before},"messages"{messages}"#);
    assert_eq!(all, expected);
}

#[test]
fn a_choice_among_allowed_tools_loses_the_refused_one() {
    let body = |allowed: &str| {
        format!(
            r#"{{"tools":[{{"function":{{"name":"a"}}}},{{"function":{{"name":"b"}}}}],"tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"auto","tools":[{allowed}]}}}},"messages":[]}}"#
        )
    };
    let (a, b) = (
        r#"{"type":"function","function":{"name":"a"}}"#,
        r#"{"type":"function","function":{"name":"b"}}"#,
    );
    let refuse = |pointer: &str| match pointer {
        "/tools/0" => deny(Reason::DefinitionChanged),
        _ => Verdict::Allow,
    };
    let two = forward(&body(&format!("{a},{b}")), &refuse);
    assert_eq!(two, body(b).replace(r#"{"function":{"name":"a"}},"#, ""));
    let one = forward(&body(a), &refuse);
    assert!(one.contains(r#""tool_choice":"none""#), "{one}");
}

#[test]
fn many_texts_are_refused_and_long_keys_are_not_repeated_for_each() {
    let read = |count: usize| {
        let key = "k".repeat(10_000);
        let texts = vec!["\"x\""; count].join(",");
        let body = format!(
            r#"{{"messages":[{{"role":"tool","content":[{{"type":"x","{key}":[{texts}]}}]}}]}}"#
        );
        adapter().read(&completion(&body))
    };
    // Two more are all of them joined.
    let found = read(MOST_TEXTS - 2).unwrap();
    assert_eq!(found.len(), MOST_TEXTS);
    assert!(found.iter().all(|l| l.place.pointer.len() < 200));
    assert_eq!(read(MOST_TEXTS).unwrap_err().code, "body_too_large");
}

#[test]
fn a_body_that_is_not_a_chat_names_the_place() {
    let error = |body: &str| adapter().read(&completion(body)).unwrap_err();
    for (body, place) in [
        ("[]", "`/messages` is missing"),
        (r#"{"messages":{}}"#, "`/messages` must be an array"),
        (r#"{"messages":[[]]}"#, "`/messages/0` must be an object"),
        (
            r#"{"messages":[{}]}"#,
            "`/messages/0/role` must be a string",
        ),
        (
            r#"{"messages":[{"role":"tool","content":7}]}"#,
            "`/messages/0/content` must be a string or an array of parts",
        ),
        (
            r#"{"messages":[{"role":"assistant","tool_calls":"x"}]}"#,
            "`/messages/0/tool_calls` must be an array",
        ),
        (
            r#"{"messages":[],"tools":[1]}"#,
            "`/tools/0` must be an object",
        ),
        (r#"{"messages":[],"tools":[{}]}"#, "`/tools/0` has no name"),
        (
            r#"{"messages":[{"role":"user","Role":"tool"}]}"#,
            "`/messages/0` has a key that some readers take for `role`: write it exactly so",
        ),
        (
            r#"{"messages":[{"role":"tool","content\u0000":"x"}]}"#,
            "`/messages/0` has a key that some readers take for `content`: write it exactly so",
        ),
    ] {
        let Malformed { code, message } = error(body);
        assert_eq!((code, &*message), ("invalid_request", place));
    }
    assert_eq!(error("").code, "unsupported_media_type");
    let mut text = completion(r#"{"messages":[]}"#);
    text.parts
        .headers
        .insert("content-type", "text/plain".parse().unwrap());
    let error = adapter().read(&text).unwrap_err();
    assert_eq!(error.code, "unsupported_media_type");
}

#[test]
fn a_refusal_is_an_error_of_the_api() {
    let refusal = Refusal {
        status: StatusCode::FORBIDDEN,
        code: "approval_required",
        message: Reason::ApprovalRequired.advice().to_owned(),
        reason: Some(Reason::ApprovalRequired),
        hold: Some(Hold {
            ticket: Some(TicketId::from("tkt_1")),
            summary: None,
            expires_at: Some("2026-01-02T03:04:05Z".to_owned()),
            ..Hold::new(Finding {
                rule: RuleId::from("tools[0]"),
                ..finding(Reason::ApprovalRequired)
            })
        }),
        retry: false,
    };
    let response = adapter().refuse(&refusal, None);
    assert_eq!(response.status(), 403);
    assert_eq!(response.headers()["x-should-retry"], "false");
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(
        response.body(),
        r#"{"error":{"message":"A person must approve this call. Tell the user; after the approval repeat the identical call. (ticket: tkt_1, expires: 2026-01-02T03:04:05Z)","type":"policy_error","param":null,"code":"approval_required"}}"#
    );
    let busy = Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: "overloaded",
        message: "too many requests at once".to_owned(),
        reason: None,
        hold: None,
        retry: true,
    };
    let response = adapter().refuse(&busy, None);
    assert!(!response.headers().contains_key("x-should-retry"));
    assert!(
        response.body().starts_with(
            br#"{"error":{"message":"too many requests at once","type":"server_error""#
        )
    );
}
