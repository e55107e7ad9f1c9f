//! Tools of a request: definitions of those that the client runs, and those that the provider runs by itself.

use std::sync::Arc;

use super::read::Finder;
use crate::item::{Item, Located, Place, ToolDefinition};
use crate::protocols::Malformed;
use crate::protocols::strict::{exact_keys_in_request as check, invalid_request, list, present};
use crate::protocols::texts::{Found, Slot, strings};
use crate::wire::json::Node;

/// How the types of tools begin that the client runs, with schemas which the provider knows. Every other type is the
/// provider's: what is not known here may run there.
const CLIENT: [&str; 5] = ["bash_", "text_editor_", "computer_", "browser_", "memory_"];

/// Keys that a tool is read by.
const READ: [&str; 7] = [
    "type",
    "name",
    "description",
    "input_schema",
    "input_examples",
    "mcp_server_name",
    "tools",
];

impl<'d> Finder<'d, '_> {
    /// Adds the tool that is an element of `list`.
    pub fn tool(&mut self, list: &'d Node, index: usize, pointer: &str) -> Result<(), Malformed> {
        match list.elements().get(index) {
            Some(tool) => self.offered(tool, list, index, pointer),
            None => Ok(()),
        }
    }

    /// A tool that a message adds to those of the request: by value, or by the name of one that is known.
    pub fn addition(
        &mut self,
        list: &'d Node,
        index: usize,
        pointer: &str,
    ) -> Result<(), Malformed> {
        let block = list.elements().get(index);
        let Some((block, tool)) = block.and_then(|block| Some((block, block.get("tool")?))) else {
            return Err(invalid_request(&format!("{pointer}/tool"), "is missing"));
        };
        self.extras(block, &["type", "tool", "cache_control"], pointer);
        let pointer = format!("{pointer}/tool");
        check(tool, &pointer, &["type", "name", "definition"])?;
        if let Some(definition) = present(tool, "definition") {
            self.offered(definition, list, index, &format!("{pointer}/definition"))?;
        }
        let name = tool.get("name").and_then(Node::as_str);
        let read = if name.is_some_and(|name| self.defined.contains(name)) {
            &["type", "definition", "name"][..]
        } else {
            &["type", "definition"]
        };
        self.extras(tool, read, &pointer);
        Ok(())
    }

    /// The definitions in `tools`.
    pub fn definitions(&mut self, holder: &'d Node, pointer: &str) -> Result<(), Malformed> {
        for (index, tool) in list(holder, pointer, "tools")?.iter().enumerate() {
            let pointer = format!("{pointer}/tools/{index}");
            check(tool, &pointer, &READ)?;
            if let Some(list) = holder.get("tools") {
                self.definition(tool, None, list, index, pointer)?;
            }
        }
        Ok(())
    }

    fn offered(
        &mut self,
        tool: &'d Node,
        list: &'d Node,
        index: usize,
        pointer: &str,
    ) -> Result<(), Malformed> {
        check(tool, pointer, &READ)?;
        let kind =
            match present(tool, "type") {
                None => None,
                Some(kind) => Some(kind.as_str().ok_or_else(|| {
                    invalid_request(&format!("{pointer}/type"), "must be a string")
                })?),
            };
        match kind.filter(|kind| *kind != "custom") {
            Some(kind) if !CLIENT.iter().any(|known| kind.starts_with(known)) => {
                let server = tool.get("mcp_server_name").and_then(Node::as_str);
                let server = server
                    .and_then(|name| self.servers.get(name))
                    .map(Arc::clone);
                self.run_by_provider(kind, server, tool, pointer.to_owned());
                self.definitions(tool, pointer)
            }
            kind => self.definition(tool, kind, list, index, pointer.to_owned()),
        }
    }

    /// Adds a definition; if it is denied the element of `list` goes. A tool without a name of its own has that of its type.
    fn definition(
        &mut self,
        tool: &'d Node,
        kind: Option<&'d str>,
        list: &'d Node,
        index: usize,
        pointer: String,
    ) -> Result<(), Malformed> {
        let name = tool.get("name").and_then(Node::as_str).or(kind);
        let name = name.ok_or_else(|| invalid_request(&pointer, "has no name"))?;
        self.defined.insert(name);
        let mut text = String::new();
        strings(tool, &mut text);
        let definition = ToolDefinition::new(name, text);
        let place = Place {
            pointer,
            span: Some(tool.span.clone()),
        };
        self.texts.push(Found {
            located: Located {
                place,
                item: Item::Definition(definition),
            },
            slot: Slot::Element(list, index),
        });
        Ok(())
    }
}
