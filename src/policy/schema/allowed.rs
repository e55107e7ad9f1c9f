//! `allow` of rules.

use serde_json::{Value, json};

use super::{at, described, matcher, name, object, otherwise, text};

pub(super) fn allow(lists: &str) -> Value {
    let site = "URLs: also any other on the host of one that the user said";
    let user = object(
        &["from"],
        &json!({
            "from": {"const": "user"},
            "known": known(),
            "site": described(json!({"enum": [true, false]}), site)
        }),
    );
    let operator = object(
        &["from"],
        &json!({"from": {"const": "operator"}, "known": known()}),
    );
    json!({
        "type": "array",
        "items": {"anyOf": [
            name(),
            object(&["lookup"], &json!({"lookup": name()})),
            object(&["known"], &json!({"known": {"const": true, "description": "The user has reached it before"}})),
            user,
            operator,
            output()
        ]},
        "description": format!("{lists}, {{lookup: NAME}}, {{known: true}}, or {{from: user | operator | tool_output}}")
    })
}

fn known() -> Value {
    described(
        json!({"enum": [true, false]}),
        "Only what the user has reached before",
    )
}

fn output() -> Value {
    let several = |of: &Value, description: &str| {
        let many = json!({"type": "array", "minItems": 1, "items": of});
        json!({"anyOf": [of, many], "description": description})
    };
    let field = json!({"type": "string", "pattern": "^(/.+|[^/*]+)$"});
    object(
        &["from"],
        &json!({
            "from": {"const": "tool_output"},
            "tools": several(&matcher(), "Of these tools; default: any"),
            "fields": several(&field, "The whole value of such a field: a key, or a path such as /contacts/*/email"),
            "asked": described(json!({"enum": [true, false]}), "Only from calls whose every text argument the user or operator has said"),
            "beside": several(&text(), "The object around the value has under such a key a name that the user said"),
            "like_user": described(json!({"enum": [true, false]}), "The value has a word in common with what the user said"),
            "site": described(json!({"const": "asked"}), "URLs: on the host of a URL that the call was asked with"),
            "site_of": several(&text(), "URLs: on the site of the address that the object around the value has under such a key"),
            "via": several(&matcher(), "Only from calls whose every text argument was said, or given by these tools"),
            "sole": described(json!({"enum": [true, false]}), "No other value of its kind stands in the output"),
            "clean": described(
                json!({"enum": ["object", "output", "any"]}),
                "How far from the value an instruction must be that the layer injection finds: object (default)"
            ),
            "known": known(),
            "free_text": described(json!({"enum": [true, false]}), "Also inside a longer text")
        }),
    )
}

pub(super) fn arguments() -> Value {
    object(
        &["at", "allow"],
        &json!({
            "at": at(),
            "allow": allow("What vouches for the value"),
            "otherwise": otherwise("deny (default)")
        }),
    )
}
