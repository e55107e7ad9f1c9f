//! Tools of a request: definitions, and what the provider is asked to run by itself.

use super::{check, invalid_request, present};
use crate::item::{Item, Located, Place, ProviderTool};
use crate::names::ToolName;
use crate::protocols::Malformed;
use crate::protocols::strict::list;
use crate::protocols::texts::{Found, Slot, Texts};
use crate::wire::json::{Kind, Node};

/// Members of a request by which a provider is asked to search, to retrieve or to run code by itself: of `OpenAI`, xAI, Azure,
/// `OpenRouter`, Qwen, Cohere and Groq.
pub(super) const FIELDS: [&str; 11] = [
    "web_search_options",
    "search_parameters",
    "data_sources",
    "plugins",
    "enable_search",
    "search_options",
    "search_settings",
    "connectors",
    "mcp_servers",
    "compound_custom",
    "enable_code_interpreter",
];

/// Types of tools that the agent runs.
const AGENTS: [&str; 2] = ["function", "custom"];

/// Where the URL of a server stands.
const URLS: [&str; 3] = ["server_url", "url", "endpoint"];

/// What stands in `kind` for a model that searches, or runs code, without being asked.
const SEARCH_MODEL: &str = "search_model";

/// Adds every definition and every tool of the provider.
pub(super) fn find<'d>(body: &'d Node, texts: &mut Texts<'d>) -> Result<(), Malformed> {
    for key in ["tools", "functions"] {
        for (index, tool) in list(body, "", key)?.iter().enumerate() {
            let pointer = format!("/{key}/{index}");
            if let Some(list) = body.get(key) {
                let name = name(tool, &pointer)?;
                texts.definition(list, index, name, pointer.clone());
            }
            if let Some(kind) = present(tool, "type") {
                let kind = kind.as_str().ok_or_else(|| {
                    invalid_request(&format!("{pointer}/type"), "must be a string")
                })?;
                if !AGENTS.contains(&kind) {
                    provider_tool(texts, kind, tool, &pointer);
                }
            }
        }
    }
    for field in FIELDS {
        let pointer = format!("/{field}");
        match body.get(field) {
            Some(node) if is_on(node) => match &node.kind {
                Kind::Array(elements) => {
                    for (index, element) in elements.iter().enumerate() {
                        provider_tool(texts, field, element, &format!("{pointer}/{index}"));
                    }
                }
                _ => provider_tool(texts, field, node, &pointer),
            },
            _ => {}
        }
    }
    if let Some(model) = body.get("model").filter(|model| searches(model)) {
        provider_tool(texts, SEARCH_MODEL, model, "/model");
    }
    // Gateways take several, each for where the one before it fails.
    let models = match present(body, "models").map(|node| &node.kind) {
        None => &[][..],
        Some(Kind::Array(models)) => models,
        Some(_) => return Err(invalid_request("/models", "must be an array")),
    };
    for (index, model) in models.iter().enumerate() {
        if searches(model) {
            provider_tool(texts, SEARCH_MODEL, model, &format!("/models/{index}"));
        }
    }
    Ok(())
}

fn name(tool: &Node, pointer: &str) -> Result<ToolName, Malformed> {
    check(tool, pointer, &["type", "function", "custom"])?;
    check(tool, pointer, &URLS)?;
    let inner = present(tool, "function").or_else(|| present(tool, "custom"));
    let described = inner.unwrap_or(tool);
    let known = ["name", "description", "parameters", "format"];
    check(described, pointer, &known)?;
    // A tool of the provider's own may have only a type.
    described
        .get("name")
        .or_else(|| tool.get("type").filter(|_| inner.is_none()))
        .and_then(Node::as_str)
        .map(ToolName::from)
        .ok_or_else(|| invalid_request(pointer, "has no name"))
}

/// Whether a field asks for anything.
fn is_on(node: &Node) -> bool {
    !matches!(node.kind, Kind::Null | Kind::Bool(false))
}

/// Whether a model is one that searches the web by itself, as `OpenAI`, Perplexity, `OpenRouter` and Groq name them. What
/// `OpenRouter` is asked for besides the model stands behind colons, in any order.
fn searches(model: &Node) -> bool {
    model.as_str().is_some_and(|model| {
        let model = model.to_ascii_lowercase();
        let own = model.rsplit('/').next().unwrap_or_default();
        own.contains("-search-preview")
            || own.contains("-search-api")
            || own.starts_with("sonar")
            || own.starts_with("compound")
            || model.split(':').skip(1).any(|asked| asked == "online")
    })
}

/// One item for each server that the tool names, or one without.
fn provider_tool<'d>(texts: &mut Texts<'d>, kind: &str, tool: &'d Node, pointer: &str) {
    let nested = ["parameters", kind].map(|key| tool.get(key));
    let places = std::iter::once(Some(tool)).chain(nested).flatten();
    let mut servers: Vec<_> = places
        .flat_map(|place| URLS.map(|key| present(place, key)))
        .flatten()
        // One that is no string cannot be on any list.
        .map(|url| Some(url.as_str().unwrap_or_default()))
        .collect();
    if servers.is_empty() {
        servers.push(None);
    }
    for server in servers {
        texts.push(Found {
            located: Located {
                place: Place {
                    pointer: pointer.to_owned(),
                    span: Some(tool.span.clone()),
                },
                item: Item::ProviderTool(ProviderTool {
                    kind: kind.into(),
                    server: server.map(Into::into),
                }),
            },
            slot: Slot::Whole,
        });
    }
}
