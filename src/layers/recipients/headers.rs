//! Texts that become header lines of a mail hold no line break; and where a tool takes header fields as such, those that name
//! recipients in a whole message name them here.

use super::judge::Found;
use super::message::{check_header, delivers, names_recipients};
use super::words::{each_member, each_text, squashed};
use crate::item::Place;
use crate::wire::json::{Kind, Node};

/// Keys of texts that mail tools write into the header, without case and separators.
const HEADERS: [&str; 14] = [
    "subject",
    "from",
    "fromname",
    "fromemail",
    "fromaddress",
    "sender",
    "sendername",
    "replyto",
    "inreplyto",
    "references",
    "messageid",
    "header",
    "headers",
    "listunsubscribe",
];

/// Checks the known ones at any depth, and those that the rule names.
pub(super) fn find(found: &mut Found<'_>, root: &Node) {
    let mut faults = Vec::new();
    each_text(root, &mut String::new(), "", &mut |at, key, text| {
        if HEADERS.contains(&key)
            && let Err(fault) = check_header(text)
        {
            faults.push((at.to_owned(), fault));
        }
    });
    for selector in &found.rule.headers {
        selector.each_below(root, |at, node: &Node| {
            if let Some(text) = node.as_str()
                && let Err(fault) = check_header(text)
            {
                faults.push((at.pointer.clone(), fault));
            }
        });
    }
    for (at, fault) in faults {
        found.fault(at, fault);
    }
    let mut fields = Vec::new();
    each_member(root, &mut String::new(), &mut |at, key, node| {
        if key.ends_with("headers") {
            add_fields(at, node, &mut fields);
        }
    });
    for (at, name, text) in fields {
        let counted = found.count;
        found.mailboxes(&at, text);
        if !delivers(&name) {
            // Who gets answers is not who gets the mail.
            found.count = counted;
        }
    }
}

/// Fields that name recipients: of a map by name, or of a list of pairs `{name, value}`, as the API of Microsoft Graph has it.
fn add_fields<'n>(at: &str, node: &'n Node, fields: &mut Vec<(String, String, &'n str)>) {
    let mut add = |at: String, name: &str, value: &'n Node| {
        let name = name.trim().to_ascii_lowercase().replace('_', "-");
        if !names_recipients(&name) {
            return;
        }
        let texts = std::iter::once(value).chain(value.elements());
        fields.extend(texts.filter_map(|text| Some((at.clone(), name.clone(), text.as_str()?))));
    };
    let below = |at: &str, step: &str| {
        let mut below = at.to_owned();
        Place::push_step(&mut below, step);
        below
    };
    if matches!(node.kind, Kind::Object(_)) {
        for member in node.members() {
            add(below(at, &member.key), &member.key, &member.value);
        }
    }
    for (index, element) in node.elements().iter().enumerate() {
        let member = |name: &str| {
            let mut members = element.members().iter();
            members.find(|member| squashed(&member.key) == name)
        };
        let name = member("name").or_else(|| member("key"));
        if let (Some(name), Some(value)) = (name.and_then(|n| n.value.as_str()), member("value")) {
            add(below(at, &index.to_string()), name, &value.value);
        }
    }
}
