//! `OpenAI` Chat Completions.

use serde_json::{Value, json};

use crate::MODEL;
use crate::script::{Asked, Call, Manner, Piece, ends_in_result, pieces};

/// An error's body.
pub fn error(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "requests", "param": null, "code": code}})
}

fn base(kind: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": MODEL,
        "system_fingerprint": "fp_1", "service_tier": "default",
    })
}

fn usage() -> Value {
    json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12})
}

fn call(call: &Call, arguments: &str) -> Value {
    json!({
        "id": format!("call_{}", call.number), "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    })
}

/// How many choices the request asks for.
fn choices(request: &Value) -> u64 {
    request["n"].as_u64().unwrap_or(1)
}

/// A whole answer.
pub fn whole(asked: &Asked, request: &Value) -> String {
    let turn = asked.turn(ends_in_result(request));
    let mut message = json!({"role": "assistant", "content": turn.text, "refusal": null});
    if !turn.calls.is_empty() {
        message["tool_calls"] = turn.calls.iter().map(|c| call(c, &c.arguments)).collect();
    }
    let reason = if turn.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let mut answer = base("chat.completion");
    answer["choices"] = (0..choices(request))
        .map(|index| {
            json!({"index": index, "message": message, "logprobs": null, "finish_reason": reason})
        })
        .collect();
    answer["usage"] = usage();
    answer.to_string()
}

/// A streamed answer, each delta once for every choice.
pub fn stream(asked: &Asked, request: &Value) -> Vec<Piece> {
    let turn = asked.turn(ends_in_result(request));
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = base("chat.completion.chunk");
        chunk["choices"] = choices;
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        Piece::Event(None, chunk.to_string())
    };
    let of_all = |out: &mut Vec<Piece>, delta: &Value, reason: Option<&str>| {
        for index in 0..choices(request) {
            let choice =
                json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": reason});
            out.push(chunk(json!([choice]), None));
        }
    };
    let mut out = Vec::new();
    let content = turn.text.as_ref().map(|_| "");
    of_all(
        &mut out,
        &json!({"role": "assistant", "content": content, "refusal": null}),
        None,
    );
    for letter in pieces(turn.text.as_deref().unwrap_or_default(), 1) {
        of_all(&mut out, &json!({"content": letter}), None);
    }
    let fragments = fragments(asked, &turn.calls);
    let last = fragments.len().saturating_sub(1);
    for (number, fragment) in fragments.into_iter().enumerate() {
        if number == 2 && asked.is(Manner::Stall) {
            out.push(Piece::Stall);
        }
        if number == last && asked.is(Manner::Cut) {
            out.push(Piece::Cut);
            return out;
        }
        if number == last && asked.is(Manner::Error) {
            let error = error("server_error", "the model fell over");
            out.push(Piece::Event(None, error.to_string()));
            return out;
        }
        of_all(&mut out, &json!({"tool_calls": [fragment]}), None);
    }
    let reason = if turn.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    of_all(&mut out, &json!({}), Some(reason));
    if request["stream_options"]["include_usage"] == json!(true) {
        out.push(chunk(json!([]), Some(usage())));
    }
    out.push(Piece::Event(None, "[DONE]".to_owned()));
    out
}

/// The calls as fragments of `tool_calls`, in the order in which they come.
fn fragments(asked: &Asked, calls: &[Call]) -> Vec<Value> {
    let mut of_calls: Vec<Vec<Value>> = Vec::new();
    for (position, proposed) in calls.iter().enumerate() {
        let index = if asked.is(Manner::SameIndex) {
            0
        } else if asked.is(Manner::Gaps) {
            position * 2 + 1
        } else {
            position
        };
        if asked.is(Manner::NoIndex) {
            of_calls.push(vec![call(proposed, &proposed.arguments)]);
            continue;
        }
        let mut opening = call(proposed, "");
        opening["index"] = json!(index);
        let mut own = vec![opening.clone()];
        for piece in pieces(&proposed.arguments, 3) {
            let fragment = if asked.is(Manner::Repeated) {
                let mut fragment = opening.clone();
                fragment["function"]["arguments"] = json!(piece);
                fragment
            } else {
                json!({"index": index, "function": {"arguments": piece}})
            };
            own.push(fragment);
        }
        of_calls.push(own);
    }
    if !asked.is(Manner::Interleaved) {
        return of_calls.into_iter().flatten().collect();
    }
    let longest = of_calls.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest)
        .flat_map(|at| of_calls.iter().filter_map(move |own| own.get(at).cloned()))
        .collect()
}
