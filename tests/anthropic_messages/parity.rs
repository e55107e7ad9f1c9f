//! Parity is a law: a response gives the same items and the same client object whole and streamed, however it is cut.

use bytes::Bytes;
use holdpoint::item::{Item, Located};
use holdpoint::protocols::anthropic_messages::AnthropicMessages;
use holdpoint::settings::ModelRoute;
use holdpoint::verdict::{Reason, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::driver::{
    Decide, EVENTS, JSON, decision, deny, markup, rendered, respond, shown, streamed, whole, with,
};

#[derive(Clone, Debug)]
enum Block {
    Text(String),
    Thinking {
        words: String,
        signed: bool,
    },
    Redacted,
    Call {
        kind: &'static str,
        name: String,
        input: String,
    },
    Found,
}

#[derive(Clone, Debug)]
struct Reply {
    blocks: Vec<Block>,
    stop_reason: &'static str,
}

/// The ways in which backends stream the same blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// As the API's own documentation.
    Plain,
    /// Arguments come with the start of a block.
    AtOnce,
    /// Each block has one delta.
    OneDelta,
    /// Indices have gaps, events no names.
    Sloppy,
}

/// Chooses by a list of numbers, over and over: what proptest can shrink.
struct Dice<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl Dice<'_> {
    fn below(&mut self, limit: usize) -> usize {
        usize::from(*self.0.next().unwrap()) % limit
    }
}

impl Block {
    /// The block as it is in a whole response.
    fn whole(&self, at: usize) -> String {
        match self {
            Self::Text(words) => json!({"type": "text", "text": words}).to_string(),
            Self::Thinking { words, signed } => {
                let signature = if *signed { "c2ln" } else { "" };
                json!({"type": "thinking", "thinking": words, "signature": signature}).to_string()
            }
            Self::Redacted => json!({"type": "redacted_thinking", "data": "ZGF0YQ=="}).to_string(),
            Self::Call { kind, name, input } => {
                let name = Value::from(&**name);
                format!(r#"{{"type":"{kind}","id":"toolu_{at}","name":{name},"input":{input},"caller":{{"type":"direct"}}}}"#)
            }
            Self::Found => json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "title": "t"}]}).to_string(),
        }
    }

    /// The start of the block in a stream, and its deltas: type, key, and text in pieces.
    fn live(&self, at: usize, manner: Manner) -> (String, Vec<[String; 3]>) {
        let delta =
            |kind: &str, key: &str, text: &str| [kind.to_owned(), key.to_owned(), text.to_owned()];
        match self {
            Self::Text(words) => (
                json!({"type": "text", "text": ""}).to_string(),
                vec![delta("text_delta", "text", words)],
            ),
            Self::Thinking { words, signed } => {
                let mut deltas = vec![delta("thinking_delta", "thinking", words)];
                if *signed {
                    deltas.push(delta("signature_delta", "signature", "c2ln"));
                }
                let start = json!({"type": "thinking", "thinking": "", "signature": ""});
                (start.to_string(), deltas)
            }
            Self::Call { kind, name, input } if manner != Manner::AtOnce => {
                let empty = Self::Call {
                    kind,
                    name: name.clone(),
                    input: "{}".to_owned(),
                };
                let input = if input == "{}" { "" } else { input };
                let deltas = vec![delta("input_json_delta", "partial_json", input)];
                (empty.whole(at), deltas)
            }
            whole => (whole.whole(at), Vec::new()),
        }
    }
}

fn as_whole(reply: &Reply) -> Vec<u8> {
    let blocks = reply.blocks.iter().enumerate();
    let blocks: Vec<_> = blocks.map(|(at, block)| block.whole(at)).collect();
    format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{}],"stop_reason":"{}","stop_sequence":null,"usage":{{"input_tokens":5,"output_tokens":77}}}}"#,
        blocks.join(","),
        reply.stop_reason
    )
    .into_bytes()
}

fn pieces(text: &str, manner: Manner, dice: &mut Dice<'_>) -> Vec<String> {
    if manner == Manner::OneDelta {
        return vec![text.to_owned()];
    }
    // The first piece is often empty.
    let mut parts = vec![String::new()];
    for c in text.chars() {
        if dice.below(2) == 0 {
            parts.push(String::new());
        }
        parts.last_mut().unwrap().push(c);
    }
    parts
}

fn as_stream(reply: &Reply, manner: Manner, dice: &mut Dice<'_>) -> Vec<u8> {
    let mut data = vec![
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}"#.to_owned(),
    ];
    let mut index = 0;
    for (at, block) in reply.blocks.iter().enumerate() {
        if manner == Manner::Sloppy {
            index += dice.below(3);
        }
        let (start, deltas) = block.live(at, manner);
        data.push(format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#
        ));
        for [kind, key, text] in deltas {
            // A signature comes in one piece.
            let pieces = if key == "signature" {
                vec![text]
            } else {
                pieces(&text, manner, dice)
            };
            for piece in pieces {
                let piece = Value::from(piece);
                data.push(format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{key}":{piece}}}}}"#));
            }
        }
        data.push(format!(
            r#"{{"type":"content_block_stop","index":{index}}}"#
        ));
        index += 1;
    }
    data.push(format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{{"output_tokens":77}}}}"#,
        reply.stop_reason
    ));
    data.push(r#"{"type":"message_stop"}"#.to_owned());
    let line_end = ["\n", "\r\n", "\r"][dice.below(3)];
    let mut out = String::new();
    for data in data {
        if dice.below(5) == 0 {
            let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
            out.push_str(&ping.replace('\n', line_end));
        }
        if dice.below(6) == 0 {
            out.extend([": ka", line_end, line_end]);
        }
        if manner != Manner::Sloppy {
            let parsed: Value = serde_json::from_str(&data).unwrap();
            out.extend(["event: ", parsed["type"].as_str().unwrap(), line_end]);
        }
        out.extend(["data: ", &data, line_end, line_end]);
    }
    out.into_bytes()
}

fn cut(bytes: &[u8], single: bool, dice: &mut Dice<'_>) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = if single { 1 } else { 1 + dice.below(60) };
        let (piece, others) = rest.split_at(length.min(rest.len()));
        pieces.push(Bytes::copy_from_slice(piece));
        rest = others;
    }
    pieces
}

fn input() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => ("[a-z]{1,3}", "[ -~é☃𝄞\n]{0,12}", any::<i64>()).prop_map(|(key, text, number)| {
            json!({ key: text, "n": [number, null] }).to_string()
        }),
        2 => Just("{}".to_owned()),
        1 => Just(r#"{ "big" : 12345678901234567890123 }"#.to_owned()),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    let kinds = prop_oneof![
        8 => Just("tool_use"),
        1 => Just("server_tool_use"),
        1 => Just("mcp_tool_use"),
        1 => Just("newer_tool_use"),
    ];
    prop_oneof![
        3 => prop_oneof!["[ -~é☃\n]{0,20}", markup()].prop_map(Block::Text),
        1 => ("[a-z ]{0,9}", any::<bool>()).prop_map(|(words, signed)| Block::Thinking { words, signed }),
        1 => Just(Block::Redacted),
        5 => (kinds, "[a-z_]{0,6}", input()).prop_map(|(kind, name, input)| Block::Call { kind, name, input }),
        1 => Just(Block::Found),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let reasons = prop_oneof![6 => Just("tool_use"), 1 => Just("max_tokens"), 1 => Just("end_turn"), 1 => Just("pause_turn")];
    (prop::collection::vec(block(), 0..8), reasons).prop_map(|(blocks, stop_reason)| Reply {
        blocks,
        stop_reason,
    })
}

fn manner() -> impl Strategy<Value = Manner> {
    prop::sample::select(vec![
        Manner::Plain,
        Manner::AtOnce,
        Manner::OneDelta,
        Manner::Sloppy,
    ])
}

fn refused_by(mask: u32) -> impl Fn(&Located) -> Verdict {
    move |located| {
        if let Item::ModelText(piece) = &located.item {
            return shown(piece);
        }
        let number: u32 = located.place.pointer.bytes().map(u32::from).sum();
        match mask >> (number % 32) & 3 {
            0 | 1 => Verdict::Allow,
            2 => deny(Reason::NotOwner),
            _ => deny(Reason::HostNotAllowed),
        }
    }
}

/// Calls, and then pieces of text: a stream judges both as they come.
fn by_kind(judged: Vec<Located>) -> (Vec<Located>, Vec<Located>) {
    let is_text = |located: &Located| matches!(located.item, Item::ModelText(_));
    judged.into_iter().partition(|located| !is_text(located))
}

fn is_call(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("tool_use" | "newer_tool_use"))
}

/// What must hold of any client object, whatever the rulings were.
fn sound(client: &Value, reply: &Reply, note: bool) {
    let blocks = client["content"].as_array().unwrap();
    let offered = |block: &&Block| {
        matches!(
            block,
            Block::Call {
                kind: "tool_use" | "newer_tool_use",
                ..
            }
        )
    };
    let offered = reply.blocks.iter().filter(offered).count();
    let left = blocks.iter().filter(|block| is_call(block)).count();
    if note {
        assert_eq!(blocks.len(), reply.blocks.len());
    } else {
        assert_eq!(blocks.len(), reply.blocks.len() - (offered - left));
    }
    let emptied = reply.stop_reason == "tool_use" && offered > 0 && left == 0;
    let expected = if emptied {
        "end_turn"
    } else {
        reply.stop_reason
    };
    assert_eq!(client["stop_reason"], expected);
    assert_eq!(client["usage"]["output_tokens"], 77);
    // Behind signed reasoning all calls are there, or none.
    let signed = |block: &Block| {
        matches!(
            block,
            Block::Thinking { signed: true, .. } | Block::Redacted
        )
    };
    if let Some(from) = reply.blocks.iter().position(signed) {
        let bound = |block: &&Block| {
            matches!(
                block,
                Block::Call {
                    kind: "tool_use" | "newer_tool_use",
                    ..
                }
            )
        };
        let bound = reply.blocks[from..].iter().filter(bound).count();
        let before = offered - bound;
        let ids: Vec<usize> = blocks
            .iter()
            .filter(|block| is_call(block))
            .map(|block| {
                block["id"].as_str().unwrap()["toolu_".len()..]
                    .parse()
                    .unwrap()
            })
            .collect();
        let left = ids.iter().filter(|id| **id > from).count();
        assert!(
            left == 0 || left == bound,
            "{left} of {bound} calls, {before} before"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn whole_and_streamed_are_one(
        reply in reply(),
        manner in manner(),
        mask: u32,
        single: bool,
        note: bool,
        renders: bool,
        numbers in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let respond = |adapter: &AnthropicMessages, kind: &str, pieces: &[Bytes], decide: Decide<'_>| {
            let respond = if renders { rendered } else { respond };
            respond(adapter, kind, pieces, decide)
        };
        let mut dice = Dice(numbers.iter().cycle());
        let adapter = with(ModelRoute { note, ..ModelRoute::default() });
        let judge = refused_by(mask);
        let decide = |items: &[Located]| decision(items, &judge);
        let plain = respond(&adapter, JSON, &[as_whole(&reply).into()], &decide).unwrap();
        let stream = as_stream(&reply, manner, &mut dice);
        let live = respond(&adapter, EVENTS, &cut(&stream, single, &mut dice), &decide).unwrap();

        let client = whole(&plain.sent);
        sound(&client, &reply, note);
        prop_assert_eq!(streamed(&live.sent), client);
        prop_assert_eq!(by_kind(live.judged), by_kind(plain.judged));
    }

    #[test]
    fn what_is_allowed_is_what_the_upstream_sent(
        reply in reply(),
        manner in manner(),
        numbers in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let mut dice = Dice(numbers.iter().cycle());
        let adapter = with(ModelRoute::default());
        let decide = |items: &[Located]| {
            let mut decision = decision(items, &|_| Verdict::Allow);
            // Even the calls without a name, which the guard would refuse.
            for ruling in &mut decision.rulings {
                ruling.verdict = Verdict::Allow;
            }
            decision
        };
        let stream = as_stream(&reply, manner, &mut dice);
        let pieces = cut(&stream, false, &mut dice);
        let live = respond(&adapter, EVENTS, &pieces, &decide).unwrap();
        prop_assert_eq!(streamed(&live.sent), whole(&as_whole(&reply)));
    }

    #[test]
    fn a_stream_that_is_cut_never_gives_a_call_that_was_not_judged(
        reply in reply(),
        manner in manner(),
        keep: prop::sample::Index,
        numbers in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let mut dice = Dice(numbers.iter().cycle());
        let stream = as_stream(&reply, manner, &mut dice);
        let cut = Bytes::copy_from_slice(&stream[..keep.index(stream.len())]);
        let adapter = with(ModelRoute::default());
        let decide = |items: &[Located]| decision(items, &|_| Verdict::Allow);
        let Ok(live) = respond(&adapter, EVENTS, &[cut], &decide) else {
            return Ok(());
        };
        let sent = String::from_utf8(live.sent).unwrap();
        let started = sent.matches("\"id\":\"toolu_").count();
        let provider = sent.matches("\"type\":\"server_tool_use\"").count()
            + sent.matches("\"type\":\"mcp_tool_use\"").count();
        let judged = live.judged.iter().filter(|l| matches!(l.item, Item::ToolCall(_))).count();
        prop_assert!(started - provider <= judged);
    }
}
