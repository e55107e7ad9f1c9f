//! Calls that wait for their answer: on tool routes, on MCP, in a model's turn.

use holdpoint::names::TicketId;
use holdpoint::store::tickets::{Answer, Channel, Decider, Person, TicketState, Verdict, Voter};
use serde_json::{Value, json};

use crate::support::client::{self, request};
use crate::support::upstream::{EVENTS, Gate, Received, Step, answer, chunk, send};
use crate::table::desk::{ANN, Call, DONE, Desk, POLICY, Shelf, done, holding, mcp, refund, told};
use crate::table::today::modern;

async fn desk(policy: &str, more: &str) -> Desk {
    Desk::with(&Shelf::sqlite(), policy, more, done).await
}

async fn first(desk: &Desk) -> TicketId {
    desk.asked(1).await[0].id.clone()
}

#[tokio::test]
async fn a_held_request_is_answered_with_what_the_approved_call_gives() {
    let desk = desk(&holding("50s"), "").await;
    let mut client = desk.begin(&refund()).await;
    let ticket = first(&desk).await;
    desk.waiting(1).await;
    assert_eq!(desk.reached(), 0);
    desk.approve(&ticket).await;
    let sent = client.answer().await;
    assert_eq!((sent.status, sent.text()), (201, DONE));
    assert_eq!(sent.header("holdpoint-replayed"), None);
    assert_eq!(desk.state(&ticket).await, TicketState::Succeeded);
    assert_eq!(desk.reached(), 1);
}

#[tokio::test]
async fn who_waits_in_vain_is_told_so() {
    let desk = desk(&holding("1s"), "").await;
    let (status, code) = desk.code(&refund()).await;
    assert_eq!((status, code.as_str()), (403, "approval_required"));
    let (status, code) = desk.code(&refund()).await;
    assert_eq!((status, code.as_str()), (403, "approval_pending"));
    assert_eq!((desk.all().await.len(), desk.reached()), (1, 0));
}

#[tokio::test]
async fn a_person_says_why_not() {
    let desk = desk(&holding("50s"), "").await;
    let mut client = desk.begin(&refund()).await;
    let ticket = first(&desk).await;
    desk.waiting(1).await;
    let no = Answer {
        ticket,
        verdict: Verdict::Deny,
        by: Decider::Local("root".to_owned()),
        digest_prefix: None,
        comment: Some("Ask for a \"credit note\"\n\u{202e}instead.".to_owned()),
    };
    desk.store().answer(no).await.unwrap();
    let told = client.answer().await;
    assert_eq!(
        (told.status, told.code().as_str()),
        (403, "approval_denied")
    );
    let comment = "\"Ask for a \\\"credit note\\\"\\n\\u{202e}instead.\"";
    assert_eq!(told.json()["comment"], comment);
    assert_eq!(told.json()["tell_user"], "A person refused this.");
}

#[tokio::test]
async fn identical_calls_share_one_result() {
    let gate = Gate::default();
    let opened = gate.clone();
    let script = move |_: &_| {
        let whole = answer("201 Created", "application/json", DONE);
        [vec![Step::Wait(opened.clone())], whole].concat()
    };
    let desk = Desk::with(&Shelf::sqlite(), &holding("50s"), "", script).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(desk.begin(&refund()).await);
    }
    desk.waiting(5).await;
    let ticket = first(&desk).await;
    desk.approve(&ticket).await;
    desk.reaches(1).await;
    gate.open();
    let mut replayed = 0;
    for client in &mut clients {
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.text()), (201, DONE));
        replayed += usize::from(answer.header("holdpoint-replayed").is_some());
    }
    assert_eq!((replayed, desk.reached()), (4, 1));
}

#[tokio::test]
async fn a_shutdown_keeps_nobody_waiting() {
    let mut desk = desk(&holding("55s"), "timeouts: {drain: 50s}").await;
    let mut client = desk.begin(&refund()).await;
    desk.waiting(1).await;
    let ended = desk.rig.take().shutdown();
    let (ended, told) = tokio::join!(ended, client.answer());
    assert_eq!(ended, holdpoint::serve::Drained::Whole);
    assert_eq!(
        (told.status, told.code().as_str()),
        (403, "approval_required")
    );
    assert_eq!(desk.reached(), 0);
}

/// What an MCP server says to a call.
fn server(got: &Received) -> Vec<Step> {
    let message: Value = serde_json::from_slice(&got.body).unwrap();
    let result = json!({"content": [{"type": "text", "text": "refunded"}]});
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    answer("200 OK", "application/json", body.to_string())
}

fn call(id: u64, meta: &Value) -> Call {
    let call = mcp(ANN, id, "refund", Value::Null);
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "refund", "arguments": {"order": "A-1", "amount": 5}, "_meta": meta}});
    call.saying(&body.to_string())
}

#[tokio::test]
async fn an_mcp_client_sees_progress_while_its_call_waits() {
    let more = "timeouts: {keep_alive: 100ms}";
    let desk = Desk::with(&Shelf::sqlite(), &holding("50s"), more, server).await;
    let mut client = desk.begin(&call(7, &json!({"progressToken": "p-1"}))).await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    for _ in 0..3 {
        let sign = client.until("\n\n").await;
        assert!(sign.contains("notifications/progress"), "{sign}");
        assert!(sign.contains(r#""progressToken":"p-1""#), "{sign}");
    }
    desk.approve(&first(&desk).await).await;
    let last = client.until("refunded").await;
    assert!(last.contains(r#""id":7"#), "{last}");
    assert_eq!(desk.reached(), 1);
    // Who wants no progress gets comments.
    let mut quiet = desk
        .begin(&call(8, &json!({"holdpoint-again": true})))
        .await;
    quiet.head().await;
    quiet.until(": keep-alive\n\n").await;
    let second = desk.asked(2).await[0].id.clone();
    desk.deny(&second).await;
    let told = quiet.until("approval_denied").await;
    assert!(!told.contains("notifications/progress"), "{told}");
    assert_eq!(desk.reached(), 1);
}

#[tokio::test]
async fn an_mcp_client_without_streams_waits_in_silence_and_replays_say_so() {
    let desk = Desk::with(&Shelf::sqlite(), &holding("50s"), "", server).await;
    let plain = |id| Call {
        headers: vec![("accept", "application/json".to_owned())],
        ..call(id, &json!({}))
    };
    let mut client = desk.begin(&plain(7)).await;
    desk.waiting(1).await;
    desk.approve(&first(&desk).await).await;
    let sent = client.answer().await.json();
    assert_eq!(
        (&sent["id"], &sent["result"]["_meta"]),
        (&json!(7), &Value::Null)
    );
    let replayed = desk.ask(&plain(8)).await;
    assert_eq!(replayed.header("holdpoint-replayed"), Some("true"));
    let replayed = replayed.json();
    assert_eq!(replayed["id"], 8);
    assert_eq!(replayed["result"]["content"][0]["text"], "refunded");
    assert_eq!(replayed["result"]["_meta"]["holdpoint-replayed"], true);
    assert_eq!(desk.reached(), 1);
}

#[tokio::test]
async fn a_refusal_is_structured_where_no_schema_stands_against_it() {
    let script = |got: &Received| {
        let message: Value = serde_json::from_slice(&got.body).unwrap();
        let tools = json!({"tools": [
            {"name": "refund", "inputSchema": {"type": "object"}},
            {"name": "pay", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
        ]});
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": tools});
        answer("200 OK", "application/json", body.to_string())
    };
    let desk = Desk::with(&Shelf::sqlite(), POLICY, "", script).await;
    // Nobody knows yet.
    let unknown = desk.ask(&call(1, &json!({}))).await.json();
    assert_eq!(unknown["result"].get("structuredContent"), None);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let listed = mcp(ANN, 2, "", Value::Null).saying(&list.to_string());
    assert_eq!(desk.ask(&listed).await.status, 200);
    let plain = desk.ask(&call(3, &json!({}))).await;
    let facts = plain.json()["result"]["structuredContent"].clone();
    assert_eq!(facts, told(&plain));
    assert_eq!(facts["error"], "approval_pending");
    assert_eq!(facts["summary"], "Refund 5 on A-1");
    let schema = desk.ask(&mcp(ANN, 4, "pay", json!({}))).await.json();
    assert_eq!(schema["result"].get("structuredContent"), None);
    assert_eq!(schema["result"]["isError"], true);
}

#[tokio::test]
async fn a_hint_is_not_authority_and_does_not_leave() {
    let desk = Desk::with(&Shelf::sqlite(), POLICY, "", server).await;
    let held = desk
        .ask(&call(1, &json!({"holdpoint-ticket": "tkt_forged"})))
        .await;
    assert_eq!(told(&held)["error"], "approval_required");
    let ticket = first(&desk).await;
    desk.approve(&ticket).await;
    let named = json!({"holdpoint-ticket": ticket.as_str(), "trace": "t"});
    let sent = desk.ask(&call(2, &named)).await;
    assert_eq!(sent.json()["result"]["content"][0]["text"], "refunded");
    let got = desk.upstream.only();
    let meta = serde_json::from_slice::<Value>(&got.body).unwrap()["params"]["_meta"].clone();
    assert_eq!(meta, json!({"trace": "t"}));
    // It is spent: named with another call, that call is not asked for.
    let other = refund().with("holdpoint-ticket", ticket.as_str());
    let mismatch = desk.ask(&other).await;
    assert_eq!(
        (mismatch.status, mismatch.code().as_str()),
        (422, "ticket_mismatch")
    );
    assert_eq!(mismatch.header("x-should-retry"), Some("false"));
    assert_eq!(desk.all().await.len(), 1);
}

/// A transfer that the agent carries out itself.
fn by_agent(hold: &str) -> String {
    format!(
        "{POLICY}  - tool: transfer
    executes_at: agent
    ticket: {{gate: approve, role: finance, ttl: 15m,{hold} summary: \"Transfer {{/amount}} on {{/order}}\"}}
"
    )
}

const ARGUMENTS: &str = r#"{\"order\":\"A-1\",\"amount\":5}"#;

fn tool_call(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","type":"function","function":{{"name":"transfer","arguments":"{ARGUMENTS}"}}}}"#
    )
}

/// A model that proposes the transfer at once, as a stream where it is asked for one.
fn model(got: &Received) -> Vec<Step> {
    let asked: Value = serde_json::from_slice(&got.body).unwrap();
    let id = format!("call_{}", got.body.len());
    if asked["stream"] == true {
        let delta = tool_call(&id).replacen('{', "{\"index\":0,", 1);
        let first = format!(
            r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"role":"assistant","tool_calls":[{delta}]}},"finish_reason":null}}]}}"#
        );
        let last = r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
        return vec![
            send(EVENTS),
            chunk(format!("data: {first}\n\n")),
            chunk(format!("data: {last}\n\n")),
            chunk("data: [DONE]\n\n"),
            chunk(""),
        ];
    }
    let body = format!(
        r#"{{"id":"c","object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":null,"tool_calls":[{}]}},"finish_reason":"tool_calls"}}]}}"#,
        tool_call(&id)
    );
    answer("200 OK", "application/json", body)
}

fn chat(messages: &[Value], stream: bool) -> Vec<u8> {
    let body = json!({"model": "m", "messages": messages, "stream": stream}).to_string();
    let headers = [("x-agent-key", ANN), ("holdpoint-session", "s1")];
    request("POST", "/openai/v1/chat/completions", &headers, body)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[tokio::test]
async fn a_models_turn_waits_for_the_approval_of_its_call() {
    let more = "timeouts: {keep_alive: 100ms}";
    let desk = Desk::with(&Shelf::sqlite(), &by_agent(" hold: 50s,"), more, model).await;
    for (stream, ticket) in [(true, 1), (false, 2)] {
        let mut client = client::Client::connect(desk.rig.agents()).await;
        // Another user turn: the same words are the same call.
        let session = format!("turn-{ticket}");
        let asked = String::from_utf8(chat(&[user("refund it")], stream)).unwrap();
        client
            .send(asked.replace(
                "holdpoint-session: s1",
                &format!("holdpoint-session: {session}"),
            ))
            .await;
        desk.waiting(ticket).await;
        if stream {
            client.head().await;
            client.until(": keep-alive\n\n").await;
        }
        let newest = desk.asked(ticket).await[0].id.clone();
        desk.approve(&newest).await;
        let said = if stream {
            client.until("[DONE]").await
        } else {
            client.answer().await.text().to_owned()
        };
        assert!(
            said.contains("transfer") && said.contains("tool_calls"),
            "{said}"
        );
        assert!(!said.contains("[holdpoint]"), "{said}");
        assert_eq!(desk.state(&newest).await, TicketState::Succeeded);
    }
}

#[tokio::test]
async fn a_call_is_proposed_again_once_its_output_was_seen() {
    let desk = Desk::with(&Shelf::sqlite(), &by_agent(""), "", model).await;
    let says = async |messages: &[Value]| desk.rig.ask(chat(messages, false)).await.json();
    let begin = [user("refund it")];
    let held = says(&begin).await;
    let note = held["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(
        note.contains("approval_required") && note.contains("Transfer 5 on A-1"),
        "{note}"
    );
    let ticket = first(&desk).await;
    desk.approve(&ticket).await;
    let released = says(&begin).await;
    let call = released["choices"][0]["message"]["tool_calls"][0].clone();
    assert_eq!(call["function"]["name"], "transfer");
    // The answer was lost, and the same turn is asked for once more: it is not done twice.
    let lost = says(&begin).await;
    let note = lost["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(note.contains("already_done"), "{note}");
    // The call was made and its output seen: the model means another one, and a person is asked.
    let seen = [
        user("refund it"),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": call["id"], "content": "done"}),
        user("and once more"),
    ];
    let asked = says(&seen).await;
    let note = asked["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(note.contains("approval_required"), "{note}");
    let second = desk.asked(2).await[0].clone();
    assert_eq!(second.state, TicketState::Requested);
    desk.approve(&second.id).await;
    let shown = desk.ticket(&second.id).await;
    assert_eq!(shown.earlier.unwrap().id, ticket);
    // Asked for on purpose, it is released once it is approved.
    let released = says(&seen).await;
    assert_eq!(
        released["choices"][0]["message"]["tool_calls"][0]["function"]["name"],
        "transfer"
    );
}

#[tokio::test]
async fn a_user_who_confirms_is_led_to_the_page_and_the_call_comes_again() {
    let desk = Desk::with(&Shelf::sqlite(), POLICY, "", server).await;
    let plan = json!({"plan": "gold"});
    let asked = desk.ask(&modern(&plan, json!({}))).await.json()["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["holdpoint-approval"];
    assert_eq!(question["method"], "elicitation/create");
    let params = &question["params"];
    let ticket = first(&desk).await;
    assert_eq!(params["mode"], "url");
    assert_eq!(
        params["url"],
        format!("https://approve.example/tickets/{ticket}")
    );
    assert!(
        params["message"]
            .as_str()
            .unwrap()
            .contains("Subscribe to gold")
    );
    assert!(
        !asked["requestState"]
            .as_str()
            .unwrap()
            .contains(ticket.as_str())
    );
    let again = |action: &str, arguments: &Value| {
        let more = json!({
            "requestState": asked["requestState"],
            "inputResponses": {"holdpoint-approval": {"action": action}},
        });
        modern(arguments, more)
    };
    // Declined, changed, or somebody else's: nothing is waited for, and nothing is sent.
    let declined = desk.ask(&again("decline", &plan)).await;
    assert_eq!(told(&declined)["error"], "approval_pending");
    let changed = desk.ask(&again("accept", &json!({"plan": "lead"}))).await;
    assert_eq!(changed.status, 400, "{changed:?}");
    let bobs = Call {
        key: crate::table::desk::BOB,
        ..again("accept", &plan)
    };
    assert_eq!(desk.ask(&bobs).await.status, 400);
    // That the user has opened the page approves nothing: the call waits for the answer.
    let mut client = desk.begin(&again("accept", &plan)).await;
    desk.waiting(1).await;
    assert_eq!(desk.reached(), 0);
    let own = Voter::new(Person::new("config", "ann"), Vec::new(), Channel::Page);
    let yes = desk
        .answer(&ticket, Verdict::Approve, Decider::Person(own))
        .await;
    assert_eq!(yes.unwrap().state, TicketState::Approved);
    client.until("refunded").await;
    // The server sees nothing of it.
    let got = desk.upstream.only();
    let sent: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(sent["params"].get("requestState"), None);
    assert_eq!(sent["params"].get("inputResponses"), None);
    assert_eq!(sent["params"]["arguments"], plan);
}
