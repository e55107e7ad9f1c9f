//! The JSON Schema of a policy file, for editors. What it lets through is still read by `compile`, which knows more.

mod allowed;
mod conditions;
mod egress;
mod injection;
mod lookups;
mod ownership;
mod recipients;
mod secrets;
mod ticket;

use serde_json::{Value, json};

use crate::verdict::LayerId;

/// The schema, draft 2020-12.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdpoint policy",
        "description": "What agents may do. Reference: docs/reference/policy.md",
        "type": "object",
        "additionalProperties": false,
        "required": ["version", "name", "layers"],
        "properties": {
            "version": {"const": 1, "description": "Version of the format"},
            "name": described(text(), "For people"),
            "layers": layers(),
            "lists": named(&list(), "Named allowlists"),
            "lookups": named(&lookups::lookup(), "Named questions to a database or a backend that change nothing"),
            "undeclared_recipients": recipients::undeclared(),
            "egress": egress::rule(false),
            "forward": egress::forward(),
            "rendered": egress::rendered(),
            "secrets": secrets::section(),
            "private": secrets::private(),
            "provider_tools": provider_tools(),
            "tools": {"type": "array", "items": tool(), "description": "Rules; the first that matches a tool decides alone"},
            "definitions": injection::definitions(),
            "injection": injection::section()
        }
    })
}

fn described(mut schema: Value, description: &str) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.insert("description".to_owned(), description.into());
    }
    schema
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn name() -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$"})
}

fn named(of: &Value, description: &str) -> Value {
    json!({
        "type": "object",
        "propertyNames": name(),
        "additionalProperties": of,
        "description": description
    })
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "minItems": 1, "items": text(), "description": description})
}

fn words(description: &str) -> Value {
    let word = json!({"type": "string", "pattern": "^\\S+$"});
    json!({"type": "array", "minItems": 1, "items": word, "description": description})
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties
    })
}

fn layers() -> Value {
    let all = LayerId::ALL.map(LayerId::as_str);
    let modes = json!({"enum": ["off", "shadow", "enforce"]});
    let properties: serde_json::Map<_, _> = LayerId::ALL
        .into_iter()
        .map(|layer| (layer.as_str().to_owned(), modes.clone()))
        .collect();
    described(
        object(&all, &properties.into()),
        "Every layer: off, shadow (judge and count) or enforce",
    )
}

fn list() -> Value {
    let mut list = object(
        &[],
        &json!({
            "hosts": texts("host, *.domain, * for every public name, address or CIDR; with :port or /path where only that is meant"),
            "emails": texts("Whole addresses"),
            "email_domains": texts("Domains, exact"),
            "email_subdomains_of": texts("Domains of which every subdomain is meant"),
            "share_domains": texts("Domains that may get access as a whole"),
            "phones": texts("Phone numbers, international"),
            "chats": {
                "type": "array",
                "minItems": 1,
                "items": {"type": ["string", "integer"], "minLength": 1},
                "description": "Ids of chats, channels and users"
            },
            "accounts": texts("Account numbers")
        }),
    );
    if let Some(map) = list.as_object_mut() {
        map.insert("minProperties".to_owned(), 1.into());
    }
    list
}

fn parameter() -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})
}

fn selector() -> Value {
    json!({"type": "string", "pattern": "^/", "description": "JSON Pointer with * and **, such as /to or /**"})
}

fn at() -> Value {
    let many = json!({"type": "array", "minItems": 1, "items": selector()});
    json!({"anyOf": [selector(), many], "description": "Where to look in the arguments"})
}

/// What `otherwise` is where rules for recipients and URLs do not say it.
const USUAL: &str =
    "default: deny; of writes with the layer tickets {said: hold, tainted: hold, unseen: deny}";

/// Of values of a call.
fn otherwise(usual: &str) -> Value {
    let word = one_otherwise;
    let each = json!({"said": word(), "tainted": word(), "unseen": word(), "known": word()});
    let mut each = object(&[], &each);
    if let Some(map) = each.as_object_mut() {
        map.insert("minProperties".to_owned(), 1.into());
    }
    json!({
        "anyOf": [json!({"enum": ["deny", "hold"]}), each],
        "description": format!("deny, hold for a ticket, or one for each class of values; {usual}")
    })
}

fn one_otherwise() -> Value {
    json!({"enum": ["deny", "hold"], "description": "deny (default), or hold for a ticket"})
}

fn rules(of: &Value, description: &str) -> Value {
    json!({"type": "array", "minItems": 1, "items": of, "description": description})
}

fn matcher() -> Value {
    json!({"type": "string", "pattern": "^[^*]*\\*?$", "minLength": 1, "description": "name, prefix_* or *"})
}

fn tool() -> Value {
    let route = object(&["route"], &json!({"route": name()}));
    object(
        &["tool"],
        &json!({
            "tool": matcher(),
            "deny": {"const": true, "description": "Nobody may use the tool; the rule says nothing else"},
            "effect": {"enum": ["read", "write"], "description": "write (default)"},
            "prepare": {"const": "harmless", "description": "What it prepares harms nobody where the call that carries it out is refused"},
            "executes_at": {
                "anyOf": [{"const": "agent"}, route],
                "description": "Where a call takes effect: there its ticket is redeemed"
            },
            "egress": rules(&egress::rule(true), "URLs in arguments"),
            "secrets": secrets::tool(),
            "recipients": rules(&recipients::rule(), "People and accounts in arguments"),
            "arguments": rules(&allowed::arguments(), "Other arguments, and where they must come from"),
            "undeclared_recipients": recipients::undeclared(),
            "ownership": rules(&ownership::rule(), "Resources in arguments"),
            "scopes": words("Scopes that the caller must have, all of them"),
            "agents": words("Agents that may use the tool"),
            "session": {"const": "own", "description": "The call must come in the session that the caller's token names"},
            "when": rules(&conditions::rule(), "What must hold for the call to pass"),
            "ticket": ticket::rule()
        }),
    )
}

fn provider_tools() -> Value {
    let servers = json!({
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": "^[A-Za-z]+://[^?#*]+$"},
        "description": "URLs of the servers it may reach, paths below included"
    });
    json!({
        "type": "array",
        "items": object(&["type"], &json!({"type": matcher(), "servers": servers})),
        "description": "Tools that the model's provider may run; all others are denied"
    })
}
