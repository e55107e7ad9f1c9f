//! Requests: which endpoints are understood, and where untrusted texts, definitions and tools of the provider stand.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::blocks::Message;
use super::seal::{Sealed, sealed};
use crate::item::{Item, Located, Place, ProviderTool};
use crate::names::ToolName;
use crate::protocols::endpoint::{body, is_model_path, no_body};
use crate::protocols::strict::{exact_keys_in_request as check, invalid_request, list, present};
use crate::protocols::texts::{Found, Slot, Source, Texts};
use crate::protocols::{Malformed, Request, untrusted};
use crate::provenance::Said;
use crate::settings::Untrusted;
use crate::wire::json::{Kind, Node};

/// Members of a request that are read here, or that hold no words for the model besides the operator's own.
const KNOWN: [&str; 28] = [
    "anthropic_beta",
    "anthropic_version",
    "betas",
    "billing_policy",
    "cache_control",
    "compaction",
    "container",
    "context_management",
    "diagnostics",
    "fallback_credit_token",
    "fallbacks",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
];

/// More of them.
const PLAIN: [&str; 3] = ["top_k", "top_p", "user_profile_id"];

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A message of the model.
    Messages,
    /// How many tokens such a request has. The same body; the answer is a number.
    CountTokens,
    /// Which models there are.
    Models,
}

/// The endpoint. Anything else is refused: batches and files carry conversations that no reader here finds.
pub(super) fn endpoint(parts: &Parts) -> Result<Endpoint, Malformed> {
    let path = parts.uri.path();
    // Users put `/v1` into the base URL, on either side.
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let (endpoint, method) = match path {
        "/messages" => (Endpoint::Messages, Method::POST),
        "/messages/count_tokens" => (Endpoint::CountTokens, Method::POST),
        path if is_model_path(path) => (Endpoint::Models, Method::GET),
        _ => {
            return Err(Malformed {
                code: "endpoint_unknown",
                message: "this route serves POST /v1/messages, POST /v1/messages/count_tokens and GET /v1/models only"
                    .to_owned(),
            });
        }
    };
    if parts.method != method {
        return Err(Malformed {
            code: "method_not_allowed",
            message: format!("this endpoint takes {method} only"),
        });
    }
    Ok(endpoint)
}

/// Every item of a request.
pub(super) fn items(request: &Request, rules: &Untrusted) -> Result<Vec<Located>, Malformed> {
    if endpoint(&request.parts)? == Endpoint::Models {
        return no_body(request).map(|()| Vec::new());
    }
    Ok(found(body(request)?, rules)?
        .into_iter()
        .map(|found| found.located)
        .collect())
}

/// Who said what in a request.
pub(super) fn said(request: &Request, rules: &Untrusted) -> Result<Vec<Said>, Malformed> {
    if endpoint(&request.parts)? == Endpoint::Models {
        return Ok(Vec::new());
    }
    Ok(texts(body(request)?, rules)?.conversation())
}

/// Every item with its node.
pub(super) fn found<'d>(body: &'d Node, rules: &Untrusted) -> Result<Vec<Found<'d>>, Malformed> {
    texts(body, rules)?.finish("body_too_large")
}

fn texts<'d>(body: &'d Node, rules: &Untrusted) -> Result<Texts<'d>, Malformed> {
    check(body, "", &KNOWN)?;
    check(body, "", &["thread"])?;
    if present(body, "thread").is_some() {
        return Err(invalid_request(
            "/thread",
            "keeps the conversation at the provider, where nothing judges it: send the whole conversation in `messages`",
        ));
    }
    let mut finder = Finder {
        rules,
        texts: Texts::default(),
        tools: HashMap::new(),
        servers: HashMap::new(),
        defined: HashSet::new(),
        sealed: sealed(body),
    };
    finder.provider(body)?;
    for (index, _) in list(body, "", "tools")?.iter().enumerate() {
        if let Some(tools) = body.get("tools") {
            finder.tool(tools, index, &format!("/tools/{index}"))?;
        }
    }
    finder.system(body)?;
    if present(body, "messages").is_none() {
        return Err(invalid_request("/messages", "is missing"));
    }
    for (index, message) in list(body, "", "messages")?.iter().enumerate() {
        finder.message(message, &format!("/messages/{index}"))?;
    }
    finder.rest(body);
    Ok(finder.texts)
}

/// Finds the items of one request.
pub(super) struct Finder<'d, 'r> {
    pub rules: &'r Untrusted,
    pub texts: Texts<'d>,
    /// The tool of every call that the conversation has shown so far, by its id.
    pub tools: HashMap<&'d str, ToolName>,
    /// URLs of hosted MCP servers, by their names.
    pub servers: HashMap<&'d str, Arc<str>>,
    /// Names that a definition of this request has.
    pub defined: HashSet<&'d str>,
    /// Bytes that must stay as they came.
    pub sealed: Sealed,
}

impl<'d> Finder<'d, '_> {
    /// What the provider is asked to run or to keep, besides tools.
    fn provider(&mut self, body: &'d Node) -> Result<(), Malformed> {
        for (index, server) in list(body, "", "mcp_servers")?.iter().enumerate() {
            let pointer = format!("/mcp_servers/{index}");
            check(server, &pointer, &["type", "name", "url"])?;
            let url = server.get("url").and_then(Node::as_str).map(Arc::from);
            if let (Some(name), Some(url)) = (server.get("name").and_then(Node::as_str), &url) {
                self.servers.insert(name, Arc::clone(url));
            }
            self.run_by_provider("mcp_servers", url, server, pointer);
        }
        if let Some(container) = present(body, "container") {
            let pointer = "/container".to_owned();
            self.run_by_provider("container", None, container, pointer);
        }
        Ok(())
    }

    /// Adds something that the provider does by itself.
    pub fn run_by_provider(
        &mut self,
        kind: &str,
        server: Option<Arc<str>>,
        node: &'d Node,
        pointer: String,
    ) {
        let item = Item::ProviderTool(ProviderTool {
            kind: kind.into(),
            server,
        });
        let place = Place {
            pointer,
            span: Some(node.span.clone()),
        };
        self.texts.push(Found {
            located: Located { place, item },
            slot: Slot::Whole,
        });
    }

    fn system(&mut self, body: &'d Node) -> Result<(), Malformed> {
        let Some(system) = present(body, "system") else {
            return Ok(());
        };
        self.content(system, "system", "/system")
    }

    fn message(&mut self, message: &'d Node, pointer: &str) -> Result<(), Malformed> {
        check(message, pointer, &["role", "content"])?;
        let role = message
            .get("role")
            .and_then(Node::as_str)
            .ok_or_else(|| invalid_request(&format!("{pointer}/role"), "must be a string"))?;
        if let Some(content) = present(message, "content") {
            self.content(content, role, &format!("{pointer}/content"))?;
        }
        self.extras(message, &["role", "content"], pointer);
        Ok(())
    }

    /// What one message says: a string, or blocks.
    fn content(&mut self, content: &'d Node, role: &str, pointer: &str) -> Result<(), Malformed> {
        // Who is neither the operator, the user nor the model is not trusted.
        let stranger = Untrusted {
            roles: vec![role.to_owned()],
            tags: Vec::new(),
        };
        let rules = match role {
            "user" | "assistant" | "system" => self.rules,
            _ => &stranger,
        };
        let mut said = Vec::new();
        match &content.kind {
            Kind::String(_) => said.push((content, pointer.to_owned())),
            Kind::Array(_) => {
                let message = Message {
                    content,
                    is_model: role == "assistant",
                    is_trusted: !untrusted::is_whole(rules, role),
                };
                self.blocks(&message, pointer, &mut said)?;
            }
            _ => {
                return Err(invalid_request(
                    pointer,
                    "must be a string or an array of blocks",
                ));
            }
        }
        untrusted::turn(&mut self.texts, rules, role, said, pointer);
        Ok(())
    }

    /// Members that nobody here knows: every string of them is untrusted.
    fn rest(&mut self, body: &'d Node) {
        for member in body.members() {
            let key = &*member.key;
            if KNOWN.contains(&key) || PLAIN.contains(&key) {
                continue;
            }
            let mut pointer = String::new();
            Place::push_step(&mut pointer, key);
            let source = Source::default();
            self.texts
                .leaves(&member.value, &mut pointer, &source, true);
        }
    }
}
