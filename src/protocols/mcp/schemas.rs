//! Which tools have a schema of their output: some clients hold every structured result against it, also where it is an error.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::wire::json::Node;

/// Most tools that are kept. Of more nothing is known.
const TOOLS: usize = 4096;

/// What the servers of a route have said of their tools.
#[derive(Debug, Default)]
pub(super) struct Schemas(Mutex<HashMap<Box<str>, bool>>);

impl Schemas {
    /// Takes the result of `tools/list`.
    pub(super) fn learn(&self, result: &Node) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in result.get("tools").map_or(&[][..], Node::elements) {
            let Some(name) = tool.get("name").and_then(Node::as_str) else {
                continue;
            };
            let has = tool.get("outputSchema").is_some();
            if known.contains_key(name) || known.len() < TOOLS {
                known.insert(name.into(), has);
            }
        }
    }

    /// Whether the tool is known to have none.
    pub(super) fn has_none(&self, tool: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tool) == Some(&false)
    }
}
