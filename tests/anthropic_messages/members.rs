//! Members that the API does not have: what they say to the model is judged.

use serde_json::{Value, json};

use crate::driver::{adapter, edited, texts};
use crate::requests::{bad, conversation, in_model, in_user};

#[test]
fn members_that_nobody_reads_are_untrusted() {
    let tool = json!({"type": "tool_definition", "definition": {"name": "f", "input_schema": {}}});
    let known = json!({"type": "tool_reference", "name": "f"});
    let removed = json!({"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}});
    let blocks = [
        json!({"type": "text", "text": "t"}),
        json!({"type": "tool_use", "id": "u", "name": "f", "input": {}}),
        json!({"type": "server_tool_use", "id": "u", "name": "f", "input": {}}),
        json!({"type": "compaction", "content": "c"}),
        json!({"type": "compaction", "content": "c", "tool_changes": [removed]}),
        json!({"type": "mcp_tool_listing", "tools": []}),
        json!({"type": "tool_addition", "tool": tool}),
        json!({"type": "tool_addition", "tool": known}),
        removed,
    ];
    let in_words = |body: &str| {
        let found = texts(&adapter(), body);
        found.iter().filter(|text| text.contains("EVIL")).count()
    };
    let places = ["", "/tool", "/tool_changes/0", "/tool_changes/0/tool"];
    for block in blocks {
        assert_eq!(in_words(&in_model(block.clone())), 0, "{block}");
        for place in places {
            let mut block = block.clone();
            let Some(Value::Object(holder)) = block.pointer_mut(place) else {
                continue;
            };
            holder.insert("more".to_owned(), json!({"EVIL key": ["EVIL"]}));
            for body in [in_model(block.clone()), in_user(block.clone())] {
                assert_eq!(in_words(&body), 2, "{block}");
                assert!(!edited(&adapter(), &body, &bad).contains("EVIL"), "{block}");
            }
        }
    }
    for role in ["user", "assistant", "system"] {
        let body = conversation(&[json!({"role": role, "content": "x", "more": ["EVIL"]})]);
        assert_eq!(in_words(&body), 1, "{role}");
    }
    let unknown =
        json!({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "EVIL"}});
    assert_eq!(in_words(&in_model(unknown)), 1);
}
