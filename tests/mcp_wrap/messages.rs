//! What passes between a client and a server, and what does not.

use serde_json::{Value, json};

use crate::wrapped::Wrapped;

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn what_a_server_prints_besides_messages_is_dropped() {
    let mut wrapped = Wrapped::plain(
        r#"
        echo "starting on port 7" >&2
        say "Server ready."
        say "{ not json"
        say "[1, 2]"
        say ""
        printf '\377\376 {"jsonrpc":"2.0"}\n'
        say '{"some": "object"}'
        hello
        next
        text 1 fine
        next
        "#,
    );
    let hello = wrapped.shake_hands();
    assert_eq!(hello["result"]["serverInfo"]["name"], "s");
    wrapped.call(1, "a", &json!({}));
    assert_eq!(text(&wrapped.next()), "fine");
    wrapped.hears("starting on port 7");
    wrapped.hears("a line that is no message");
    let (code, rest) = wrapped.end();
    assert_eq!((code, rest), (0, vec![]));
}

#[test]
fn answers_may_come_in_another_order_and_ids_keep_their_type() {
    let mut wrapped = Wrapped::plain(
        r#"
        hello
        next; next; next
        text '"1"' text-id
        text 2 second
        text 1 number-id
        next
        "#,
    );
    wrapped.shake_hands();
    wrapped.call(1, "a", &json!({}));
    wrapped.call("1", "a", &json!({}));
    wrapped.call(2, "a", &json!({}));
    let mut got: Vec<_> = (0..3)
        .map(|_| {
            let message = wrapped.next();
            (message["id"].to_string(), text(&message).to_owned())
        })
        .collect();
    got.sort();
    let expected = [("\"1\"", "text-id"), ("1", "number-id"), ("2", "second")];
    assert_eq!(
        got,
        expected.map(|(id, text)| (id.to_owned(), text.to_owned()))
    );
}

#[test]
fn lines_reach_the_server_in_the_order_of_the_client() {
    let mut wrapped = Wrapped::plain("hello; while next; do :; done");
    wrapped.shake_hands();
    for id in 1..=40 {
        wrapped.call(id, "a", &json!({"n": id}));
        wrapped.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": 1}}));
    }
    wrapped.close();
    let (code, rest) = wrapped.wait();
    assert_eq!(code, 0);
    assert_eq!(
        rest.len(),
        40,
        "each call is answered, if only with an error"
    );
    let seen: Vec<_> = wrapped.got()[2..]
        .iter()
        .map(|message| (message["method"] == "tools/call", message["params"].clone()))
        .map(|(call, params)| {
            if call {
                params["arguments"]["n"].clone()
            } else {
                params["progressToken"].clone()
            }
        })
        .collect();
    let expected: Vec<_> = (1..=40).flat_map(|id| [json!(id), json!(id)]).collect();
    assert_eq!(seen, expected);
}

#[test]
fn what_a_server_says_unasked_reaches_the_client_and_answers_reach_the_server() {
    let mut wrapped = Wrapped::plain(
        r#"
        hello
        say '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}'
        say '{"jsonrpc":"2.0","id":"s1","method":"roots/list"}'
        next
        next
        say '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}'
        say '{"jsonrpc":"2.0","id":7,"method":"roots/list"}'
        next
        text 1 done
        next
        "#,
    );
    wrapped.shake_hands();
    assert_eq!(wrapped.next()["params"]["data"], "hi");
    let asked = wrapped.next();
    assert_eq!(
        (&asked["id"], &asked["method"]),
        (&json!("s1"), &json!("roots/list"))
    );
    wrapped.send(&json!({"jsonrpc": "2.0", "id": "s1", "result": {"roots": []}}));
    let params = json!({"name": "a", "arguments": {}, "_meta": {"progressToken": "p"}});
    wrapped.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let said = [wrapped.next(), wrapped.next()];
    assert!(
        said.iter()
            .any(|message| message["params"]["progressToken"] == "p"),
        "{said:?}"
    );
    assert!(said.iter().any(|message| message["id"] == 7), "{said:?}");
    wrapped.send(
        &json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "no roots"}}),
    );
    assert_eq!(text(&wrapped.next()), "done");
    let got = wrapped.got();
    assert_eq!(
        got[2],
        json!({"jsonrpc": "2.0", "id": "s1", "result": {"roots": []}})
    );
    assert_eq!(got[4]["error"]["message"], "no roots");
}

#[test]
fn separators_of_unicode_are_text() {
    let mut wrapped = Wrapped::plain(
        r#"
        hello
        next
        text 1 "$(printf 'a\342\200\250b\302\205c')"
        next
        "#,
    );
    wrapped.shake_hands();
    let argument = "x\u{2028}y\u{2029}z\u{85}";
    wrapped.call(1, "a", &json!({"text": argument}));
    assert_eq!(text(&wrapped.next()), "a\u{2028}b\u{85}c");
    assert_eq!(wrapped.got()[2]["params"]["arguments"]["text"], argument);
}

#[test]
fn what_is_no_message_is_answered_and_the_next_line_goes_on() {
    let mut wrapped = Wrapped::with("hello; next; text 3 fine; next", "", |command| {
        command.args(["--set", "limits.request_body=2KiB"]);
    });
    wrapped.shake_hands();
    for odd in [
        "{ not json",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}]",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"tools/list\"}",
        &format!("{{\"long\":\"{}\"}}", "x".repeat(3000)),
    ] {
        wrapped.raw(odd);
        let answer = wrapped.next();
        assert_eq!(answer["id"], Value::Null, "{odd:.40}");
        assert!(answer["error"]["message"].is_string(), "{odd:.40}");
    }
    wrapped.raw("");
    wrapped.raw("\r");
    wrapped.call(3, "a", &json!({}));
    assert_eq!(text(&wrapped.next()), "fine");
    assert_eq!(wrapped.got().len(), 3, "nothing odd has reached the server");
}

#[test]
fn an_id_in_use_is_refused_and_the_first_call_is_answered() {
    let mut wrapped = Wrapped::plain("hello; next; next; text 2 other; text 1 first; next");
    wrapped.shake_hands();
    wrapped.call(1, "a", &json!({}));
    wrapped.call(1, "a", &json!({"again": true}));
    let refused = wrapped.next();
    assert!(refused["error"].is_object(), "{refused}");
    wrapped.call(2, "a", &json!({}));
    let mut texts = [
        text(&wrapped.next()).to_owned(),
        text(&wrapped.next()).to_owned(),
    ];
    texts.sort();
    assert_eq!(texts, ["first", "other"]);
}

#[test]
fn a_cancelled_call_is_not_answered() {
    let mut wrapped = Wrapped::plain("hello; next; next; next; text 1 late; text 2 next; next");
    wrapped.shake_hands();
    wrapped.call(1, "slow", &json!({}));
    let cancel = json!({"requestId": 1, "reason": "enough"});
    wrapped.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}));
    wrapped.call(2, "a", &json!({}));
    assert_eq!(text(&wrapped.next()), "next");
    assert_eq!(wrapped.got()[3]["method"], "notifications/cancelled");
}

#[test]
fn the_era_without_a_handshake_passes_too() {
    let mut wrapped = Wrapped::plain(
        r#"
        next
        say '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":1}}'
        answer 1 '{"resultType":"complete","content":[{"type":"text","text":"modern"}]}'
        next
        "#,
    );
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 5,
    });
    let params = json!({"name": "wörter", "arguments": {}, "_meta": meta});
    wrapped.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    assert_eq!(wrapped.next()["method"], "notifications/progress");
    assert_eq!(text(&wrapped.next()), "modern");
    assert_eq!(wrapped.got()[0]["params"]["name"], "wörter");
}
