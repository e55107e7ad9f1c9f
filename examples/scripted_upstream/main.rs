//! A model provider that says what its script says, byte for byte, for harnesses in any language.
//!
//! ```text
//! cargo run --example scripted_upstream -- [PORT]
//! ```
//!
//! Prints the address it listens on. The request's `model` chooses the answer: `SCENARIO[+MANNER]...[@RUN]`, where scenarios
//! are those of `tests/sdk/scenarios.json`, the manners say how the answer comes over the wire ([`script::Manner`]), and the
//! run is only a name to tell requests apart. Paths that end in `/chat/completions` speak `OpenAI` Chat Completions, those in
//! `/messages` Anthropic Messages. A request that ends in a tool's result is answered with `Done.`.
//!
//! `GET /journal/MODEL` lists the requests for exactly that model: `[{"path", "body"}]`.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value gives null for what it has not"
)]

mod chat;
mod messages;
mod script;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use script::{Manner, Scenarios};
use serde_json::{Value, json};

/// What every answer says about the model.
const MODEL: &str = "scripted-1";

struct Upstream {
    scenarios: Scenarios,
    journal: Mutex<HashMap<String, Vec<Value>>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let port: u16 = port.parse().context("the argument is no port")?;
    let upstream = Arc::new(Upstream {
        scenarios: Scenarios::read()?,
        journal: Mutex::default(),
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    holdpoint::cli::print(format!("http://{}", listener.local_addr()?));
    let listener = listener.tap_io(|stream| {
        // A piece is sent when it is written.
        let _ = stream.set_nodelay(true);
    });
    let router = Router::new()
        .route("/journal/{*model}", get(journal))
        .fallback(answer)
        .with_state(upstream);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn journal(State(upstream): State<Arc<Upstream>>, Path(model): Path<String>) -> Response {
    let journal = upstream
        .journal
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let entries = journal.get(&model).cloned().unwrap_or_default();
    axum::Json(entries).into_response()
}

async fn answer(
    State(upstream): State<Arc<Upstream>>,
    method: Method,
    uri: Uri,
    body: String,
) -> Response {
    let path = uri.path();
    if method == Method::GET && path.ends_with("/models") {
        let model = json!({"id": MODEL, "object": "model", "created": 1, "owned_by": "test"});
        return axum::Json(json!({"object": "list", "data": [model]})).into_response();
    }
    let Ok(request) = serde_json::from_str::<Value>(&body) else {
        return not_found("the body is not JSON");
    };
    let model = request["model"].as_str().unwrap_or_default();
    upstream
        .journal
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(model.to_owned())
        .or_default()
        .push(json!({"path": path, "body": body}));
    let asked = match upstream.scenarios.asked(model) {
        Ok(asked) => asked,
        Err(cause) => return not_found(&cause),
    };
    if path.ends_with("/chat/completions") {
        let streamed = request["stream"] == json!(true);
        return if asked.is(Manner::Busy) {
            busy(&chat::error("rate_limited", "slow down"))
        } else if streamed {
            wire::stream(&asked, chat::stream(&asked, &request))
        } else {
            wire::whole(&asked, &chat::whole(&asked, &request))
        };
    }
    if path.ends_with("/messages") {
        return if asked.is(Manner::Busy) {
            busy(&messages::error("rate_limit_error", "slow down"))
        } else if request["stream"] == json!(true) {
            wire::stream(&asked, messages::stream(&asked, &request))
        } else {
            wire::whole(&asked, &messages::whole(&asked, &request))
        };
    }
    not_found("this upstream has no such path")
}

fn not_found(message: &str) -> Response {
    let error = json!({"error": {"message": message, "type": "not_found_error", "param": null, "code": null}});
    (StatusCode::NOT_FOUND, axum::Json(error)).into_response()
}

fn busy(error: &Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/json"),
        ("retry-after-ms", "1"),
    ];
    (
        StatusCode::TOO_MANY_REQUESTS,
        headers,
        axum::Json(error.clone()),
    )
        .into_response()
}
