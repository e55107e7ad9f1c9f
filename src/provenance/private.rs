//! Values that tools gave in fields that a policy names.

use super::evidence::{Evidence, Whose};
use super::fields::FieldPath;
use crate::policy::ToolMatcher;

impl Evidence {
    /// The whole values that stand in one of these fields of what these tools gave back.
    pub fn values_in<'e>(&'e self, tool: &ToolMatcher, fields: &[FieldPath]) -> Vec<&'e str> {
        let mut values = Vec::new();
        for passage in self.passages() {
            let Whose::Tool(answer) = &passage.whose else {
                continue;
            };
            if answer.is_key || !answer.tool.as_ref().is_some_and(|name| tool.matches(name)) {
                continue;
            }
            match answer.at.as_deref() {
                Some([]) => values.extend(
                    passage
                        .text
                        .leaves()
                        .iter()
                        .filter(|leaf| !leaf.is_key)
                        .filter(|leaf| fields.iter().any(|field| field.is_at(&leaf.path)))
                        .map(|leaf| leaf.text.as_str()),
                ),
                Some(at) if fields.iter().any(|field| field.is_at(at)) => {
                    values.push(passage.text.as_str());
                }
                Some(_) | None => {}
            }
        }
        values
    }
}
