//! The demo's agent: asks the model through the proxy, runs the calls that come back, and tells what it saw. It knows
//! nothing of the guard and sends what an SDK sends.

use std::net::SocketAddr;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A model that never stops calling is cut off here.
const MOST_TURNS: usize = 6;

/// What happened in one conversation, in order.
#[derive(Clone, Debug)]
pub enum Happening {
    /// The model wrote text.
    Said(String),
    /// A call came back from the model.
    Called {
        /// The tool.
        tool: String,
        /// Its arguments.
        args: Value,
    },
    /// A tool answered.
    Answered {
        /// HTTP status.
        status: u16,
        /// Body.
        body: String,
    },
}

/// Talks to a proxy.
pub struct Agent {
    client: Client<HttpConnector, Full<Bytes>>,
    proxy: SocketAddr,
}

/// An HTTP answer, whole.
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Whether the proxy gave a receipt back.
    pub replayed: bool,
    /// Body.
    pub body: String,
}

impl Agent {
    /// An agent whose base URL is the proxy.
    pub fn new(proxy: SocketAddr) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            proxy,
        }
    }

    /// One request over a real socket, to the proxy or, for the approver, to another listener.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn send(
        &self,
        to: SocketAddr,
        method: Method,
        path: &str,
        bearer: Option<&str>,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{to}{path}"))
            .header(header::USER_AGENT, "holdpoint-demo/1")
            .header(header::ACCEPT, "application/json");
        if let Some(key) = bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(bytes)))?;
        let response = self
            .client
            .request(request)
            .await
            .context("the proxy did not answer")?;
        let (head, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .context("the answer was cut short")?
            .to_bytes();
        Ok(Answer {
            status: head.status.as_u16(),
            replayed: head.headers.contains_key("holdpoint-replayed"),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// Carries one request of the user through to the model's last word.
    ///
    /// # Errors
    /// The connection fails, or the model's answer cannot be read.
    pub async fn ask(&self, user: &str, streamed: bool) -> anyhow::Result<Vec<Happening>> {
        let mut messages = vec![
            json!({"role": "system", "content": "You help customers of a shop."}),
            json!({"role": "user", "content": user}),
        ];
        let mut happenings = Vec::new();
        for _ in 0..MOST_TURNS {
            let message = self.complete(&messages, streamed).await?;
            let text = message
                .get("content")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !text.is_empty() {
                happenings.push(Happening::Said(text.to_owned()));
            }
            let calls = message
                .get("tool_calls")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            messages.push(message);
            if calls.is_empty() {
                break;
            }
            for call in &calls {
                let (tool, args) = read_call(call)?;
                happenings.push(Happening::Called {
                    tool: tool.clone(),
                    args: args.clone(),
                });
                let answer = self.run(&tool, &args).await?;
                messages.push(
                    json!({"role": "tool", "tool_call_id": call.get("id"), "content": answer.body}),
                );
                happenings.push(Happening::Answered {
                    status: answer.status,
                    body: answer.body,
                });
            }
        }
        Ok(happenings)
    }

    /// Runs a call on the shop, through the proxy.
    ///
    /// # Errors
    /// The connection fails, or the tool is not one of the shop's.
    pub async fn run(&self, tool: &str, args: &Value) -> anyhow::Result<Answer> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let (method, path, body) = match tool {
            "get_order" => (
                Method::GET,
                format!("/shop/orders/{}", text("order_id")),
                None,
            ),
            "get_reviews" => (
                Method::GET,
                format!("/shop/products/{}/reviews", text("product")),
                None,
            ),
            "refund_order" => (
                Method::POST,
                format!("/shop/orders/{}/refunds", text("order_id")),
                Some(json!({"amount": text("amount")})),
            ),
            "send_email" => (Method::POST, "/shop/emails".to_owned(), Some(args.clone())),
            other => anyhow::bail!("the model called {other}, which the shop does not have"),
        };
        self.send(self.proxy, method, &path, None, body.as_ref())
            .await
    }

    async fn complete(&self, messages: &[Value], streamed: bool) -> anyhow::Result<Value> {
        let request =
            json!({"model": "demo", "messages": messages, "tools": tools(), "stream": streamed});
        let answer = self
            .send(
                self.proxy,
                Method::POST,
                "/openai/v1/chat/completions",
                None,
                Some(&request),
            )
            .await?;
        anyhow::ensure!(
            answer.status == 200,
            "the model route answered {}: {}",
            answer.status,
            answer.body
        );
        if streamed {
            return assemble(&answer.body);
        }
        let whole: Value =
            serde_json::from_str(&answer.body).context("the model's answer is not JSON")?;
        whole
            .pointer("/choices/0/message")
            .cloned()
            .context("the model's answer has no message")
    }
}

fn read_call(call: &Value) -> anyhow::Result<(String, Value)> {
    let field = |name| {
        call.pointer(name)
            .and_then(Value::as_str)
            .context("a call without name or arguments")
    };
    let args = serde_json::from_str(field("/function/arguments")?)?;
    Ok((field("/function/name")?.to_owned(), args))
}

/// Joins the chunks of a stream as SDKs do: text is appended, calls are addressed by their index.
fn assemble(stream: &str) -> anyhow::Result<Value> {
    let mut text = String::new();
    let mut calls: Vec<Value> = Vec::new();
    for data in stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
    {
        if data == "[DONE]" {
            break;
        }
        let chunk: Value = serde_json::from_str(data).context("a chunk is not JSON")?;
        let Some(delta) = chunk.pointer("/choices/0/delta") else {
            continue;
        };
        text.push_str(
            delta
                .get("content")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        for part in delta
            .get("tool_calls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let index = part
                .get("index")
                .and_then(Value::as_u64)
                .context("a call without index")?;
            let index = usize::try_from(index)?;
            if index == calls.len() {
                calls.push(json!({"id": part.get("id"), "type": "function",
                    "function": {"name": part.pointer("/function/name"), "arguments": ""}}));
            }
            let call = calls
                .get_mut(index)
                .context("the indices of the calls have a gap")?;
            let arguments = call
                .pointer_mut("/function/arguments")
                .context("a call without arguments")?;
            let more = part
                .pointer("/function/arguments")
                .and_then(Value::as_str)
                .unwrap_or_default();
            *arguments = Value::String(format!("{}{more}", arguments.as_str().unwrap_or_default()));
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if let (Some(message), false) = (message.as_object_mut(), calls.is_empty()) {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Ok(message)
}

fn tools() -> Value {
    let tool = |name: &str, description: &str, args: &[&str]| {
        let properties: serde_json::Map<_, _> = args
            .iter()
            .map(|arg| ((*arg).to_owned(), json!({"type": "string"})))
            .collect();
        json!({"type": "function", "function": {"name": name, "description": description,
            "parameters": {"type": "object", "properties": properties, "required": args}}})
    };
    json!([
        tool(
            "get_reviews",
            "Customer reviews of a product.",
            &["product"]
        ),
        tool("get_order", "One order.", &["order_id"]),
        tool("send_email", "Sends an email.", &["to", "subject", "body"]),
        tool("refund_order", "Refunds an order.", &["order_id", "amount"]),
    ])
}
