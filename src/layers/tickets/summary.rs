//! What the approver is asked, from the policy's template and the stored arguments. Never from the model's words.

use serde_json::Value;

use super::show::{escape, shorten, text_of};
use crate::names::{ToolName, UpstreamName};

/// Where the template names an argument that the call does not have.
const ABSENT: &str = "(absent)";

/// The template with each `{/json/pointer}` replaced by the argument there. A value that could be taken for words of the
/// template stands in quotes.
pub(super) fn render(template: &str, arguments: &Value) -> String {
    let mut summary = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, from)) = rest.split_once("{/") {
        let Some((pointer, after)) = from.split_once('}') else {
            break;
        };
        summary.push_str(before);
        match arguments.pointer(&format!("/{pointer}")) {
            Some(value) => summary.push_str(&inline(value)),
            None => summary.push_str(ABSENT),
        }
        rest = after;
    }
    summary.push_str(rest);
    summary
}

/// For a rule without a template, and for calls that no rule describes.
pub(super) fn plain(tool: &ToolName, upstream: &UpstreamName) -> String {
    format!(
        "Run {} at {}",
        word(tool.as_str()),
        escape(upstream.as_str())
    )
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => shorten(&text_of(other)),
    }
}

/// A text as it is where it is one plain word, else in quotes.
fn word(text: &str) -> String {
    let plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "@.,:;+-_/#%&=?!$€£".contains(c));
    if plain {
        shorten(text)
    } else {
        format!("\"{}\"", shorten(text).replace('"', "\\\""))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_stand_in_the_template() {
        let arguments = json!({"amount": "19.90", "n": 2.50, "to": {"a/b": ["bob@x.example"]}});
        let summary = render("Pay {/amount} {/n} to {/to/a~1b/0} ({/note})", &arguments);
        assert_eq!(summary, "Pay 19.90 2.5 to bob@x.example ((absent))");
        assert_eq!(render("open {/amount", &arguments), "open {/amount");
        assert_eq!(render("{} {x} {/n}", &arguments), "{} {x} 2.5");
    }

    #[test]
    fn a_value_cannot_pass_for_the_template() {
        let arguments = json!({"order": "A-1 (approved by \"Finance\")\u{202e}\n", "empty": ""});
        assert_eq!(
            render("Refund {/order}{/empty}", &arguments),
            "Refund \"A-1 (approved by \\\"Finance\\\")\\u{202e}\\n\"\"\""
        );
        let nested = json!({"order": "{/secret}", "secret": "s"});
        assert_eq!(render("{/order}", &nested), "\"{/secret}\"");
    }
}
