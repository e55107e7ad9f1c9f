//! Which tools a rule is for, and rules that an earlier one leaves nothing.

use crate::names::ToolName;
use crate::policy::ToolMatcher;
use crate::source::{Field, Spot};

/// `name`, `prefix_*` or `*`.
pub(super) fn matcher(field: &Field<'_>) -> Option<ToolMatcher> {
    let text = field.text()?;
    if text.trim() != text || text.contains(char::is_control) {
        field.error(
            "a tool's name has no space around it and no control character",
            "write the name as the model sees it",
        );
        return None;
    }
    let found = match text.strip_suffix('*') {
        Some("") => ToolMatcher::Any,
        Some(prefix) if !prefix.contains('*') => ToolMatcher::Prefix(prefix.to_owned()),
        None if !text.contains('*') => ToolMatcher::Exact(ToolName::from(text)),
        _ => {
            field.error(
                format!("`{text}` is not a tool pattern"),
                "`*` stands alone or once at the end, such as `crm_*`",
            );
            return None;
        }
    };
    Some(found)
}

/// Whether the first matches every tool that the second does.
fn covers(first: &ToolMatcher, second: &ToolMatcher) -> bool {
    match (first, second) {
        (ToolMatcher::Any, _) => true,
        (ToolMatcher::Prefix(p), ToolMatcher::Prefix(q)) => q.starts_with(p.as_str()),
        (ToolMatcher::Prefix(_), ToolMatcher::Exact(name)) => first.matches(name),
        (ToolMatcher::Exact(a), ToolMatcher::Exact(b)) => a == b,
        _ => false,
    }
}

/// Matchers in file order; reports each that can never match because the first match wins.
#[derive(Debug, Default)]
pub(super) struct Order(Vec<(ToolMatcher, Spot)>);

impl Order {
    pub(super) fn add(&mut self, matcher: &ToolMatcher, field: &Field<'_>) {
        let earlier = self.0.iter().find(|(earlier, _)| covers(earlier, matcher));
        if let Some((_, spot)) = earlier {
            let problem = field
                .problem("this rule can never match: the first rule that matches a tool wins")
                .help("move it above the other, or remove one of them")
                .related(spot.1.clone(), "matches all of it before");
            field.report(problem);
        }
        self.0.push((matcher.clone(), field.spot()));
    }
}
