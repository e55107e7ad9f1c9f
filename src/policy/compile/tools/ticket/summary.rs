//! Templates for approvers.

use super::pointer::syntax;
use crate::source::Field;

/// Text with `{/json/pointer}` in it.
pub(super) fn summary(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let mut rest = text;
    let mut fault = None;
    while let Some((before, after)) = rest.split_once('{') {
        let closed = after.split_once('}').filter(|(p, _)| !p.contains('{'));
        let Some((pointer, after)) = closed else {
            fault = Some("a `{` is not closed".to_owned());
            break;
        };
        if before.contains('}') {
            break;
        }
        if let Err(why) = syntax(pointer) {
            fault = Some(format!("`{{{pointer}}}`: {why}"));
            break;
        }
        rest = after;
    }
    let stray = rest.split_once('{').map_or(rest, |(before, _)| before);
    if fault.is_none() && stray.contains('}') {
        fault = Some("a `}` is not opened".to_owned());
    }
    let Some(fault) = fault else {
        return Some(text.to_owned());
    };
    field.error(
        format!("the summary cannot be filled in: {fault}"),
        "name one argument between braces by its JSON Pointer, such as `{/amount}`",
    );
    None
}
