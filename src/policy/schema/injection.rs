//! `injection` and `definitions`.

use serde_json::{Map, Value, json};

use super::{described, matcher, object};

fn threshold(description: &str) -> Value {
    json!({
        "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"const": "never"}],
        "description": description
    })
}

fn actions() -> Map<String, Value> {
    let on = |description: &str| json!({"type": "boolean", "description": description});
    let actions = json!({
        "annotate": threshold("From this score the matching spans are marked as data"),
        "redact": threshold("From this score the matching spans are removed"),
        "block": threshold("From this score the whole text is withheld"),
        "withhold": {"enum": ["text", "result"], "description": "What `block` withholds: the text, or every text of the same result"},
        "spotlight": {"enum": [true, false, "all"], "description": "Mark prose as data on a model's route, or every text"},
        "strip": on("Take out characters that nobody sees"),
        "neutralise": on("Make tokens of chat templates and forged boundaries harmless")
    });
    match actions {
        Value::Object(actions) => actions,
        _ => Map::new(),
    }
}

pub(super) fn section() -> Value {
    let mut of_tool = actions();
    of_tool.insert("tool".to_owned(), matcher());
    let tool = object(&["tool"], &Value::Object(of_tool));
    let mut all = actions();
    let tools = json!({"type": "array", "items": tool});
    all.insert("tools".to_owned(), tools);
    described(
        object(&[], &Value::Object(all)),
        "What becomes of instructions in what tools give back",
    )
}

pub(super) fn definitions() -> Value {
    described(
        object(
            &[],
            &json!({
                "remove": threshold("From this score a definition is taken out of what is offered"),
                "refuse": threshold("From this score the whole list is")
            }),
        ),
        "Tool definitions that tell the model more than what a tool is for",
    )
}
