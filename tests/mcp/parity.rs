//! One law: an answer is judged alike and reaches the client alike, as JSON or as events, however its bytes are cut.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::driver::*;

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z é☃\n\"]{0,12}",
        "[a-z]{0,4}".prop_map(|before| format!("{before} {BAD} after")),
        Just("IGNORE-".to_owned()),
        Just("THIS".to_owned()),
    ]
}

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => words().prop_map(|text| json!({"type": "text", "text": text})),
        1 => words().prop_map(|text| json!({"type": "resource", "resource": {"uri": "x:", "text": text}})),
        1 => words().prop_map(|text| json!({"type": "resource", "resource": {"uri": "x:", "blob": data_encoding::BASE64.encode(text.as_bytes())}})),
        1 => words().prop_map(|text| json!({"type": "resource_link", "uri": "x:", "name": text})),
        1 => Just(json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})),
    ]
}

fn body() -> impl Strategy<Value = Value> {
    let result = (
        prop::collection::vec(part(), 0..5),
        prop::option::of((words(), any::<i32>())),
        any::<bool>(),
    )
        .prop_map(|(content, structured, failed)| {
            let mut result = json!({"content": content, "isError": failed});
            if let Some((text, n)) = structured {
                result["structuredContent"] = json!({"said": text, "n": n});
            }
            json!({"jsonrpc": "2.0", "id": 1, "result": result})
        });
    let error = words().prop_map(
        |text| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": text}}),
    );
    prop_oneof![5 => result, 1 => error]
}

fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(bytes.len());
    let mut from = 0;
    let pieces = ends.into_iter().map(|to| {
        let piece = Bytes::copy_from_slice(&bytes[from..to]);
        from = to;
        piece
    });
    pieces.collect()
}

/// The message as events, its lines ended and its JSON laid out in any way.
fn stream(message: &str, before: usize, ending: &str) -> Vec<u8> {
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}});
    let mut text = ": hello\n\nid: 1\ndata\n\n".to_owned();
    for _ in 0..before {
        text.push_str(&event(&progress));
    }
    text.push_str("event: message\nid: 2\n");
    for line in message.lines() {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.replace('\n', ending).into_bytes()
}

proptest! {
    #[test]
    fn json_and_events_are_one(
        body in body(),
        pretty in any::<bool>(),
        before in 0_usize..3,
        ending in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        cuts in prop::collection::vec(any::<usize>(), 0..20),
        whole in any::<bool>(),
    ) {
        let ask = call("1", "get", "{}");
        let judge: Judge<'_> = if whole { &block } else { &redact };
        let message = if pretty {
            serde_json::to_string_pretty(&body).unwrap()
        } else {
            body.to_string()
        };
        let plain = json_answer(&ask, &message, judge).unwrap();
        prop_assert!(!plain.text().contains(BAD));

        let pieces = cut(message.as_bytes(), &cuts);
        let again = answer(&adapter(), &ask, &head(200, JSON), &pieces, judge).unwrap();
        prop_assert_eq!(&again.sent, &plain.sent);
        prop_assert_eq!(&again.judged, &plain.judged);

        let pieces = cut(&stream(&message, before, ending), &cuts);
        let events = answer(&adapter(), &ask, &head(200, EVENTS), &pieces, judge).unwrap();
        let messages = events.messages();
        prop_assert_eq!(messages.len(), before + 1);
        prop_assert_eq!(messages.last().unwrap(), &plain.json());
        let skipped = events.judged.len() - plain.judged.len();
        prop_assert_eq!(&events.judged[skipped..], &plain.judged[..]);
    }
}
