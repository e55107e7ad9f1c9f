//! What a client sends.

use holdpoint::item::Item;
use holdpoint::protocols::mcp::Mcp;
use holdpoint::protocols::{Protocol, Written};
use holdpoint::settings::{McpRoute, Wrapped};
use holdpoint::verdict::{Hold, Reason, Verdict};
use serde_json::{Value, json};

use super::driver::*;

fn refusal_code(request: &holdpoint::protocols::Request) -> &'static str {
    adapter().read(request).unwrap_err().code
}

#[test]
fn a_call_is_judged_by_its_tool_and_any_other_request_by_its_method() {
    for (body, tool, arguments) in [
        (
            json!({"id": 1, "method": "tools/call", "params": {"name": "pay", "arguments": {"to": "x"}, "_meta": {"progressToken": 1}}}),
            "pay",
            json!({"to": "x"}),
        ),
        (
            json!({"id": "a", "method": "tools/call", "params": {"name": "pay"}}),
            "pay",
            json!({}),
        ),
        (
            json!({"id": 1, "method": "tools/call", "params": {"name": "pay", "arguments": null}}),
            "pay",
            json!({}),
        ),
        (
            json!({"id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd", "_meta": {"progressToken": 1}}}),
            "resources/read",
            json!({"uri": "file:///etc/passwd"}),
        ),
        (
            json!({"id": 1, "method": "prompts/get", "params": {"name": "p", "arguments": {"a": "b"}}}),
            "prompts/get",
            json!({"name": "p", "arguments": {"a": "b"}}),
        ),
        (
            json!({"id": 1, "method": "logging/setLevel", "params": {"level": "debug"}}),
            "logging/setLevel",
            json!({"level": "debug"}),
        ),
        (
            json!({"id": 1, "method": "tasks/cancel", "params": {"taskId": "t"}}),
            "tasks/cancel",
            json!({"taskId": "t"}),
        ),
        (
            json!({"id": 1, "method": "acme/doIt"}),
            "acme/doIt",
            json!({}),
        ),
        (
            json!({"id": 1, "method": "subscriptions/listen", "params": {"notifications": {"resources": ["file:///a"]}}}),
            "subscriptions/listen",
            json!({"notifications": {"resources": ["file:///a"]}}),
        ),
        (
            json!({"id": 7, "result": {"role": "assistant", "content": {"type": "text", "text": "s"}, "model": "m", "_meta": {}}}),
            "sampling/createMessage",
            json!({"role": "assistant", "content": {"type": "text", "text": "s"}, "model": "m"}),
        ),
        (
            json!({"id": 7, "result": {"action": "accept", "content": {"card": "4111"}}}),
            "elicitation/create",
            json!({"action": "accept", "content": {"card": "4111"}}),
        ),
        (
            json!({"id": 7, "result": {"roots": [{"uri": "file:///home"}]}}),
            "roots/list",
            json!({"roots": [{"uri": "file:///home"}]}),
        ),
        (
            json!({"id": 7, "result": {"else": 1}}),
            "response",
            json!({"else": 1}),
        ),
    ] {
        let mut body = body;
        body["jsonrpc"] = json!("2.0");
        let found = calls(&post(&body.to_string())).unwrap();
        assert_eq!(found, [(tool.to_owned(), arguments)], "{body}");
    }
}

#[test]
fn what_carries_nothing_to_judge_has_no_items_and_passes_as_it_came() {
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"action":"decline"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"action":"cancel","content":null,"_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}"#,
    ] {
        let request = post(body);
        let items = adapter().read(&request).unwrap();
        assert!(items.is_empty(), "{body}");
        let written = adapter().write(request, &decision(&items, &|_| Verdict::Allow));
        let Written::Forward(sent) = written.unwrap() else {
            panic!("not forwarded: {body}")
        };
        assert_eq!(sent.body, body);
    }
    for method in ["GET", "DELETE"] {
        let headers = [("accept", "application/json, text/event-stream;q=0.9")];
        let request = request(method, "/mcp", &headers, "");
        assert!(adapter().read(&request).unwrap().is_empty());
    }
}

#[test]
fn an_answer_that_says_more_than_no_is_judged() {
    for (result, tool) in [
        (
            json!({"action": "decline", "content": {"card": "4111"}}),
            "elicitation/create",
        ),
        (
            json!({"action": "cancel", "content": ""}),
            "elicitation/create",
        ),
        (
            json!({"action": "decline", "note": "4111"}),
            "elicitation/create",
        ),
        (
            json!({"action": "cancel", "resultType": "4111"}),
            "elicitation/create",
        ),
        (json!({"action": "Decline"}), "elicitation/create"),
        (json!({"action": ["decline"]}), "elicitation/create"),
        (json!({"content": {"card": "4111"}}), "response"),
        (json!({"resultType": "complete", "note": 1}), "response"),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "result": result});
        let found = calls(&post(&body.to_string())).unwrap();
        assert_eq!(found, [(tool.to_owned(), result)]);
    }
    for result in [
        json!({"action": "decline", "resultType": "complete", "requestState": "s", "_meta": {}}),
        json!({"resultType": "complete"}),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "result": result});
        assert!(
            calls(&post(&body.to_string())).unwrap().is_empty(),
            "{body}"
        );
    }
}

#[test]
fn an_answer_to_several_requests_at_once_is_refused() {
    let content = json!({"type": "text", "text": "s"});
    for result in [
        json!({"action": "decline", "roots": [{"uri": "file:///home"}]}),
        json!({"action": "decline", "role": "assistant", "content": content}),
        json!({"action": "cancel", "model": "m"}),
        json!({"action": "accept", "content": content, "stopReason": "endTurn"}),
        json!({"roots": [], "role": "assistant", "content": content}),
        json!({"roots": [], "content": content}),
        json!({"action": "decline", "Content": content}),
        json!({"action": null, "roots": []}),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 7, "result": result});
        assert_eq!(
            refusal_code(&post(&body.to_string())),
            "invalid_request",
            "{body}"
        );
    }
}

#[test]
fn messages_that_two_readers_may_take_apart_are_refused() {
    for body in [
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}]"#,
        r#""x""#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"pay"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"pay"}}"#,
        r#"{"jsonrpc":"2.0","id":1e0,"method":"tools/call","params":{"name":"pay"}}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"tools/call","params":{"name":"pay"}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"pay"}}"#,
        r#"{"jsonrpc":"2.0","method":"acme/doIt"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","Name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments\u0000":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        // No tool can have the name of a method that is judged under it.
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"resources/read"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"inputResponses":1},"inputResponses":{}}}"#,
    ] {
        assert_eq!(refusal_code(&post(body)), "invalid_request", "{body}");
    }
}

#[test]
fn only_the_endpoint_and_its_methods_are_there() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for path in ["/", "/mcp", "/mcp/", "/sse"] {
        assert!(adapter().read(&request("POST", path, &[], ping)).is_ok());
    }
    let events = [("accept", "text/event-stream")];
    for (method, path, headers, body, code) in [
        ("POST", "/admin", &[][..], ping, "endpoint_unknown"),
        ("POST", "/mcp/admin", &[], ping, "endpoint_unknown"),
        ("GET", "/health", &events, "", "endpoint_unknown"),
        (
            "GET",
            "/mcp",
            &[("accept", "*/*")],
            "",
            "method_not_allowed",
        ),
        ("PUT", "/mcp", &[], ping, "method_not_allowed"),
        ("GET", "/mcp", &events, ping, "invalid_request"),
        ("POST", "/mcp", &[], "", "unsupported_media_type"),
    ] {
        let request = request(method, path, headers, body);
        assert_eq!(refusal_code(&request), code, "{method} {path}");
    }
    let mut text = post(ping);
    text.parts
        .headers
        .insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(refusal_code(&text), "unsupported_media_type");
}

#[test]
fn stateless_requests_have_headers_that_equal_the_body() {
    let good = || modern("tools/call", json!({"name": "pay", "arguments": {}}));
    assert_eq!(calls(&good()).unwrap().len(), 1);
    let mut coded = good();
    let value = "=?base64?cGF5?=".parse().unwrap();
    coded.parts.headers.insert("mcp-name", value);
    assert!(adapter().read(&coded).is_ok());

    for (name, value) in [
        ("mcp-protocol-version", None),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("mcp-method", None),
        ("mcp-method", Some("tools/list")),
        ("mcp-method", Some("Tools/Call")),
        ("mcp-name", None),
        ("mcp-name", Some("get")),
        ("mcp-name", Some("=?base64?Z2V0?=")),
        ("mcp-name", Some("=?BASE64?cGF5?=")),
    ] {
        let mut bad = good();
        match value {
            None => {
                bad.parts.headers.remove(name);
            }
            Some(value) => {
                bad.parts.headers.insert(name, value.parse().unwrap());
            }
        }
        assert_eq!(refusal_code(&bad), "header_mismatch", "{name}: {value:?}");
    }
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let mut twice = good();
        let value = twice.parts.headers[name].clone();
        twice.parts.headers.append(name, value);
        assert_eq!(refusal_code(&twice), "header_mismatch", "two of {name}");
    }
    let read = modern("resources/read", json!({"uri": "file:///a"}));
    assert_eq!(calls(&read).unwrap().len(), 1);
    let mut other = modern("resources/read", json!({"uri": "file:///a"}));
    let value = "file:///b".parse().unwrap();
    other.parts.headers.insert("mcp-name", value);
    assert_eq!(refusal_code(&other), "header_mismatch");

    // Headers alone say that the request is stateless.
    let mut bare = call("1", "pay", "{}");
    let value = MODERN.parse().unwrap();
    bare.parts.headers.insert("mcp-protocol-version", value);
    assert_eq!(refusal_code(&bare), "header_mismatch");
    // A request of a revision with sessions owes none of them, and an unknown revision is the server's to refuse.
    for version in ["2025-11-25", "2099-01-01", "not-a-date", "x"] {
        let mut other = call("1", "pay", "{}");
        let value = version.parse().unwrap();
        other.parts.headers.insert("mcp-protocol-version", value);
        assert!(adapter().read(&other).is_ok(), "{version}");
    }
}

#[test]
fn a_refused_call_is_a_result_that_the_model_reads() {
    for (id, request, modern) in [
        (json!("1"), call("\"1\"", "pay", "{}"), false),
        (
            json!(9_007_199_254_740_993_u64),
            call("9007199254740993", "pay", "{}"),
            false,
        ),
        (
            json!(1),
            self::modern("tools/call", json!({"name": "pay"})),
            true,
        ),
    ] {
        let adapter = adapter();
        let items = adapter.read(&request).unwrap();
        let address = adapter.address(&request);
        let held = Verdict::Hold(Hold {
            ticket: Some("t-9".into()),
            summary: Some("Pay".to_owned()),
            expires_at: Some("2026-11-30T12:15:00Z".to_owned()),
            ..Hold::new(finding(Reason::ApprovalRequired))
        });
        let written = adapter.write(request, &decision(&items, &|_| held.clone()));
        let Written::Refuse(refusal) = written.unwrap() else {
            panic!("not refused")
        };
        let answer = adapter.refuse(&refusal, address.as_ref());
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/json");
        let body: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(body["id"], id);
        let result = &body["result"];
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none());
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(
            said.contains("t-9") && said.contains("approval_required"),
            "{said}"
        );
        let reasons = &result["_meta"]["holdpoint/refusal"];
        assert_eq!(reasons["error"], "approval_required");
        assert_eq!(reasons["request_id"], "t-9");
        assert_eq!(reasons["summary"], "Pay");
        assert_eq!(reasons["retry"]["after_s"], 15);
        let kind = result.get("resultType").and_then(Value::as_str);
        assert_eq!(kind, modern.then_some("complete"));
    }
}

#[test]
fn any_other_refusal_is_an_error_with_an_own_code() {
    let adapter = adapter();
    let request = post(
        r#"{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{"uri":"file:///x"}}"#,
    );
    let items = adapter.read(&request).unwrap();
    let address = adapter.address(&request);
    let written = adapter.write(request, &decision(&items, &|_| deny(Reason::NotOwner)));
    let Written::Refuse(refusal) = written.unwrap() else {
        panic!("not refused")
    };
    let answer = adapter.refuse(&refusal, address.as_ref());
    assert_eq!(answer.status(), 200);
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(body["id"], "r");
    assert_eq!(body["error"]["code"], 4030);
    assert_eq!(
        body["error"]["data"]["holdpoint/refusal"]["error"],
        "not_owner"
    );
}

#[test]
fn an_answer_to_the_server_that_is_refused_becomes_an_error_for_it() {
    let adapter = adapter();
    let request = post(
        r#"{"jsonrpc":"2.0","id":"q-1","result":{"action":"accept","content":{"card":"4111"}}}"#,
    );
    let items = adapter.read(&request).unwrap();
    let written = adapter.write(
        request,
        &decision(&items, &|_| deny(Reason::ConditionFailed)),
    );
    let Written::Forward(sent) = written.unwrap() else {
        panic!("the server waits")
    };
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body["id"], "q-1");
    assert_eq!(body["error"]["code"], 4030);
    assert!(body.get("result").is_none() && !body.to_string().contains("4111"));
}

#[test]
fn a_ticketed_call_leaves_in_its_stored_form_and_keeps_the_rest() {
    let sent = |body: &str, stored| {
        let sent = redeemed(post(body), stored).unwrap();
        String::from_utf8(sent.body.to_vec()).unwrap()
    };
    assert_eq!(
        sent(
            r#"{ "jsonrpc":"2.0","id":1, "method":"tools/call","params":{"name":"pay","arguments":{"b": 1.0,"a":"x"},"_meta":{"progressToken":"p"}}}"#,
            r#"{"a":"x","b":1}"#,
        ),
        r#"{ "jsonrpc":"2.0","id":1, "method":"tools/call","params":{"name":"pay","arguments":{"a":"x","b":1},"_meta":{"progressToken":"p"}}}"#,
    );
    assert_eq!(
        sent(
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a", "_meta":{"t":1},"requestState":"s"}}"#,
            r#"{"uri":"a"}"#,
        ),
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a","_meta":{"t":1},"requestState":"s"}}"#,
    );
    let none = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}"#;
    assert_eq!(sent(none, "{}"), none);
}

#[test]
fn the_call_inside_a_gateways_call_is_judged_and_bound() {
    let route = McpRoute {
        wrapped: vec![Wrapped {
            tool: "call_tool".into(),
            name: "/name".to_owned(),
            arguments: "/arguments".to_owned(),
            beside: vec!["/why".to_owned()],
        }],
        ..McpRoute::default()
    };
    let adapter = Mcp::new(&route, "/srv", None);
    let inner = r#"{"why":1,"name":"pay","arguments":{"to":"x","amount":1.0}}"#;
    let request = call("1", "call_tool", inner);
    let items = adapter.read(&request).unwrap();
    let Item::ToolCall(judged) = &items[0].item else {
        panic!("{items:?}")
    };
    assert_eq!(judged.tool.as_str(), "pay");
    assert_eq!(judged.args.value, json!({"to": "x", "amount": 1.0}));
    let mut decision = decision(&items, &|_| Verdict::Allow);
    decision.claims.push((0, claim(r#"{"amount":1,"to":"x"}"#)));
    let Written::Forward(sent) = adapter.write(request, &decision).unwrap() else {
        panic!("not forwarded")
    };
    let expected = r#"{"why":1,"name":"pay","arguments":{"amount":1,"to":"x"}}"#;
    let sent = String::from_utf8(sent.body.to_vec()).unwrap();
    assert!(
        sent.contains(&format!("\"arguments\":{expected}")),
        "{sent}"
    );
    // What comes back is an output of the inner tool.
    let pieces = [result(&json!({"content": [{"type": "text", "text": "t"}]})).into()];
    let request = call("1", "call_tool", inner);
    let got = answer(&adapter, &request, &head(200, JSON), &pieces, &|_| {
        Verdict::Allow
    });
    let got = got.unwrap();
    assert!(got.judged.iter().all(|located| match &located.item {
        Item::ToolOutput(output) => output.tool.as_ref().unwrap().as_str() == "pay",
        _ => false,
    }));
    let bare = adapter.read(&call("1", "call_tool", "{}")).unwrap();
    assert!(matches!(bare[0].item, Item::Unreadable(_)));
    // A tool with the name of a method could not be told from it, in a call or alone.
    let method = r#"{"name":"resources/read","arguments":{"uri":"note://a"}}"#;
    let method = adapter.read(&call("1", "call_tool", method)).unwrap();
    assert!(matches!(method[0].item, Item::Unreadable(_)));
}

#[test]
fn what_the_user_answered_is_judged_with_the_call_and_goes_back_to_its_place() {
    let params = json!({
        "name": "pay",
        "arguments": {"to": "x"},
        "inputResponses": {"card": {"action": "accept", "content": {"n": 1.0}}},
        "requestState": "sealed",
    });
    let request = modern("tools/call", params.clone());
    let judged = json!({"to": "x", "inputResponses": params["inputResponses"]});
    assert_eq!(calls(&request).unwrap(), [("pay".to_owned(), judged)]);
    let stored = r#"{"inputResponses":{"card":{"action":"accept","content":{"n":1}}},"to":"x"}"#;
    let sent: Value = serde_json::from_slice(&redeemed(request, stored).unwrap().body).unwrap();
    assert_eq!(sent["params"]["arguments"], json!({"to": "x"}));
    assert_eq!(sent["params"]["inputResponses"], params["inputResponses"]);
    assert_eq!(sent["params"]["requestState"], "sealed");
}

#[test]
fn headers_that_mirror_arguments_follow_them() {
    let mut request = modern(
        "tools/call",
        json!({"name": "pay", "arguments": {"amount": 1, "to": "1.0"}}),
    );
    let body = String::from_utf8(request.body.to_vec()).unwrap();
    let body = body.replace(r#""amount":1"#, r#""amount":1.0"#);
    request = {
        let mut rebuilt = post(&body);
        rebuilt.parts.headers = request.parts.headers;
        rebuilt
    };
    for (name, value) in [("mcp-param-amount", "1.0"), ("mcp-param-region", "eu")] {
        request.parts.headers.insert(name, value.parse().unwrap());
    }
    let sent = redeemed(request, r#"{"amount":1,"to":"1.0"}"#).unwrap();
    assert_eq!(sent.parts.headers["mcp-param-amount"], "1");
    assert_eq!(sent.parts.headers["mcp-param-region"], "eu");
}

#[test]
fn a_stored_answer_names_the_request_that_asks_for_it_now() {
    let adapter = adapter();
    let request = call("\"second\"", "pay", "{}");
    let done = result(&json!({"content": [{"type": "text", "text": "paid"}]}));
    let stream = format!(
        "id: 1\ndata:\n\n{}id: 7\nevent: message\ndata: {done}\n\n",
        event(
            &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}})
        )
    );
    for stored in [
        receipt(Some(JSON), &done),
        receipt(Some("text/event-stream; charset=utf-8"), &stream),
    ] {
        let again = adapter.replayed(&request, stored);
        assert_eq!(again.content_type.as_deref(), Some(JSON));
        let body = String::from_utf8(again.body.to_vec()).unwrap();
        let told = done.replace(r#""id":1"#, r#""id":"second""#).replace(
            r#""paid"}]"#,
            r#""paid"}],"_meta":{"holdpoint-replayed":true}"#,
        );
        assert_eq!(body, told);
    }
    // What cannot be given back is told.
    for stored in [receipt(None, ""), receipt(Some(EVENTS), "id: 1\ndata:\n\n")] {
        let again = adapter.replayed(&request, stored);
        let body: Value = serde_json::from_slice(&again.body).unwrap();
        assert_eq!(body["id"], "second");
        assert_eq!(body["result"]["isError"], true);
        let said = body["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("already_done"), "{said}");
    }
}

#[test]
fn the_session_is_the_servers_or_the_one_that_the_message_names() {
    let of = |headers: &[(&str, &str)], body: &str| {
        adapter().session(&request("POST", "/mcp", headers, body))
    };
    let named = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"holdpoint-session":"s-2"}}}"#;
    assert_eq!(
        of(&[("mcp-session-id", "s-1")], named).as_deref(),
        Some("s-1")
    );
    assert_eq!(of(&[], named).as_deref(), Some("s-2"));
    assert_eq!(of(&[], &named.replace("s-2", "a b")), None);
    assert_eq!(of(&[("mcp-session-id", "")], "{}"), None);
    let twice = [("mcp-session-id", "a"), ("mcp-session-id", "b")];
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let two = request("POST", "/mcp", &twice, ping);
    assert_eq!(refusal_code(&two), "session_invalid");
    for odd in ["", "a b", "é", &"x".repeat(2049)] {
        let odd = request("POST", "/mcp", &[("mcp-session-id", odd)], ping);
        assert_eq!(refusal_code(&odd), "session_invalid");
    }
    for alias in ["mcp_session_id", "mcp-session_id", "mcp_name"] {
        let alias = request("POST", "/mcp", &[(alias, "s")], ping);
        assert_eq!(refusal_code(&alias), "header_mismatch");
    }
}
