//! Answers that the wrapper cannot read: whoever waits for one is told, and the next call goes on.

use serde_json::{Value, json};

use crate::wrapped::Wrapped;

/// Answers to request 1, each unreadable in its own way, as arguments of `printf`.
const KINDS: [&str; 13] = [
    r#"'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"x":NaN}}}\n'"#,
    r#"'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\377"}]}}\n'"#,
    r#"'{"jsonrpc":"2.0","id":1,"id":1,"result":{"content":[]}}\n'"#,
    r#"'{"jsonrpc":"2.0","id":1,"result":{"content":[]},"result":{"content":[]}}\n'"#,
    r#"'[{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]\n'"#,
    r#"'{"jsonrpc":"2.0","id":1,"result":{"content":[\n'"#,
    // In lines, as JSON is written for people.
    r#"'{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {\n    "content": []\n  }\n}\n'"#,
    r#"'{\n"result":\n{"content":[\n{"id":2}\n]},\n"jsonrpc":"2.0",\n"id":1\n}\n'"#,
    // Under an id of another type.
    r#"'{"jsonrpc":"2.0","id":"1","result":{"content":[]}}\n'"#,
    r#"'{"jsonrpc":"2.0","id":1.0,"result":{"content":[]}}\n'"#,
    // Above the limit, with the id first and last.
    r#"'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%09000d"}]}}\n' 0"#,
    r#"'{"result":{"content":[{"type":"text","text":"%09000d"}]},"jsonrpc":"2.0","id":1}\n' 0"#,
    r#"'{"result":{"content":[{"type":"text","text":"%0200000d"}]},"jsonrpc":"2.0","id":1}\n' 0"#,
];

fn wrap(script: &str) -> Wrapped {
    let mut wrapped = Wrapped::with(script, "", |command| {
        command.args(["--set", "limits.response_body=8KiB"]);
    });
    wrapped.shake_hands();
    wrapped
}

fn is_error(message: &Value, id: &Value) -> bool {
    message["id"] == *id && message["error"]["message"].is_string()
}

#[test]
fn its_request_is_answered_with_an_error_and_no_other() {
    for kind in KINDS {
        let mut wrapped = wrap(&format!(
            "hello; next; next; printf {kind}; next; text 2 fine; next"
        ));
        wrapped.call(1, "a", &json!({}));
        wrapped.call(2, "a", &json!({}));
        let refused = wrapped.next();
        assert!(is_error(&refused, &json!(1)), "{kind}: {refused}");
        wrapped.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}));
        let fine = wrapped.next();
        assert_eq!(fine["result"]["content"][0]["text"], "fine", "{kind}");
        assert_eq!(wrapped.end(), (0, vec![]), "{kind}");
    }
}

#[test]
fn it_is_told_as_well_once_the_answer_has_begun_as_a_stream() {
    let mut wrapped = wrap(&format!(
        r#"hello; next
        say '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"p","progress":1}}}}'
        printf {}; next"#,
        KINDS[0]
    ));
    let params = json!({"name": "a", "arguments": {}, "_meta": {"progressToken": "p"}});
    wrapped.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let mut message = wrapped.next();
    if message["method"] == "notifications/progress" {
        message = wrapped.next();
    }
    assert!(is_error(&message, &json!(1)), "{message}");
}

#[test]
fn one_that_names_no_request_is_for_the_only_one_that_waits() {
    let nameless = r#"'{"jsonrpc":"2.0","id":NaN,"result":{}}'"#;
    let mut wrapped = wrap(&format!(
        "hello; next; say {nameless}; next; text 2 fine; next"
    ));
    wrapped.call(1, "a", &json!({}));
    let refused = wrapped.next();
    assert!(is_error(&refused, &json!(1)), "{refused}");
    wrapped.call(2, "a", &json!({}));
    assert_eq!(wrapped.next()["id"], 2);
}

#[test]
fn one_that_may_be_for_several_is_told_without_an_id() {
    let nameless = r#"'{"jsonrpc":"2.0","id":NaN,"result":{}}'"#;
    let mut wrapped = wrap(&format!(
        "hello; next; next; say {nameless}; next; text 1 a; text 2 b; next"
    ));
    wrapped.call(1, "a", &json!({}));
    wrapped.call(2, "a", &json!({}));
    let told = wrapped.next();
    assert!(is_error(&told, &Value::Null), "{told}");
    wrapped.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}));
    let mut ids = [wrapped.next(), wrapped.next()].map(|message| message["id"].as_i64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)], "both may still be answered");
}

#[test]
fn notes_and_questions_that_cannot_be_read_take_no_answer_away() {
    let mut wrapped = wrap(
        r#"
        hello; next
        say '[info] {"jsonrpc":"2.0","id":1}'
        say '{"level":"error","error":NaN}'
        say '{"jsonrpc":"2.0","id":1,"method":"roots/list","params":NaN}'
        text 1 fine; next
        "#,
    );
    wrapped.call(1, "a", &json!({}));
    let fine = wrapped.next();
    assert_eq!(fine["result"]["content"][0]["text"], "fine", "{fine}");
}

#[test]
fn one_that_begins_in_lines_and_does_not_end_is_told_as_well() {
    let begun = r#"'{\n  "jsonrpc": "2.0",\n  "result":'"#;
    let mut wrapped = wrap(&format!("hello; next; printf {begun}; next"));
    wrapped.call(1, "a", &json!({}));
    let refused = wrapped.next();
    assert!(is_error(&refused, &json!(1)), "{refused}");
}
