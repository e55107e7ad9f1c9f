//! Texts that become header lines of a mail hold no line break.

use super::judge::Found;
use super::message::check_header;
use super::words::each_text;
use crate::wire::json::Node;

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
}
