//! Which endpoints are served. Every other one is refused.

use holdpoint::protocols::Protocol;

use crate::driver::{adapter, request};

fn code(method: &str, path: &str) -> &'static str {
    let body = if method == "POST" {
        r#"{"messages":[]}"#
    } else {
        ""
    };
    let read = adapter().read(&request(method, path, body));
    read.err().map_or("ok", |error| error.code)
}

#[test]
fn completions_and_models_are_served_below_every_base_that_providers_have() {
    for base in [
        "",
        "/v1",
        "/openai",
        "/openai/v1",
        "/v1beta/openai",
        "/v1/openai",
        "/api/v1",
    ] {
        for (method, below, expected) in [
            ("POST", "/chat/completions", "ok"),
            ("POST", "/chat/completions?api-version=1", "ok"),
            ("GET", "/models", "ok"),
            ("GET", "/models/models/gemini-2.5", "ok"),
            ("GET", "/chat/completions", "method_not_allowed"),
            ("POST", "/models", "method_not_allowed"),
            ("DELETE", "/models/x", "method_not_allowed"),
            // Content that nobody here reads.
            ("POST", "/completions", "endpoint_unknown"),
            ("POST", "/embeddings", "endpoint_unknown"),
            ("POST", "/rerank", "endpoint_unknown"),
            ("POST", "/images/generations", "endpoint_unknown"),
            ("POST", "/audio/transcriptions", "endpoint_unknown"),
            ("POST", "/files", "endpoint_unknown"),
            ("POST", "/batches", "endpoint_unknown"),
            ("POST", "/responses", "endpoint_unknown"),
            ("GET", "/responses/resp_1", "endpoint_unknown"),
            ("GET", "/realtime", "endpoint_unknown"),
            ("GET", "/chat/completions/chatcmpl-1", "endpoint_unknown"),
            ("DELETE", "/chat/completions/chatcmpl-1", "endpoint_unknown"),
            ("GET", "/chat/completions/c/messages", "endpoint_unknown"),
            ("POST", "/chat/completions/", "endpoint_unknown"),
            ("GET", "/models/", "endpoint_unknown"),
            ("GET", "/models/a%2fb", "endpoint_unknown"),
            ("GET", "/models/../chat/completions", "endpoint_unknown"),
            ("GET", "/", "endpoint_unknown"),
        ] {
            let path = format!("{base}{below}");
            assert_eq!(code(method, &path), expected, "{method} {path}");
        }
    }
}

#[test]
fn a_deployment_is_named_in_the_path() {
    for (path, expected) in [
        (
            "/openai/deployments/gpt-5/chat/completions?api-version=2026-01-01",
            "ok",
        ),
        ("/deployments/gpt-5.1_x/chat/completions", "ok"),
        (
            "/openai/deployments/a/b/chat/completions",
            "endpoint_unknown",
        ),
        ("/openai/deployments//chat/completions", "endpoint_unknown"),
        (
            "/openai/deployments/../chat/completions",
            "endpoint_unknown",
        ),
        (
            "/openai/deployments/a%2f/chat/completions",
            "endpoint_unknown",
        ),
        ("/openai/deployments/a/completions", "endpoint_unknown"),
        (
            "/openai/deployments/a/extensions/chat/completions",
            "endpoint_unknown",
        ),
        (
            "/openai/v1/deployments/a/chat/completions",
            "endpoint_unknown",
        ),
        ("/v1/v1/chat/completions", "endpoint_unknown"),
        ("/v1chat/completions", "endpoint_unknown"),
        ("/x/v1/chat/completions", "endpoint_unknown"),
    ] {
        assert_eq!(code("POST", path), expected, "{path}");
    }
}

#[test]
fn a_refused_endpoint_names_what_is_served() {
    let error = adapter()
        .read(&request("POST", "/v1/embeddings", "{}"))
        .unwrap_err();
    assert!(error.message.contains("POST /v1/chat/completions"));
    assert!(error.message.contains("GET /v1/models"));
    let body = adapter().read(&request("GET", "/v1/models", "{}"));
    assert_eq!(body.unwrap_err().code, "invalid_request");
}
