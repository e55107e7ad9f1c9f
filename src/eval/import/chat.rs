//! Messages of `OpenAI` Chat Completions and items of Responses as one conversation.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::agentdojo::record::{Call, Message, Output};

/// The messages of a conversation. `at` names the place of the array in errors.
///
/// # Errors
/// The field that is not as the API says.
pub fn messages(list: &Value, at: &str) -> Result<Vec<Message>, String> {
    let list = list
        .as_array()
        .ok_or_else(|| format!("`{at}` is not an array of messages"))?;
    let mut read = Reading::default();
    for (index, message) in list.iter().enumerate() {
        read.message(message, &format!("{at}[{index}]"))?;
    }
    Ok(read.messages)
}

/// As [`messages`], with one more: the answer of the model.
///
/// # Errors
/// As [`messages`].
pub fn with_answer(list: &Value, answer: &Value, at: (&str, &str)) -> Result<Vec<Message>, String> {
    let mut read = Reading {
        messages: messages(list, at.0)?,
        ..Reading::default()
    };
    for (id, tool) in calls(&read.messages) {
        read.taken.insert(id.clone());
        read.tools.insert(id.clone(), (id, tool));
    }
    read.message(answer, at.1)?;
    Ok(read.messages)
}

/// Items of the Responses API. `at` names the place of the array in errors.
///
/// # Errors
/// The field that is not as the API says.
pub fn items(list: &Value, at: &str) -> Result<Vec<Message>, String> {
    let mut read = Reading::default();
    if let Some(text) = list.as_str() {
        read.messages.push(Message::User(text.to_owned()));
        return Ok(read.messages);
    }
    let list = list
        .as_array()
        .ok_or_else(|| format!("`{at}` is neither a text nor an array of items"))?;
    for (index, item) in list.iter().enumerate() {
        read.item(item, &format!("{at}[{index}]"))?;
    }
    Ok(read.messages)
}

/// As [`items`], with those of the model's answer behind them.
///
/// # Errors
/// As [`items`].
pub fn with_output(
    input: &Value,
    output: &Value,
    at: (&str, &str),
) -> Result<Vec<Message>, String> {
    let mut read = Reading {
        messages: items(input, at.0)?,
        ..Reading::default()
    };
    for (id, tool) in calls(&read.messages) {
        read.taken.insert(id.clone());
        read.tools.insert(id.clone(), (id, tool));
    }
    // The answer is one turn, whatever came before it.
    read.messages.push(Message::Assistant {
        text: String::new(),
        calls: Vec::new(),
    });
    let list = output
        .as_array()
        .ok_or_else(|| format!("`{}` is not an array of items", at.1))?;
    for (index, item) in list.iter().enumerate() {
        read.item(item, &format!("{}[{index}]", at.1))?;
    }
    Ok(read.messages)
}

fn calls(messages: &[Message]) -> Vec<(String, String)> {
    let calls = messages.iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    });
    calls
        .map(|call| (call.id.clone(), call.tool.clone()))
        .collect()
}

#[derive(Default)]
struct Reading {
    messages: Vec<Message>,
    /// Of each call by its recorded id, the latest: its own id and its tool.
    tools: HashMap<String, (String, String)>,
    /// Ids that calls have.
    taken: HashSet<String>,
}

impl Reading {
    fn message(&mut self, message: &Value, at: &str) -> Result<(), String> {
        let role = field(message, "role", at)?;
        let content = || {
            text(
                message.get("content").unwrap_or(&Value::Null),
                &format!("{at}.content"),
            )
        };
        match role {
            "system" | "developer" => self.messages.push(Message::System(content()?)),
            "user" => self.messages.push(Message::User(content()?)),
            "assistant" => {
                let calls = self.calls(message, at)?;
                self.messages.push(Message::Assistant {
                    text: content()?,
                    calls,
                });
            }
            "tool" => {
                let id = field(message, "tool_call_id", at)?.to_owned();
                self.output(&id, content()?, at)?;
            }
            other => {
                return Err(format!(
                    "`{at}.role` is `{other}`, and not one of system, developer, user, assistant, tool"
                ));
            }
        }
        Ok(())
    }

    fn calls(&mut self, message: &Value, at: &str) -> Result<Vec<Call>, String> {
        let Some(list) = message.get("tool_calls").filter(|list| !list.is_null()) else {
            return Ok(Vec::new());
        };
        let list = list
            .as_array()
            .ok_or_else(|| format!("`{at}.tool_calls` is not an array"))?;
        let calls = list.iter().enumerate().map(|(index, call)| {
            let at = format!("{at}.tool_calls[{index}]");
            let function = call
                .get("function")
                .ok_or_else(|| format!("`{at}.function` is missing"))?;
            let within = format!("{at}.function");
            let id = field(call, "id", &at)?;
            let tool = field(function, "name", &within)?;
            self.call(id, tool, function.get("arguments"), &within)
        });
        calls.collect()
    }

    fn call(
        &mut self,
        id: &str,
        tool: &str,
        args: Option<&Value>,
        at: &str,
    ) -> Result<Call, String> {
        // Some providers give an id twice: each call has one of its own here.
        let mut own = id.to_owned();
        while !self.taken.insert(own.clone()) {
            own.push_str("_again");
        }
        self.tools
            .insert(id.to_owned(), (own.clone(), tool.to_owned()));
        Ok(Call {
            id: own,
            tool: tool.to_owned(),
            args: arguments(args, &format!("{at}.arguments"))?,
        })
    }

    fn output(&mut self, call: &str, text: String, at: &str) -> Result<(), String> {
        let (call, tool) = self
            .tools
            .get(call)
            .cloned()
            .ok_or_else(|| format!("`{at}` is the output of a call that nobody made"))?;
        self.messages.push(Message::Output(Output {
            call,
            tool,
            text,
            error: None,
        }));
        Ok(())
    }

    fn item(&mut self, item: &Value, at: &str) -> Result<(), String> {
        let kind = item
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("message");
        match kind {
            "message" => {
                let role = field(item, "role", at)?;
                let content = text(
                    item.get("content").unwrap_or(&Value::Null),
                    &format!("{at}.content"),
                )?;
                match role {
                    "system" | "developer" => self.messages.push(Message::System(content)),
                    "user" => self.messages.push(Message::User(content)),
                    "assistant" => self.says(&content),
                    other => {
                        return Err(format!(
                            "`{at}.role` is `{other}`, and not one of system, developer, user, assistant"
                        ));
                    }
                }
            }
            "function_call" | "custom_tool_call" => {
                let id = field(item, "call_id", at)?;
                let tool = field(item, "name", at)?;
                let args = item.get("arguments").or_else(|| item.get("input"));
                let call = self.call(id, tool, args, at)?;
                match self.messages.last_mut() {
                    Some(Message::Assistant { calls, .. }) => calls.push(call),
                    _ => self.messages.push(Message::Assistant {
                        text: String::new(),
                        calls: vec![call],
                    }),
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                let id = field(item, "call_id", at)?.to_owned();
                let text = text(
                    item.get("output").unwrap_or(&Value::Null),
                    &format!("{at}.output"),
                )?;
                self.output(&id, text, at)?;
            }
            // Reasoning, and what a provider's own tools did: no call that anybody else carries out.
            _ => {}
        }
        Ok(())
    }

    fn says(&mut self, more: &str) {
        match self.messages.last_mut() {
            Some(Message::Assistant { text, .. }) => text.push_str(more),
            _ => self.messages.push(Message::Assistant {
                text: more.to_owned(),
                calls: Vec::new(),
            }),
        }
    }
}

/// A text field.
pub(super) fn field<'v>(value: &'v Value, name: &str, at: &str) -> Result<&'v str, String> {
    let found = value.get(name);
    found.and_then(Value::as_str).ok_or_else(|| match found {
        None => format!("`{at}.{name}` is missing"),
        Some(_) => format!("`{at}.{name}` is not a text"),
    })
}

/// Content: a text, or the texts of its parts.
pub(super) fn text(value: &Value, at: &str) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| {
                let text = part.get("text").or_else(|| part.get("refusal"));
                text.and_then(Value::as_str)
            });
            Ok(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => Err(format!("`{at}` is neither a text nor an array of parts")),
    }
}

/// Arguments: an object, or its JSON text. A text that is none is kept as it is, for the model wrote it.
fn arguments(value: Option<&Value>, at: &str) -> Result<Map<String, Value>, String> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(args)) => Ok(args.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Map::new()),
        Some(Value::String(text)) => Ok(match serde_json::from_str(text) {
            Ok(Value::Object(args)) => args,
            _ => Map::from_iter([("input".to_owned(), text.clone().into())]),
        }),
        Some(_) => Err(format!("`{at}` is neither an object nor its JSON text")),
    }
}
