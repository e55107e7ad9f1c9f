//! Calls that carry another call, such as a gateway's `call_tool`: the inner call is what is judged, and a ticket for it is
//! written back into the outer one. What stands beside it in the outer arguments passes where the config names it as the
//! gateway's own; anything else makes the call unreadable, for no rule would see it.

use bytes::Bytes;

use super::strict::lookalike;
use crate::item::{Arguments, Item, ToolCall, UnreadableCall};
use crate::names::ToolName;
use crate::settings::Wrapped;
use crate::wire::json::{BODY_DEPTH, Document, Kind, Node};
use crate::wire::splice::{Splice, quote};

/// Most calls that may stand in one another.
const MOST_NESTED: usize = 8;

/// The call as the guard must see it: the innermost one. One that cannot be read strictly is an item that never passes.
pub fn judged(wrapped: &[Wrapped], call: ToolCall) -> Item {
    let mut inner = call;
    for _ in 0..=MOST_NESTED {
        let Some(rule) = rule(wrapped, &inner.tool) else {
            return Item::ToolCall(inner);
        };
        match open(rule, &inner.args.raw) {
            Ok((tool, args)) => {
                inner = ToolCall {
                    tool,
                    args,
                    ..inner
                }
            }
            Err(cause) => return unreadable(inner, cause),
        }
    }
    unreadable(inner, "it carries too many calls in each other".to_owned())
}

/// The arguments of the outer call with these stored ones in place of those of its innermost call; the stored ones themselves
/// for a call that carries none. `None` where they cannot be written.
pub fn rewrapped(
    wrapped: &[Wrapped],
    tool: &ToolName,
    arguments: &Bytes,
    stored: &Bytes,
) -> Option<Bytes> {
    rewrap(wrapped, tool, arguments, stored, MOST_NESTED)
}

fn rewrap(
    wrapped: &[Wrapped],
    tool: &ToolName,
    arguments: &Bytes,
    stored: &Bytes,
    nested: usize,
) -> Option<Bytes> {
    let Some(rule) = rule(wrapped, tool) else {
        return Some(stored.clone());
    };
    let nested = nested.checked_sub(1)?;
    let document = Document::read(arguments.clone(), BODY_DEPTH).ok()?;
    let inner = Inner::find(rule, &document).ok()?;
    let written = rewrap(wrapped, &inner.tool, &inner.arguments, stored, nested)?;
    let mut splice = Splice::new(&document);
    if inner.is_text {
        splice.replace(inner.node, quote(std::str::from_utf8(&written).ok()?));
    } else {
        splice.replace(inner.node, written);
    }
    Some(splice.finish())
}

fn rule<'w>(wrapped: &'w [Wrapped], tool: &ToolName) -> Option<&'w Wrapped> {
    wrapped.iter().find(|rule| rule.tool == *tool)
}

fn open(rule: &Wrapped, outer: &Bytes) -> Result<(ToolName, Arguments), String> {
    let document = Document::read(outer.clone(), BODY_DEPTH).map_err(|error| error.to_string())?;
    let inner = Inner::find(rule, &document)?;
    let arguments = Arguments::read(inner.arguments)
        .map_err(|error| format!("the arguments of the call in it: {error}"))?;
    Ok((inner.tool, arguments))
}

fn unreadable(call: ToolCall, cause: String) -> Item {
    Item::Unreadable(UnreadableCall {
        tool: call.tool,
        call_id: call.call_id,
        cause,
    })
}

/// The call that outer arguments carry.
struct Inner<'d> {
    tool: ToolName,
    /// JSON text.
    arguments: Bytes,
    node: &'d Node,
    /// The arguments are JSON in a string.
    is_text: bool,
}

impl<'d> Inner<'d> {
    fn find(rule: &Wrapped, outer: &'d Document) -> Result<Self, String> {
        let name = at(outer.root(), &rule.name)?.as_str();
        let tool = name
            .filter(|name| !name.is_empty())
            .ok_or_else(|| format!("`{}` is not the name of a tool", rule.name))?;
        let node = at(outer.root(), &rule.arguments)?;
        let arguments = match &node.kind {
            Kind::Object(_) => outer.raw(node),
            Kind::String(text) => Bytes::copy_from_slice(text.as_bytes()),
            _ => {
                let what = "is neither an object nor JSON in a string";
                return Err(format!("`{}` {what}", rule.arguments));
            }
        };
        if !is_all_known(rule, outer.root(), &mut String::new()) {
            return Err(
                "there is more beside the call in it than `beside` of its `wrapped` names"
                    .to_owned(),
            );
        }
        Ok(Self {
            tool: tool.into(),
            arguments,
            node,
            is_text: matches!(node.kind, Kind::String(_)),
        })
    }
}

/// Whether everything below a value is the inner call, leads to it, or is known to be the gateway's own.
fn is_all_known(rule: &Wrapped, node: &Node, pointer: &mut String) -> bool {
    let mut leads = false;
    for known in [&rule.name, &rule.arguments]
        .into_iter()
        .chain(&rule.beside)
    {
        match known.strip_prefix(pointer.as_str()) {
            Some("") => return true,
            Some(rest) => leads |= rest.starts_with('/'),
            None => {}
        }
    }
    if !leads {
        return false;
    }
    let length = pointer.len();
    let mut is_known = |key: &str, value: &Node| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let known = is_all_known(rule, value, pointer);
        pointer.truncate(length);
        known
    };
    match &node.kind {
        Kind::Object(members) => members.iter().all(|m| is_known(&m.key, &m.value)),
        Kind::Array(elements) => elements
            .iter()
            .enumerate()
            .all(|(index, element)| is_known(&index.to_string(), element)),
        _ => false,
    }
}

/// The value that a pointer (RFC 6901) of the config leads to, by a way on which no other reader finds another one.
fn at<'d>(root: &'d Node, pointer: &str) -> Result<&'d Node, String> {
    let mut node = root;
    for step in pointer.split('/').skip(1) {
        let key = step.replace("~1", "/").replace("~0", "~");
        let next = match &node.kind {
            Kind::Object(_) => {
                if lookalike(node, &[&key]).is_some() {
                    let what = "has a key on its way that some readers take for another";
                    return Err(format!("`{pointer}` {what}"));
                }
                node.get(&key)
            }
            // What stands beside the one element would be a call that nobody judges.
            Kind::Array(elements) if elements.len() == 1 && key == "0" => elements.first(),
            Kind::Array(_) => return Err(format!("`{pointer}` leads into an array of several")),
            _ => None,
        };
        node = next.ok_or_else(|| format!("`{pointer}` is missing"))?;
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn rules() -> Vec<Wrapped> {
        [
            ("call_tool", "/name", "/arguments"),
            ("run", "/call/0/to~1ol", "/call/0/in put"),
        ]
        .map(|(tool, name, arguments)| Wrapped {
            tool: tool.into(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            beside: vec!["/why".to_owned(), "/call/0/x".to_owned()],
        })
        .to_vec()
    }

    fn call(tool: &str, arguments: &str) -> ToolCall {
        ToolCall {
            tool: tool.into(),
            args: Arguments::read(Bytes::copy_from_slice(arguments.as_bytes())).unwrap(),
            call_id: Some("c1".into()),
            again: true,
            hint: None,
        }
    }

    fn seen(tool: &str, arguments: &str) -> Result<(String, String), String> {
        match judged(&rules(), call(tool, arguments)) {
            Item::ToolCall(inner) => {
                assert_eq!(inner.call_id.as_deref(), Some("c1"));
                assert!(inner.again);
                let raw = String::from_utf8(inner.args.raw.to_vec()).unwrap();
                Ok((inner.tool.to_string(), raw))
            }
            Item::Unreadable(unreadable) => Err(unreadable.cause),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_inner_call_is_judged_with_its_own_bytes() {
        let pay = |raw: &str| Ok(("pay".to_owned(), raw.to_owned()));
        for (tool, arguments, expected) in [
            ("pay", r#"{"name":"x"}"#, pay(r#"{"name":"x"}"#)),
            (
                "call_tool",
                r#"{"why":1,"name":"pay","arguments":{ "n": 12345678901234567890123 }}"#,
                pay(r#"{ "n": 12345678901234567890123 }"#),
            ),
            (
                "call_tool",
                r#"{"name":"pay","arguments":"{\"a\": 1}"}"#,
                pay(r#"{"a": 1}"#),
            ),
            (
                "run",
                r#"{"call":[{"to/ol":"pay","in put":{}}]}"#,
                pay("{}"),
            ),
            (
                "run",
                r#"{"call":[{"to/ol":"call_tool","in put":{"name":"pay","arguments":"{}"}}]}"#,
                pay("{}"),
            ),
        ] {
            assert_eq!(seen(tool, arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn what_two_readers_may_unwrap_differently_never_passes() {
        for (tool, arguments) in [
            ("call_tool", "{}"),
            ("call_tool", r#"{"name":"pay"}"#),
            ("call_tool", r#"{"name":"pay","arguments":null}"#),
            ("call_tool", r#"{"name":"pay","arguments":[]}"#),
            ("call_tool", r#"{"name":"pay","arguments":""}"#),
            ("call_tool", r#"{"name":"pay","arguments":"[]"}"#),
            ("call_tool", r#"{"name":"pay","arguments":"{} {}"}"#),
            (
                "call_tool",
                r#"{"name":"pay","arguments":"{\"a\":1,\"a\":2}"}"#,
            ),
            ("call_tool", r#"{"name":"","arguments":{}}"#),
            ("call_tool", r#"{"name":7,"arguments":{}}"#),
            ("call_tool", r#"{"name":["pay"],"arguments":{}}"#),
            ("call_tool", r#"{"name":"pay","Name":"x","arguments":{}}"#),
            (
                "call_tool",
                r#"{"name":"pay","arguments":{},"arguments\u0000":{}}"#,
            ),
            ("run", r#"{"call":[]}"#),
            (
                "run",
                r#"{"call":[{"to/ol":"a","in put":{}},{"to/ol":"b","in put":{}}]}"#,
            ),
            ("run", r#"{"call":{"0":1}}"#),
            ("run", r#"{"call":"x"}"#),
        ] {
            let cause = seen(tool, arguments).expect_err(arguments);
            assert!(!cause.contains("pay"), "text of the call: {cause}");
            let outer = Bytes::copy_from_slice(arguments.as_bytes());
            let stored = Bytes::from_static(b"{}");
            if rewrapped(&rules(), &tool.into(), &outer, &stored).is_some() {
                // Only the shape of the inner arguments is wrong: the stored ones are whole.
                assert!(arguments.contains(r#""arguments":""#), "{arguments}");
            }
        }
    }

    #[test]
    fn what_stands_beside_the_call_passes_where_it_is_known() {
        for (tool, arguments, passes) in [
            (
                "call_tool",
                r#"{"name":"pay","arguments":{},"why":{"any":["thing"]}}"#,
                true,
            ),
            (
                "run",
                r#"{"call":[{"to/ol":"pay","in put":{},"x":[1]}],"why":null}"#,
                true,
            ),
            (
                "call_tool",
                r#"{"name":"pay","arguments":{},"url":"https://evil.example"}"#,
                false,
            ),
            ("call_tool", r#"{"name":"pay","arguments":{},"x":1}"#, false),
            (
                "call_tool",
                r#"{"name":"pay","arguments":{},"more":null}"#,
                false,
            ),
            ("call_tool", r#"{"name":"pay","arguments":{},"":{}}"#, false),
            (
                "run",
                r#"{"call":[{"to/ol":"pay","in put":{},"why":1}]}"#,
                false,
            ),
            (
                "run",
                r#"{"call":[{"to/ol":"pay","in put":{}}],"x":1}"#,
                false,
            ),
            (
                "run",
                r#"{"call":[{"to/ol":"pay","in put":{}}],"call/0/x":1}"#,
                false,
            ),
        ] {
            assert_eq!(seen(tool, arguments).is_ok(), passes, "{arguments}");
            let outer = Bytes::copy_from_slice(arguments.as_bytes());
            let written = rewrapped(&rules(), &tool.into(), &outer, &Bytes::from_static(b"{}"));
            assert_eq!(written.is_some(), passes, "{arguments}");
        }
    }

    #[test]
    fn nesting_has_an_end() {
        let mut arguments = "{}".to_owned();
        let mut tool = "pay";
        for depth in 0..=MOST_NESTED + 1 {
            let outer = Bytes::from(arguments.clone());
            let written = rewrapped(&rules(), &tool.into(), &outer, &Bytes::from_static(b"{}"));
            assert_eq!(seen(tool, &arguments).is_ok(), depth <= MOST_NESTED);
            assert_eq!(written.is_some(), depth <= MOST_NESTED);
            arguments = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
            tool = "call_tool";
        }
    }

    fn arguments() -> impl Strategy<Value = Value> {
        ("[ -~é☃\n]{0,9}", any::<i32>(), "[a-z\"]{1,4}")
            .prop_map(|(text, number, key)| json!({ key: text, "n": [number, null] }))
    }

    proptest! {
        #[test]
        fn unwrapping_gives_what_was_wrapped_and_stored_arguments_take_its_place(
            inner in arguments(),
            stored in arguments(),
            layers in prop::collection::vec((any::<bool>(), any::<bool>(), arguments()), 0..5),
        ) {
            let mut tool = "pay";
            let mut outer = inner.to_string();
            for (run, text, extra) in &layers {
                let arguments = if *text { json!(outer) } else { serde_json::from_str(&outer).unwrap() };
                let wrapped = if *run {
                    json!({ "call": [{ "to/ol": tool, "in put": arguments, "x": extra }] })
                } else {
                    json!({ "name": tool, "arguments": arguments, "why": extra })
                };
                tool = if *run { "run" } else { "call_tool" };
                outer = wrapped.to_string();
            }
            let (name, raw) = seen(tool, &outer).unwrap();
            prop_assert_eq!(name, "pay");
            prop_assert_eq!(serde_json::from_str::<Value>(&raw).unwrap(), inner.clone());

            let write = |new: &Value| {
                let (outer, new) = (Bytes::from(outer.clone()), Bytes::from(new.to_string()));
                rewrapped(&rules(), &tool.into(), &outer, &new).unwrap()
            };
            let written = String::from_utf8(write(&stored).to_vec()).unwrap();
            let (name, raw) = seen(tool, &written).unwrap();
            prop_assert_eq!(name, "pay");
            prop_assert_eq!(raw, stored.to_string());
            // Everything else is as it was.
            let back: Value = serde_json::from_slice(&write(&inner)).unwrap();
            prop_assert_eq!(back, serde_json::from_str::<Value>(&outer).unwrap());
        }
    }
}
