//! An object as a model wrote it: JSON, or what Python prints of a dictionary.

use serde_json::{Map, Value};

/// The first object in a text; what stands around it is left away.
pub(super) fn object(text: &str) -> Option<Map<String, Value>> {
    let (_, inner) = text.split_once('{')?;
    let json = json(inner)?;
    match serde_json::from_str(&json).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// The object whose first brace is open already, as JSON.
fn json(inner: &str) -> Option<String> {
    let mut json = String::from("{");
    let mut depth = 1_usize;
    let mut rest = inner;
    while depth > 0 {
        let c = rest.chars().next()?;
        let after = rest.strip_prefix(c)?;
        rest = after;
        match c {
            '"' | '\'' => rest = quoted(after, c, &mut json)?,
            '{' | '[' => {
                depth += 1;
                json.push(c);
            }
            '}' | ']' => {
                depth -= 1;
                // Python takes a comma before the end.
                let bare = json.trim_end();
                if let Some(without) = bare.strip_suffix(',') {
                    json.truncate(without.len());
                }
                json.push(c);
            }
            c if c.is_alphabetic() => {
                let end = after
                    .find(|c: char| !c.is_alphanumeric())
                    .unwrap_or(after.len());
                let (tail, left) = after.split_at_checked(end)?;
                rest = left;
                match (c, tail) {
                    ('T', "rue") => json.push_str("true"),
                    ('F', "alse") => json.push_str("false"),
                    ('N', "one") => json.push_str("null"),
                    _ => {
                        json.push(c);
                        json.push_str(tail);
                    }
                }
            }
            c => json.push(c),
        }
    }
    Some(json)
}

/// Reads a text up to its closing quote; gives what follows.
fn quoted<'t>(text: &'t str, quote: char, json: &mut String) -> Option<&'t str> {
    let mut said = String::new();
    let mut rest = text;
    loop {
        let c = rest.chars().next()?;
        rest = rest.strip_prefix(c)?;
        if c == quote {
            break;
        }
        if c != '\\' {
            said.push(c);
            continue;
        }
        let escaped = rest.chars().next()?;
        rest = rest.strip_prefix(escaped)?;
        match escaped {
            'n' => said.push('\n'),
            't' => said.push('\t'),
            'r' => said.push('\r'),
            'u' => {
                let digits = rest.get(..4)?;
                said.push(
                    char::from_u32(u32::from_str_radix(digits, 16).ok()?).unwrap_or('\u{fffd}'),
                );
                rest = rest.get(4..)?;
            }
            other => said.push(other),
        }
    }
    json.push_str(&Value::from(said).to_string());
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Value> {
        object(text).map(Value::Object)
    }

    #[test]
    fn python_and_json_are_read_alike() {
        let expected =
            serde_json::json!({"a": "it's \"so\"", "b": [true, null, 1.5], "c": {"d": false}});
        let json = expected.to_string();
        let python =
            r#"{'a': 'it\'s "so"', 'b': [True, None, 1.5,], 'c': {'d': False}}  # as asked"#;
        assert_eq!(of(&json), Some(expected.clone()));
        assert_eq!(of(python), Some(expected));
        assert_eq!(of("say {} then"), Some(serde_json::json!({})));
    }

    #[test]
    fn what_is_no_object_is_none() {
        for text in ["", "None", "{'a': ", "{'a': 'b}", "{a: 1}", "{'a' 'b'}"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
