//! Which endpoints are understood. Default deny: every other one may carry content that nobody would judge.

use http::Method;
use http::request::Parts;

use crate::protocols::Malformed;
use crate::protocols::endpoint::is_model_path;

/// What stands before an endpoint: users put some of it into the base URL, on either side. `OpenAI`, Ollama and vLLM `/v1`,
/// Azure `/openai` and `/openai/v1`, Gemini `/v1beta/openai`, others `/api/v1` and `/v1/openai`.
const BASES: [&str; 7] = [
    "",
    "/v1",
    "/openai",
    "/openai/v1",
    "/v1beta/openai",
    "/v1/openai",
    "/api/v1",
];

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A completion.
    Completion,
    /// Which models there are: without tool content.
    Models,
}

/// The endpoint of a request.
pub(super) fn endpoint(parts: &Parts) -> Result<Endpoint, Malformed> {
    let path = parts.uri.path();
    let mut found = BASES
        .iter()
        .filter_map(|base| named(base, path.strip_prefix(base)?));
    let endpoint = found.next().ok_or_else(|| Malformed {
        code: "endpoint_unknown",
        message: "this route serves POST /v1/chat/completions and GET /v1/models only, also below \
                  the paths of Azure, Gemini and Ollama"
            .to_owned(),
    })?;
    let method = match endpoint {
        Endpoint::Completion => Method::POST,
        Endpoint::Models => Method::GET,
    };
    if parts.method != method {
        return Err(Malformed {
            code: "method_not_allowed",
            message: format!("this endpoint takes {method} only"),
        });
    }
    Ok(endpoint)
}

fn named(base: &str, path: &str) -> Option<Endpoint> {
    if path == "/chat/completions" {
        return Some(Endpoint::Completion);
    }
    if is_model_path(path) {
        return Some(Endpoint::Models);
    }
    // Azure names its deployment in the path.
    let deployment = path.strip_prefix("/deployments/")?;
    let (name, rest) = deployment.split_once('/')?;
    let plain = is_model_path(&format!("/models/{name}"));
    let azure = matches!(base, "" | "/openai");
    (azure && plain && rest == "chat/completions").then_some(Endpoint::Completion)
}
