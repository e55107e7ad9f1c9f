//! Parity is a law: a response gives the same items and the same client object whole and streamed, however it is cut.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use holdpoint::item::{Item, Located};
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::settings::{ModelRoute, Wrapped};
use holdpoint::verdict::{Reason, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::driver::{
    Client, Decide, EVENTS, JSON, decision, deny, markup, rendered, respond, shown, streamed,
    whole, with,
};

#[derive(Clone, Debug)]
struct Reply {
    content: Option<String>,
    calls: Vec<Call>,
    legacy: Option<(String, String)>,
    /// Calls in members that nobody knows.
    strays: Vec<(String, String)>,
    seal: Option<Seal>,
}

/// Where a provider has sealed the turn of one choice, or has a seal that is empty.
#[derive(Clone, Copy, Debug)]
enum Seal {
    /// On its first call, or beside its reasoning where it has none.
    Call,
    /// Beside its reasoning.
    Reasoning,
    /// It says that there is none.
    Empty,
}

#[derive(Clone, Debug)]
struct Call {
    custom: bool,
    name: String,
    text: String,
}

/// The ways in which backends stream the same calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// As the API's own documentation.
    Plain,
    /// Id, type and name come with every fragment.
    Repeating,
    /// Every call claims index 0.
    IndexZero,
    /// No index at all, an id with every fragment.
    NoIndex,
    /// Each call in one fragment.
    AtOnce,
}

/// Chooses by a list of numbers, over and over: what proptest can shrink.
struct Dice<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl Dice<'_> {
    fn below(&mut self, limit: usize) -> usize {
        usize::from(*self.0.next().unwrap()) % limit
    }
}

fn id(choice: usize, call: usize) -> String {
    format!("call_{choice}_{call}")
}

fn body(call: &Call, text: &str, named: bool) -> (&'static str, Value) {
    let (kind, key) = if call.custom {
        ("custom", "input")
    } else {
        ("function", "arguments")
    };
    let mut body = json!({ key: text });
    if named {
        body["name"] = json!(call.name);
    }
    (kind, body)
}

/// What is on the call of this number.
fn call_seal(reply: &Reply, number: usize) -> Option<Value> {
    let sealed = number == 0 && matches!(reply.seal, Some(Seal::Call));
    sealed.then(|| json!({ "google": { "thought_signature": "c2VhbA==" } }))
}

/// What is beside the calls.
fn reasoning(reply: &Reply) -> Option<Value> {
    let signature = match reply.seal? {
        Seal::Call if !reply.calls.is_empty() => return None,
        Seal::Call | Seal::Reasoning => "c2VhbA==",
        Seal::Empty => "",
    };
    Some(json!([{ "type": "reasoning.text", "text": "why", "signature": signature }]))
}

fn finish_reason(reply: &Reply) -> &'static str {
    match (&reply.legacy, reply.calls.len()) {
        (None, 0) if reply.strays.is_empty() => "stop",
        (Some(_), 0) => "function_call",
        _ => "tool_calls",
    }
}

fn as_whole(replies: &[Reply]) -> Vec<u8> {
    let choices = replies.iter().enumerate().map(|(at, reply)| {
        let mut message = json!({ "role": "assistant", "content": reply.content });
        let calls = reply.calls.iter().enumerate().map(|(number, call)| {
            let (kind, body) = body(call, &call.text, true);
            let mut element = json!({ "id": id(at, number), "type": kind, kind: body });
            if let Some(seal) = call_seal(reply, number) {
                element["extra_content"] = seal;
            }
            element
        });
        if !reply.calls.is_empty() {
            message["tool_calls"] = calls.collect();
        }
        if let Some((name, text)) = &reply.legacy {
            message["function_call"] = json!({ "name": name, "arguments": text });
        }
        if let Some(reasoning) = reasoning(reply) {
            message["reasoning_details"] = reasoning;
        }
        for (number, (name, text)) in reply.strays.iter().enumerate() {
            message[format!("x{number}")] = json!({ "name": name, "arguments": text });
        }
        json!({ "index": at, "message": message, "finish_reason": finish_reason(reply) })
    });
    let choices: Value = choices.collect();
    json!({ "id": "chatcmpl-1", "object": "chat.completion", "choices": choices })
        .to_string()
        .into_bytes()
}

fn fragments(text: &str, manner: Manner, dice: &mut Dice<'_>) -> Vec<String> {
    if manner == Manner::AtOnce || text.is_empty() {
        return vec![text.to_owned()];
    }
    // The first fragment is often empty.
    let mut parts = vec![String::new()];
    for c in text.chars() {
        if dice.below(2) == 0 {
            parts.push(String::new());
        }
        parts.last_mut().unwrap().push(c);
    }
    parts
}

/// The deltas of one choice, in an order that a backend could send.
fn deltas(at: usize, reply: &Reply, manner: Manner, dice: &mut Dice<'_>) -> Vec<Value> {
    let mut deltas = vec![json!({ "role": "assistant", "content": null })];
    let words = reply.content.as_deref().unwrap_or_default();
    for part in fragments(words, Manner::Plain, dice) {
        deltas.push(json!({ "content": part }));
    }
    let mut rest = interleaved(call_deltas(at, reply, manner, dice), manner, dice);
    for (number, (name, text)) in reply.strays.iter().enumerate() {
        let from = if number == 0 { 0 } else { rest.len() };
        let place = from + dice.below(rest.len() + 1 - from);
        let stray = json!({ format!("x{number}"): { "name": name, "arguments": text } });
        rest.insert(place, stray);
    }
    if let Some(reasoning) = reasoning(reply) {
        let place = dice.below(rest.len() + 1);
        rest.insert(place, json!({ "reasoning_details": reasoning }));
    }
    for mut delta in rest {
        if dice.below(6) == 0 {
            delta["role"] = json!("assistant");
        }
        // Some deltas say text and call at once, or a call in both forms.
        let members = delta.as_object().unwrap().clone();
        match deltas.last_mut().filter(|_| dice.below(5) == 0) {
            Some(last)
                if members
                    .keys()
                    .all(|key| key == "role" || last.get(key).is_none()) =>
            {
                last.as_object_mut().unwrap().extend(members);
            }
            _ => deltas.push(delta),
        }
    }
    deltas
}

/// The deltas of each call.
fn call_deltas(
    at: usize,
    reply: &Reply,
    manner: Manner,
    dice: &mut Dice<'_>,
) -> Vec<VecDeque<Value>> {
    let mut calls = Vec::new();
    for (number, call) in reply.calls.iter().enumerate() {
        let mut deltas = VecDeque::new();
        for (turn, part) in fragments(&call.text, manner, dice).iter().enumerate() {
            let first = turn == 0 || manner == Manner::Repeating;
            let (kind, body) = body(call, part, first);
            let mut fragment = json!({ kind: body });
            match manner {
                Manner::NoIndex => {}
                Manner::IndexZero => fragment["index"] = json!(0),
                _ => fragment["index"] = json!(number),
            }
            if first || manner == Manner::NoIndex {
                fragment["id"] = json!(id(at, number));
                fragment["type"] = json!(kind);
            }
            let seals = turn == 0 || manner == Manner::Repeating;
            if let Some(seal) = call_seal(reply, number).filter(|_| seals) {
                fragment["extra_content"] = seal;
            }
            deltas.push_back(json!({ "tool_calls": [fragment] }));
        }
        calls.push(deltas);
    }
    if let Some((name, text)) = &reply.legacy {
        let mut deltas = VecDeque::new();
        for (turn, part) in fragments(text, manner, dice).iter().enumerate() {
            let mut call = json!({ "arguments": part });
            if turn == 0 || manner == Manner::Repeating {
                call["name"] = json!(name);
            }
            deltas.push_back(json!({ "function_call": call }));
        }
        calls.push(deltas);
    }
    calls
}

/// One after the other; in any order where an index tells them apart.
fn interleaved(mut calls: Vec<VecDeque<Value>>, manner: Manner, dice: &mut Dice<'_>) -> Vec<Value> {
    let mut out = Vec::new();
    while !calls.is_empty() {
        let at = match manner {
            Manner::Plain | Manner::Repeating | Manner::AtOnce => dice.below(calls.len()),
            Manner::IndexZero | Manner::NoIndex => 0,
        };
        out.extend(calls[at].pop_front());
        calls.retain(|rest| !rest.is_empty());
    }
    out
}

fn as_stream(replies: &[Reply], manner: Manner, dice: &mut Dice<'_>) -> Vec<u8> {
    let line_end = ["\n", "\r\n", "\r"][dice.below(3)];
    let mut queues: Vec<_> = replies
        .iter()
        .enumerate()
        .map(|(at, reply)| {
            let mut choices: Vec<_> = deltas(at, reply, manner, dice)
                .into_iter()
                .map(|delta| {
                    let reason = [json!(null), json!("")][dice.below(2)].clone();
                    let mut choice =
                        json!({ "index": at, "delta": delta, "finish_reason": reason });
                    if dice.below(4) == 0 {
                        choice["content_filter_results"] = json!({ "hate": { "filtered": false } });
                    }
                    choice
                })
                .collect();
            let reason = json!(finish_reason(reply));
            if dice.below(3) == 0 {
                choices.last_mut().unwrap()["finish_reason"] = reason;
            } else {
                choices.push(json!({ "index": at, "delta": {}, "finish_reason": reason }));
            }
            choices.reverse();
            (at, choices)
        })
        .collect();
    let mut out = String::new();
    if dice.below(3) == 0 {
        let chunk = json!({ "id": "chatcmpl-1", "choices": [], "prompt_filter_results": [] });
        out.extend(["data: ", &chunk.to_string(), line_end, line_end]);
    }
    while !queues.is_empty() {
        let at = dice.below(queues.len());
        let mut choices = vec![queues[at].1.pop().unwrap()];
        // Now and then two choices share a chunk.
        let other = dice.below(queues.len());
        if other != at && dice.below(3) == 0 {
            choices.push(queues[other].1.pop().unwrap());
        }
        queues.retain(|(_, rest)| !rest.is_empty());
        let mut chunk = json!({ "id": "chatcmpl-1", "choices": choices });
        if dice.below(4) == 0 {
            chunk["obfuscation"] = json!("pad");
        }
        out.extend(["data: ", &chunk.to_string(), line_end, line_end]);
        if dice.below(6) == 0 {
            out.extend([": ka", line_end, line_end]);
        }
    }
    out.extend(["data: [DONE]", line_end, line_end]);
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

/// What was judged, by place: in a stream the choices end in any order. Only text comes in pieces.
fn items(judged: Vec<Located>) -> BTreeMap<String, Vec<Item>> {
    let mut items: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for located in judged {
        let there = items.entry(located.place.pointer).or_default();
        let is_text = matches!(located.item, Item::ModelText(_));
        assert!(is_text || there.is_empty(), "a place was judged twice");
        there.push(located.item);
    }
    items
}

fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => ("[a-z]{1,3}", "[ -~é☃𝄞\n]{0,12}", any::<i64>()).prop_map(|(key, text, number)| {
            json!({ key: text, "n": [number, null] }).to_string()
        }),
        1 => Just(String::new()),
        1 => Just(r#"{"big":12345678901234567890123}"#.to_owned()),
        1 => Just(r#"{"a":1,"a":2}"#.to_owned()),
        1 => Just("[1]".to_owned()),
        1 => "[ -~é]{1,8}",
        1 => Just(r#"{"name":"inner","arguments":{"a":1}}"#.to_owned()),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let name = prop_oneof![4 => "[a-z_]{1,6}", 1 => Just("wrapper".to_owned())];
    (prop::bool::weighted(0.2), name, arguments()).prop_map(|(custom, name, text)| Call {
        custom,
        name,
        text,
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    (
        prop::option::of(prop_oneof!["[ -~é☃\n]{0,20}", markup()]),
        prop::collection::vec(call(), 0..6),
        prop::option::weighted(0.2, ("[a-z]{1,4}", arguments())),
        prop::collection::vec(("[a-z]{1,4}", arguments()), 0..3),
        prop::option::of(seal()),
    )
        .prop_map(|(content, calls, legacy, strays, seal)| Reply {
            content,
            calls,
            legacy,
            strays,
            seal,
        })
}

fn seal() -> impl Strategy<Value = Seal> {
    prop::sample::select(vec![Seal::Call, Seal::Reasoning, Seal::Empty])
}

/// Within each choice that is sealed, its calls have gone all or none.
fn undivided(client: &Client, replies: &[Reply]) {
    for (at, choice) in client {
        let reply = &replies[usize::try_from(*at).unwrap()];
        let calls = reply.calls.len() + usize::from(reply.legacy.is_some());
        let left = choice.calls.len() + usize::from(choice.legacy.is_some());
        if matches!(reply.seal, Some(Seal::Call | Seal::Reasoning)) {
            assert!(left == 0 || left == calls, "a sealed turn is divided");
        }
    }
}

fn manner() -> impl Strategy<Value = Manner> {
    prop::sample::select(vec![
        Manner::Plain,
        Manner::Repeating,
        Manner::IndexZero,
        Manner::NoIndex,
        Manner::AtOnce,
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

fn no_gaps(client: &Client, replies: &[Reply]) {
    for (at, choice) in client {
        let reply = &replies[usize::try_from(*at).unwrap()];
        let left = choice.calls.len() + usize::from(choice.legacy.is_some()) + choice.strays.len();
        let expected = if left == 0 {
            "stop"
        } else {
            finish_reason(reply)
        };
        assert_eq!(choice.finish_reason, expected);
    }
}

fn unwrapping() -> OpenAiChat {
    with(&ModelRoute {
        wrapped: vec![Wrapped {
            tool: "wrapper".into(),
            name: "/name".to_owned(),
            arguments: "/arguments".to_owned(),
            beside: Vec::new(),
        }],
        ..ModelRoute::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whole_and_streamed_are_one(
        replies in prop::collection::vec(reply(), 1..4),
        manner in manner(),
        mask: u32,
        single: bool,
        renders: bool,
        numbers in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let respond = |kind: &str, pieces: &[Bytes], decide: Decide<'_>| {
            if renders {
                rendered(&unwrapping(), kind, pieces, decide)
            } else {
                respond(&unwrapping(), 200, kind, pieces, decide)
            }
        };
        let mut dice = Dice(numbers.iter().cycle());
        let judge = refused_by(mask);
        let decide = |items: &[Located]| decision(items, &judge);
        let body = as_whole(&replies);
        let plain = respond(JSON, &[body.into()], &decide).unwrap();
        let stream = as_stream(&replies, manner, &mut dice);
        let pieces = cut(&stream, single, &mut dice);
        let live = respond(EVENTS, &pieces, &decide).unwrap();

        let client = whole(&plain.sent);
        no_gaps(&client, &replies);
        undivided(&client, &replies);
        prop_assert_eq!(streamed(&live.sent), client);
        prop_assert_eq!(items(live.judged), items(plain.judged));
    }

    #[test]
    fn a_stream_that_is_cut_never_gives_a_call_that_was_not_judged(
        replies in prop::collection::vec(reply(), 1..3),
        manner in manner(),
        keep: prop::sample::Index,
        numbers in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let mut dice = Dice(numbers.iter().cycle());
        // Behind a seal, one that cannot be read takes the others with it.
        let replies: Vec<_> = replies.into_iter().map(|reply| Reply { seal: None, ..reply }).collect();
        let stream = as_stream(&replies, manner, &mut dice);
        let cut = Bytes::copy_from_slice(&stream[..keep.index(stream.len())]);
        let decide = |items: &[Located]| decision(items, &|_| Verdict::Allow);
        let Ok(live) = respond(&unwrapping(), 200, EVENTS, &[cut], &decide) else {
            return Ok(());
        };
        let judged = items(live.judged);
        let calls: usize = streamed(&live.sent)
            .values()
            .map(|choice| choice.calls.len() + usize::from(choice.legacy.is_some()) + choice.strays.len())
            .sum();
        let readable = judged.values().flatten().filter(|item| matches!(item, Item::ToolCall(_))).count();
        prop_assert_eq!(calls, readable);
    }
}
