//! JSON that readers take apart: refused as a body, a reason to block as a call's arguments.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::client::request;
use crate::support::rig::{OFF, Rig, config};
use crate::support::upstream::{Upstream, json};

/// One text and whether it is let through.
struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    fine: bool,
}

fn case(what: &'static str, bytes: impl AsRef<[u8]>, fine: bool) -> Case {
    Case {
        what,
        bytes: bytes.as_ref().to_vec(),
        fine,
    }
}

fn utf16(text: &str, swap: bool) -> Vec<u8> {
    let order = |unit: u16| {
        if swap {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        }
    };
    text.encode_utf16().flat_map(order).collect()
}

fn nested(depth: usize) -> String {
    // The object itself is one level.
    format!(
        "{{\"a\":{}{}}}",
        "[".repeat(depth - 1),
        "]".repeat(depth - 1)
    )
}

/// Objects, so that each can be a body or a call's arguments.
fn table() -> Vec<Case> {
    vec![
        case("plain", r#"{"a":"b"}"#, true),
        case("white space around", " \t\r\n{\"a\" : 1 }\n", true),
        case(
            "an integer of 23 digits",
            r#"{"a":12345678901234567890123}"#,
            true,
        ),
        case(
            "the same and others in a list",
            r#"{"a":[0.1,1E2,1e-2,-12345678901234567890123]}"#,
            true,
        ),
        case("a pair of surrogates", r#"{"a":"\ud83d\ude00"}"#, true),
        case("every escape", r#"{"a":"\"\\\/\b\f\n\r\t\u0041"}"#, true),
        case(
            "U+2028 and U+FEFF inside a string",
            "{\"a\":\"\u{2028}\u{feff}\"}",
            true,
        ),
        case("a NUL, escaped, in a value", r#"{"a":"\u0000"}"#, true),
        case("keys that differ", r#"{"a":1,"b":2,"A b":3}"#, true),
        case("200 levels", nested(200), true),
        case("256 levels", nested(256), true),
        case("257 levels", nested(257), false),
        case("5000 levels", nested(5_000), false),
        case("a million levels", nested(1_000_000), false),
        case("a million open levels", "[".repeat(1_000_000), false),
        case("a duplicate key", r#"{"a":1,"a":2}"#, false),
        case(
            "a duplicate key, once escaped",
            r#"{"a":1,"\u0061":2}"#,
            false,
        ),
        case(
            "a duplicate key below",
            r#"{"x":[{"a":1,"b":2,"a":1}]}"#,
            false,
        ),
        case("a duplicate empty key", r#"{"":1,"":2}"#, false),
        case("a lone high surrogate", r#"{"a":"\ud800"}"#, false),
        case("a lone low surrogate", r#"{"a":"\udc00x"}"#, false),
        case(
            "surrogates in the wrong order",
            r#"{"a":"\ude00\ud83d"}"#,
            false,
        ),
        case("a lone surrogate in a key", r#"{"\ud800":1}"#, false),
        case("NaN", r#"{"a":NaN}"#, false),
        case("Infinity", r#"{"a":Infinity}"#, false),
        case("-Infinity", r#"{"a":-Infinity}"#, false),
        case("1e400", r#"{"a":1e400}"#, false),
        case("a leading zero", r#"{"a":01}"#, false),
        case("a leading plus", r#"{"a":+1}"#, false),
        case("no integer part", r#"{"a":.5}"#, false),
        case("no fraction", r#"{"a":1.}"#, false),
        case("no exponent", r#"{"a":1e}"#, false),
        case("hexadecimal", r#"{"a":0x10}"#, false),
        case("a byte order mark", "\u{feff}{\"a\":1}", false),
        case(
            "UTF-16, little end first",
            utf16(r#"{"a":1}"#, false),
            false,
        ),
        case("UTF-16, big end first", utf16(r#"{"a":1}"#, true), false),
        case(
            "UTF-16 with a mark",
            utf16("\u{feff}{\"a\":1}", false),
            false,
        ),
        case(
            "UTF-32",
            r#"{"a":1}"#.bytes().flat_map(|b| [b, 0, 0, 0]).collect::<Vec<_>>(),
            false,
        ),
        case("a byte that is no UTF-8", b"{\"a\":\"\xff\"}", false),
        case("an overlong slash", b"{\"a\":\"\xc0\xaf\"}", false),
        case("a surrogate in UTF-8", b"{\"a\":\"\xed\xa0\x80\"}", false),
        case("a cut sequence", b"{\"a\":\"\xf0\x9f\x98\"}", false),
        case("beyond Unicode", b"{\"a\":\"\xf4\x90\x80\x80\"}", false),
        case("a byte that is no UTF-8 in a key", b"{\"a\xff\":1}", false),
        case("a second value", "{} {}", false),
        case("garbage behind", "{\"a\":1}x", false),
        case("a NUL behind", "{\"a\":1}\0", false),
        case("a comment behind", "{\"a\":1}//x", false),
        case("a comment inside", "{/*x*/\"a\":1}", false),
        case("a comma too many", "{\"a\":1,}", false),
        case("a comma too few", "{\"a\":1 \"b\":2}", false),
        case("single quotes", "{'a':1}", false),
        case("no quotes", "{a:1}", false),
        case("True", "{\"a\":True}", false),
        case("a line end inside a string", "{\"a\":\"x\ny\"}", false),
        case("a NUL inside a string", "{\"a\":\"x\0y\"}", false),
        case("an unknown escape", r#"{"a":"\x41"}"#, false),
        case("a form feed for white space", "{\"a\":\u{c}1}", false),
        case("a no-break space for white space", "{\"a\":\u{a0}1}", false),
        case("cut", "{\"a\":", false),
        case("nothing but white space", "  ", false),
    ]
}

#[tokio::test]
async fn a_body_is_strict_json_or_refused() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    for Case { what, bytes, fine } in table() {
        let before = upstream.received().len();
        let answer = rig.ask(request("POST", "/shop/send", &[], &bytes)).await;
        let received = upstream.received().split_off(before);
        if fine {
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            assert_eq!(received.len(), 1, "{what}");
            assert_eq!(received[0].body, bytes, "{what}: byte for byte");
        } else {
            assert_eq!(answer.status, 400, "{what}: {answer:?}");
            assert!(received.is_empty(), "{what}");
            let code = answer.code();
            let expected = match what {
                "1e400" | "nothing but white space" => ["argument_unreadable", "invalid_json"],
                _ => ["invalid_json"; 2],
            };
            assert!(expected.contains(&code.as_str()), "{what}: {code}");
        }
    }
}

#[tokio::test]
async fn an_answer_is_strict_json_or_not_passed_on() {
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    let receiver = std::sync::Mutex::new(receiver);
    let upstream = Upstream::start(move |_| {
        let body = receiver.lock().unwrap().recv().unwrap();
        crate::support::upstream::answer("200 OK", "application/json", body)
    })
    .await;
    let rig = Rig::before(&upstream.url(), "").await;
    for Case { what, bytes, fine } in table() {
        // No argument of a call: no reader has to make a number of it.
        if what == "1e400" {
            continue;
        }
        sender.send(bytes.clone()).unwrap();
        let answer = rig.ask(request("GET", "/shop/orders/1", &[], "")).await;
        if fine {
            assert_eq!((answer.status, &answer.body), (200, &bytes), "{what}");
        } else {
            assert_eq!(answer.status, 502, "{what}: {answer:?}");
            assert_eq!(answer.code(), "upstream_invalid_response", "{what}");
        }
    }
}

const EGRESS: &str = "version: 1
name: egress
layers: {catalog: off, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}
lists: {ours: {hosts: [shop.example]}}
tools:
  - {tool: send, executes_at: agent, egress: [{at: /url, allow: [ours]}]}
  - {tool: get_order, effect: read}
  - {tool: refund}
";

/// The table's text as the arguments of a call whose rule would allow it.
fn arguments(text: &str) -> String {
    let text = text.trim_start().strip_prefix('{').map_or_else(
        || text.to_owned(),
        |rest| {
            let lead = if rest.starts_with('}') { "" } else { "," };
            format!("{{\"url\":\"https://shop.example/\"{lead}{rest}")
        },
    );
    let call = serde_json::json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": null,
            "tool_calls": [{"id": "call_1", "type": "function",
                "function": {"name": "send", "arguments": text}}]}}]
    });
    call.to_string()
}

#[tokio::test]
async fn arguments_that_readers_take_apart_block_the_call() {
    let (sender, receiver) = std::sync::mpsc::channel::<String>();
    let receiver = std::sync::Mutex::new(receiver);
    let upstream = Upstream::start(move |_| json(&receiver.lock().unwrap().recv().unwrap())).await;
    let rig = Rig::start(&config(&upstream.url(), ""), EGRESS).await;
    for Case { what, bytes, fine } in table() {
        // A string of JSON is UTF-8 already, and a call's arguments have fewer levels.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        if text.len() > 100_000 || what.ends_with("levels") {
            continue;
        }
        let sent = arguments(&text);
        sender.send(sent.clone()).unwrap();
        let ask = request(
            "POST",
            "/openai/v1/chat/completions",
            &[],
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
        );
        let answer = rig.ask(ask).await;
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        if fine {
            assert_eq!(answer.text(), sent, "{what}: byte for byte");
        } else {
            assert!(
                !answer.text().contains("\"tool_calls\""),
                "{what}: {answer:?}"
            );
            assert!(
                answer.text().contains("arguments_unreadable"),
                "{what}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn keys_that_some_readers_take_for_one_are_refused_where_they_matter() {
    let upstream = Upstream::start(|_| json("{}")).await;
    let rig = Rig::before(&upstream.url(), "").await;
    let message = r#"[{"role":"user","content":"hi"}]"#;
    for (target, body) in [
        (
            "/openai/v1/chat/completions",
            format!(r#"{{"messages":{message},"Messages":[]}}"#),
        ),
        (
            "/openai/v1/chat/completions",
            format!(r#"{{"messages":{message},"mes\u017fages":[]}}"#),
        ),
        (
            "/openai/v1/chat/completions",
            format!(r#"{{"messages":{message},"messages\u0000":[]}}"#),
        ),
        (
            "/openai/v1/chat/completions",
            format!(r#"{{"messages":{message},"mess\u200bages":[]}}"#),
        ),
        (
            "/openai/v1/chat/completions",
            format!(r#"{{"messages":{message},"TOOLS":[]}}"#),
        ),
        (
            "/openai/v1/chat/completions",
            r#"{"messages":[{"role":"tool","Content":"a","content":"b"}]}"#.to_owned(),
        ),
        ("/shop/send", r#"{"url":"a","URL":"b"}"#.to_owned()),
        ("/shop/send", r#"{"url":"a","url\u0000":"b"}"#.to_owned()),
        ("/shop/send", r#"{"ask":"a","as\u212a":"b"}"#.to_owned()),
        ("/shop/send", r#"{"us":"a","u\u017f":"b"}"#.to_owned()),
    ] {
        let refused = rig.ask(request("POST", target, &[], &body)).await;
        assert_eq!(refused.status, 400, "{target} {body}: {refused:?}");
        let code = refused.code();
        assert!(
            ["invalid_request", "argument_ambiguous"].contains(&code.as_str()),
            "{body}: {code}"
        );
    }
    assert!(upstream.received().is_empty());
}

/// Every number as a double: `100` and `100.0` are one in JavaScript.
fn alike(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => serde_json::json!(number.as_f64().unwrap()),
        Value::Array(values) => values.into_iter().map(alike).collect(),
        Value::Object(map) => {
            let members = map.into_iter().map(|(key, value)| (key, alike(value)));
            members.collect()
        }
        other => other,
    }
}

/// Everything that is let through means the same to other readers: they parse it, and write the same value.
#[test]
fn what_is_let_through_other_readers_take_alike() {
    let python =
        "import json,sys\nprint(json.dumps(json.loads(sys.stdin.buffer.read()),sort_keys=True))";
    let node = "let b=[];process.stdin.on('data',d=>b.push(d)).on('end',()=>\
        console.log(JSON.stringify(JSON.parse(Buffer.concat(b).toString('utf8')))))";
    let mut read = 0;
    for Case { what, bytes, .. } in table().into_iter().filter(|case| case.fine) {
        let ours: serde_json::Value = match serde_json::from_slice(&bytes) {
            Ok(ours) => ours,
            // Its nesting is beyond what serde_json reads.
            Err(_) => continue,
        };
        for (program, flag, code) in [("python3", "-c", python), ("node", "-e", node)] {
            let Ok(mut child) = Command::new(program)
                .args([flag, code])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
            else {
                eprintln!("skipped: there is no {program}");
                continue;
            };
            child.stdin.take().unwrap().write_all(&bytes).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{program}: {what}");
            let theirs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(alike(theirs), alike(ours.clone()), "{program}: {what}");
            read += 1;
        }
    }
    eprintln!("{read} texts read by others");
}

#[tokio::test]
async fn what_is_not_edited_keeps_its_bytes_on_a_model_route() {
    let answer = "{ \"id\":\"c\",\"object\":\"chat.completion\", \"created\":1,\"x\":12345678901234567890123,\
        \"choices\":[ {\"index\":0,\"message\":{\"content\":\"a\\u0062\",\"role\":\"assistant\"},\"finish_reason\":\"stop\"} ] }";
    let upstream = Upstream::start(move |_| json(answer)).await;
    let rig = Rig::start(&config(&upstream.url(), ""), OFF).await;
    let body = "{ \"seed\" : 12345678901234567890123, \"model\":\"m\",\r\n\"messages\":[{\"content\":\"\\u0068i\",\"role\":\"user\"}] }";
    let got = rig
        .ask(request("POST", "/openai/v1/chat/completions", &[], body))
        .await;
    assert_eq!((got.status, got.text()), (200, answer));
    assert_eq!(upstream.only().text(), body);
}
