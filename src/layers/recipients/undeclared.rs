//! Texts that look like recipients where no rule asks for one: a `bcc` that the policy forgot.

use std::collections::HashSet;

use super::account::read_iban;
use super::calendar;
use super::email::read_list;
use super::phone::read_phone;
use super::words::squashed;
use crate::item::Place;
use crate::policy::{RecipientKind, Selector, ToolRule};
use crate::wire::json::{Document, Node};

/// Longest text that is looked at: no address is longer.
const LONGEST: usize = 320;

/// Keys of recipients, without case and separators, whatever stands there.
const KEYS: [&str; 31] = [
    "attendee",
    "attendees",
    "bcc",
    "bccrecipients",
    "beneficiary",
    "cc",
    "ccrecipients",
    "chatid",
    "forwardto",
    "grantee",
    "guests",
    "iban",
    "invitee",
    "invitees",
    "msisdn",
    "participants",
    "payee",
    "phone",
    "phonenumber",
    "phonenumbers",
    "recipient",
    "recipientemail",
    "recipients",
    "replyto",
    "sendto",
    "sharewith",
    "toemail",
    "tonumber",
    "torecipients",
    "touser",
    "towhom",
];

/// Keys of who sends: an address there reaches nobody.
const SENDERS: [&str; 8] = [
    "from",
    "fromaddress",
    "fromemail",
    "fromname",
    "sender",
    "senderemail",
    "author",
    "onbehalfof",
];

/// Where such texts stand, up to so many.
pub(super) fn find(rule: Option<&ToolRule>, document: &Document, most: usize) -> Vec<String> {
    let mut search = Search {
        covered: HashSet::new(),
        events: false,
        found: Vec::new(),
        most,
    };
    if let Some(rule) = rule {
        search.events = rule
            .recipients
            .iter()
            .any(|rule| rule.kind == RecipientKind::Calendar);
        let recipients = rule.recipients.iter().flat_map(|rule| &rule.at);
        let ownership = rule.ownership.iter().map(|rule| &rule.resource);
        let arguments = rule.arguments.iter().flat_map(|rule| &rule.at);
        for selector in recipients.chain(arguments).chain(ownership) {
            search.cover(selector, document.root());
        }
    }
    search.walk(document.root(), &mut String::new(), "");
    search.found
}

struct Search {
    /// By identity: pointers of long keys are cut.
    covered: HashSet<*const Node>,
    events: bool,
    found: Vec<String>,
    most: usize,
}

impl Search {
    fn cover(&mut self, selector: &Selector, root: &Node) {
        let selected = selector.select(root);
        let nodes = selected
            .into_iter()
            .map(|(_, node)| std::ptr::from_ref(node));
        self.covered.extend(nodes);
    }

    fn walk(&mut self, node: &Node, at: &mut String, key: &str) {
        let covered = self.covered.contains(&std::ptr::from_ref(node));
        if self.found.len() >= self.most || covered || (self.events && calendar::covers(key)) {
            return;
        }
        if let Some(text) = node.as_str() {
            if looks_like_one(key, text) {
                self.found.push(at.clone());
            }
            return;
        }
        let length = at.len();
        for member in node.members() {
            Place::push_step(at, &member.key);
            self.walk(&member.value, at, &squashed(&member.key));
            at.truncate(length);
        }
        for (index, element) in node.elements().iter().enumerate() {
            Place::push_step(at, &index.to_string());
            self.walk(element, at, key);
            at.truncate(length);
        }
    }
}

fn looks_like_one(key: &str, text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() || SENDERS.contains(&key) {
        return false;
    }
    if KEYS.contains(&key) {
        return true;
    }
    if text.len() > LONGEST {
        return false;
    }
    let address = text.contains('@') && read_list(text).is_ok_and(|found| !found.is_empty());
    let phone = text.starts_with('+') && matches!(read_phone(text, None), Ok(Some(_)));
    address || phone || (key == "to" && text.contains('@')) || is_iban(text)
}

fn is_iban(text: &str) -> bool {
    let digit_third = text.as_bytes().get(2).is_some_and(u8::is_ascii_digit);
    digit_third && text.len() >= 15 && read_iban(text).is_ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::policy::{RecipientRule, ToolMatcher};
    use crate::wire::json::BODY_DEPTH;

    fn found(rule: Option<&ToolRule>, args: &str) -> Option<String> {
        let document = Document::read(Bytes::copy_from_slice(args.as_bytes()), BODY_DEPTH).unwrap();
        find(rule, &document, 1).into_iter().next()
    }

    #[test]
    fn what_looks_like_a_recipient_is_found_outside_the_rules() {
        let mut rule = ToolRule::new("tools[0]", ToolMatcher::Any);
        let at = vec![Selector::parse("/to").unwrap()];
        rule.recipients = vec![RecipientRule::new("r", at, RecipientKind::Email)];
        for (args, at) in [
            (
                r#"{"to": "a@x.example", "subject": "hi", "from": "b@x.example"}"#,
                None,
            ),
            (r#"{"to": "a@x.example", "bcc": ["eve"]}"#, Some("/bcc/0")),
            (
                r#"{"a": {"Reply_To": "eve@x.example"}}"#,
                Some("/a/Reply_To"),
            ),
            (r#"{"note": "Eve <eve@x.example>"}"#, Some("/note")),
            (r#"{"note": "write to eve@x.example today"}"#, None),
            (r#"{"note": "+44 7700 900123"}"#, Some("/note")),
            (r#"{"note": "GB82 WEST 1234 5698 7654 32"}"#, Some("/note")),
            (r#"{"note": "GB82 WEST 1234 5698 7654 33"}"#, None),
            (
                r#"{"bcc": "", "cc": null, "date": "2026-11-30", "n": 7}"#,
                None,
            ),
        ] {
            assert_eq!(found(Some(&rule), args).as_deref(), at, "{args}");
        }
        let dates = r#"{"from": "2026-11-01", "to": "2026-11-30"}"#;
        assert_eq!(found(None, dates), None);
        assert_eq!(
            found(None, r#"{"to": "a@x.example"}"#).as_deref(),
            Some("/to")
        );
    }
}
