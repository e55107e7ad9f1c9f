//! What it costs to know who said what in a conversation of 200 turns: the turn that proposes one call, with and without.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use criterion::{Criterion, Throughput};
use holdpoint::guard::{Guard, Parts};
use holdpoint::item::{Arguments, Item, Leg, Located, Place, ToolCall};
use holdpoint::policy;
use holdpoint::protocols::Protocol;
use holdpoint::protocols::openai_chat::OpenAiChat;
use holdpoint::provenance::Evidence;
use holdpoint::settings::{Limits, ModelRoute};
use holdpoint::verdict::Verdict;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{exchange, read_request};

/// Messages of the conversation.
const TURNS: usize = 200;
/// About as many bytes does a tool give back each time.
const OUTPUT: usize = 1024;

/// One call is judged by a list, or by where its recipient comes from.
fn guard(allow: &str) -> Result<Guard> {
    let text = format!(
        "version: 1
name: bench
layers: {{catalog: off, identity: off, egress: off, recipients: enforce, ownership: off, injection: off, tickets: off}}
lists: {{staff: {{emails: [ann.99@x.example]}}}}
tools:
  - {{tool: send, recipients: [{{at: /to, kind: email, allow: [{allow}]}}]}}
  - {{tool: \"*\", effect: read}}
"
    );
    let policy = policy::parse("bench.yaml", text).map_err(|problems| anyhow!("{problems}"))?;
    let policy = Arc::new(policy);
    let modes = policy.modes.clone();
    Guard::new(policy, &modes, Parts::default()).map_err(|problems| anyhow!("{problems}"))
}

/// A user who asks, a model that calls, a tool that answers with a list of people.
fn conversation() -> Bytes {
    let messages = (0..TURNS).map(|turn| match turn % 4 {
        0 => json!({"role": "user", "content": format!("Look up the people of team {turn} and tell me who of them is on call this week, please.")}),
        1 => {
            let arguments = json!({"team": turn.to_string()}).to_string();
            json!({"role": "assistant", "tool_calls": [
                {"id": format!("call-{turn}"), "type": "function", "function": {"name": "find_contacts", "arguments": arguments}}
            ]})
        }
        2 => {
            let person = |n: usize| {
                json!({"name": format!("Ann Number {n}"), "email": format!("ann.{n}@x.example"), "note": "on call from Monday to Friday, in the afternoon"})
            };
            let people: Vec<Value> = (turn..turn + OUTPUT / 128).map(person).collect();
            json!({"role": "tool", "tool_call_id": format!("call-{}", turn - 1), "content": json!(people).to_string()})
        }
        _ => json!({"role": "assistant", "content": format!("Of team {turn} one person is on call.")}),
    });
    let messages: Vec<Value> = messages.collect();
    json!({"model": "m", "messages": messages})
        .to_string()
        .into()
}

/// What becomes of who said what.
#[derive(Clone, Copy)]
enum Heard {
    Not,
    /// The process knows the texts.
    Before,
    Anew,
}

/// Reads the request, and judges the call that the model answers with.
async fn turn(guard: &Guard, protocol: &OpenAiChat, heard: Heard, body: Bytes) -> Result<()> {
    let request = read_request(body)?;
    let asked = exchange(Leg::ToUpstream, protocol.read(&request)?);
    guard.decide(&asked).await?;
    let args = Arguments::read(Bytes::from_static(br#"{"to": "ann.99@x.example"}"#));
    let call = ToolCall::new("send".into(), args.map_err(|error| anyhow!("{error:?}"))?);
    let located = Located {
        place: Place::default(),
        item: Item::ToolCall(call),
    };
    let mut answered = exchange(Leg::ToAgent, vec![located]);
    answered.evidence = match heard {
        Heard::Not => None,
        Heard::Before => Some(Arc::new(Evidence::known(protocol.said(&request)?))),
        Heard::Anew => Some(Arc::new(Evidence::of(protocol.said(&request)?))),
    };
    let decision = guard.decide(&answered).await?;
    let passes = decision
        .rulings
        .iter()
        .all(|ruling| ruling.verdict == Verdict::Allow);
    ensure!(passes, "the call does not pass");
    Ok(())
}

pub fn provenance(criterion: &mut Criterion, runtime: &Runtime) -> Result<()> {
    let protocol = OpenAiChat::new(&Limits::default(), &ModelRoute::default());
    let body = conversation();
    let listed = guard("staff")?;
    let traced = guard("{from: user}, {from: tool_output, tools: find_contacts, fields: email}")?;
    let mut group = criterion.benchmark_group("provenance");
    group.throughput(Throughput::Bytes(u64::try_from(body.len())?));
    runtime.block_on(turn(&listed, &protocol, Heard::Not, body.clone()))?;
    group.bench_function("200 turns, without", |bencher| {
        bencher.iter(|| {
            runtime.block_on(turn(
                &listed,
                &protocol,
                Heard::Not,
                black_box(body.clone()),
            ))
        });
    });
    runtime.block_on(turn(&traced, &protocol, Heard::Before, body.clone()))?;
    group.bench_function("200 turns, with, texts came before", |bencher| {
        bencher.iter(|| {
            runtime.block_on(turn(
                &traced,
                &protocol,
                Heard::Before,
                black_box(body.clone()),
            ))
        });
    });
    group.bench_function("200 turns, with, all texts new", |bencher| {
        bencher.iter(|| {
            runtime.block_on(turn(
                &traced,
                &protocol,
                Heard::Anew,
                black_box(body.clone()),
            ))
        });
    });
    group.finish();
    Ok(())
}
