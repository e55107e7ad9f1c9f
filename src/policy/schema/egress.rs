//! `egress`, `forward` and `rendered`.

use serde_json::{Map, Value, json};

use super::allowed::allow;
use super::{at, described, name, object, otherwise};
use crate::layers::egress::{HOSTLESS, SCHEMES};

/// `with_at`: for the arguments that a tool's rule names.
pub(super) fn rule(with_at: bool) -> Value {
    let mut properties = reach(&SCHEMES);
    properties.insert("allow".to_owned(), allow("Lists with hosts"));
    properties.insert(
        "urls".to_owned(),
        json!({
            "enum": ["by_key", "within", "whole"],
            "description": "by_key (default): a text is searched, and is a URL under a key such as `url`; within: always searched; whole: each text is one URL"
        }),
    );
    properties.insert("budget".to_owned(), budget());
    let usual = if with_at {
        super::USUAL
    } else {
        "deny (default)"
    };
    properties.insert("otherwise".to_owned(), otherwise(usual));
    if with_at {
        properties.insert("at".to_owned(), at());
        return object(&["at", "allow"], &properties.into());
    }
    described(
        object(&["allow"], &properties.into()),
        "URLs in any argument of a tool whose rule has no egress",
    )
}

fn budget() -> Value {
    let size = |what: &str| json!({"type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB)$", "description": format!("Most {what} to one host")});
    let budget = object(
        &[],
        &json!({
            "bytes": size("bytes"),
            "entropy": size("bytes that what is sent can tell"),
            "window": {"type": "string", "minLength": 1, "description": "How long a call counts; as long as the session (default)"},
            "per": {"enum": ["session", "principal"], "description": "Whose calls count together; session (default)"}
        }),
    );
    described(
        budget,
        "How much a session may send to one host, or to all that one wildcard stands for",
    )
}

pub(super) fn forward() -> Value {
    let mut properties = reach(&SCHEMES);
    properties.insert("allow".to_owned(), lists("Lists with hosts"));
    properties.insert(
        "methods".to_owned(),
        json!({
            "type": "array", "minItems": 1,
            "items": {"type": "string", "pattern": "^[A-Z-]+$"},
            "description": "Methods of plain requests; all (default)"
        }),
    );
    properties.insert(
        "require_sni".to_owned(),
        json!({"type": "boolean", "description": "A tunnel must begin with TLS that asks for the tunnel's own name; true (default)"}),
    );
    properties.insert("budget".to_owned(), budget());
    described(
        object(&["allow"], &properties.into()),
        "What the forward proxy lets pass",
    )
}

pub(super) fn rendered() -> Value {
    let mut schemes = SCHEMES.to_vec();
    schemes.extend(HOSTLESS);
    let mut properties = reach(&schemes);
    properties.insert(
        "images".to_owned(),
        lists("Lists with hosts of what a client fetches as soon as it shows a text"),
    );
    properties.insert(
        "links".to_owned(),
        lists("Lists with hosts of what a person may follow"),
    );
    described(
        object(&["images", "links"], &properties.into()),
        "Where images and links of a model's text may lead",
    )
}

fn lists(description: &str) -> Value {
    json!({"type": "array", "items": name(), "description": description})
}

fn reach(schemes: &[&str]) -> Map<String, Value> {
    let most = |what: &str| json!({"type": "integer", "minimum": 0, "maximum": u32::MAX, "description": format!("Most bytes of a {what}")});
    let properties = json!({
        "schemes": {
            "type": "array", "minItems": 1, "items": {"enum": schemes},
            "description": "https and wss (default)"
        },
        "ports": {
            "type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535},
            "description": "Ports of hosts whose entry names none; the scheme's own (default)"
        },
        "max_query": most("query"),
        "max_path": most("path"),
        "max_label": most("label that a wildcard stands for"),
        "random_labels": {
            "enum": ["allow", "deny"],
            "description": "Labels under a wildcard that look like encoded data; allow (default)"
        }
    });
    match properties {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
