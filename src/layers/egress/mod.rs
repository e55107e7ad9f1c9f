//! URLs in a call's arguments may lead only to listed hosts.
//!
//! Read are the strings at the places that a rule names, the keys there, and strings inside JSON that stands in a string. A
//! string under a key that says it holds a URL (`url`, `href`, `webhook_uri`, ...) is read as one URL whose scheme may be
//! missing; any other string is searched. Under the policy's default a name of an MCP server's own resource is no URL. What
//! cannot be read unambiguously is denied, also where a rule would otherwise hold.

mod find;
mod hosts;
mod place;
mod resource;
mod target;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

pub use find::{Found, find};
pub use hosts::Hosts;
pub use place::Location;
use serde_json::Value;
pub use target::{Host, Refusal, Target, read, read_authority, read_domain};

use super::support::{ByRule, Objections, finding, list};
use super::{Context, Layer, LayerDef};
use crate::item::{Item, Located, RouteKind, ToolCall};
use crate::policy::{At, EgressRule, Otherwise, Policy, lists};
use crate::source::Problems;
use crate::store::Stores;
use crate::verdict::{LayerId, Reason, Undecided, Verdict};
use crate::wire::json::{Document, Kind, Node};

/// The entry of the registry.
pub const EGRESS: LayerDef = LayerDef {
    id: LayerId::Egress,
    doc: "URLs in arguments lead only to listed hosts",
    build,
};

/// Levels of JSON inside strings that are read.
const NESTED: usize = 3;

/// Nesting of JSON inside a string.
const DEPTH: usize = 64;

struct Egress {
    default: Option<Ready>,
    rules: ByRule<Ready>,
}

struct Ready {
    rule: EgressRule,
    hosts: Hosts,
}

fn build(policy: &Arc<Policy>, _stores: &Stores) -> Result<Arc<dyn Layer>, Problems> {
    let mut problems = Vec::new();
    let mut ready = |rule: &EgressRule| {
        let mut named = Vec::new();
        for name in lists(&rule.allow) {
            match list(policy, name, &rule.id) {
                Ok(found) => named.push(found),
                Err(problem) => problems.push(problem),
            }
        }
        Ready {
            rule: rule.clone(),
            hosts: Hosts::new(named),
        }
    };
    let default = policy.egress.as_ref().map(&mut ready);
    let rules = policy
        .tools
        .iter()
        .filter(|tool| !tool.egress.is_empty())
        .map(|tool| {
            (
                tool.id.clone(),
                tool.egress.iter().map(&mut ready).collect(),
            )
        })
        .collect();
    if problems.is_empty() {
        Ok(Arc::new(Egress { default, rules }))
    } else {
        Err(Problems(problems))
    }
}

impl Egress {
    /// The tool's own rules, else the policy's default.
    fn rules(&self, context: &Context<'_>) -> &[Ready] {
        self.own(context).unwrap_or(self.default.as_slice())
    }

    fn own(&self, context: &Context<'_>) -> Option<&[Ready]> {
        let own = context.rule.and_then(|rule| self.rules.get(&rule.id));
        own.map(Vec::as_slice)
    }

    fn judge(&self, call: &ToolCall, context: &Context<'_>) -> Verdict {
        let mut objections = Objections::default();
        let names = self.own(context).is_none() && context.exchange.kind == RouteKind::Mcp;
        for ready in self.rules(context) {
            for selector in &ready.rule.at {
                selector.each_below(&call.args.value, |at, value| {
                    if !objections.is_denied() {
                        let name = names && resource::is_at(call.tool.as_str(), &at.pointer);
                        ready.judge(at, value, name, &mut objections);
                    }
                });
            }
        }
        objections.verdict()
    }
}

impl Ready {
    /// `name`: a string here names a resource of the server that is asked.
    fn judge(&self, at: &At<'_>, value: &Value, name: bool, objections: &mut Objections) {
        match value {
            Value::String(text) => {
                let inside = name.then(|| resource::inside(text)).flatten();
                let (key, text) = inside.map_or((at.key, text.as_str()), |inside| ("", inside));
                self.text(&at.pointer, key, text, NESTED, objections);
            }
            Value::Object(members) => {
                for key in members.keys() {
                    self.object(&at.pointer, find(key), objections);
                }
            }
            _ => {}
        }
    }

    fn text(&self, at: &str, key: &str, text: &str, nested: usize, objections: &mut Objections) {
        let opens = |mark: &[char]| text.trim_start().starts_with(mark);
        if nested > 0
            && opens(&['{', '['])
            && let Ok(document) = Document::read(Bytes::copy_from_slice(text.as_bytes()), DEPTH)
        {
            return self.node(at, key, document.root(), nested - 1, objections);
        }
        if names_a_url(key) {
            self.object(at, whole(text), objections);
        } else {
            self.object(at, find(text), objections);
        }
        // Some reader may take it for JSON or code all the same: look behind its escapes.
        if text.contains("\\/") || text.contains("\\u00") || text.contains("\\x") {
            self.object(at, find(&unescaped(text)), objections);
        }
    }

    fn node(&self, at: &str, key: &str, node: &Node, nested: usize, objections: &mut Objections) {
        match &node.kind {
            Kind::String(text) => self.text(at, key, text, nested, objections),
            Kind::Array(elements) => {
                for element in elements {
                    self.node(at, key, element, nested, objections);
                }
            }
            Kind::Object(members) => {
                for member in members {
                    self.object(at, find(&member.key), objections);
                    self.node(at, &member.key, &member.value, nested, objections);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number => {}
        }
    }

    fn object(&self, at: &str, found: Vec<Found>, objections: &mut Objections) {
        for found in found {
            let (otherwise, reason, detail) = match found {
                Ok(target) if self.hosts.allow(&target) => continue,
                Ok(target) if target.port.is_some() => (
                    self.rule.otherwise,
                    Reason::HostNotAllowed,
                    "the host is not listed with this port",
                ),
                Ok(_) => (
                    self.rule.otherwise,
                    Reason::HostNotAllowed,
                    "the host is on none of the rule's lists",
                ),
                Err(Refusal::Scheme) => (
                    Otherwise::Deny,
                    Reason::HostNotAllowed,
                    "the scheme is not allowed",
                ),
                Err(Refusal::Unreadable(why)) => (Otherwise::Deny, Reason::UrlUnreadable, why),
            };
            let argument = Some(at.to_owned());
            let finding = finding(LayerId::Egress, &self.rule.id, reason, argument, detail);
            objections.add(otherwise, finding);
        }
    }
}

/// Longest key that is read for its words, in bytes: it is read again for every element under it.
const LONGEST_KEY: usize = 256;

/// Words of a key that say that its value is a URL or a host.
const URL_WORDS: [&str; 11] = [
    "url", "urls", "uri", "uris", "href", "link", "links", "webhook", "webhooks", "website",
    "hostname",
];

/// Whether a key says that its value is a URL: `url`, `image_url`, `callbackUri`.
fn names_a_url(key: &str) -> bool {
    if key.len() > LONGEST_KEY {
        return false;
    }
    let mut words = String::with_capacity(key.len() + 4);
    let mut lower = false;
    for c in key.chars() {
        if c.is_uppercase() && lower {
            words.push(' ');
        }
        lower = c.is_lowercase();
        words.push(if c.is_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            ' '
        });
    }
    words.split(' ').any(|word| URL_WORDS.contains(&word))
}

const BLANK: Refusal = Refusal::Unreadable("white space or a control character around or inside");

/// Reads a string that should be one URL: absolute, scheme-relative, a path, or a name without scheme. A list of absolute
/// URLs, separated by white space or commas, is taken apart.
fn whole(text: &str) -> Vec<Found> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        if !starts_with_scheme(text.trim_start()) {
            return find(text);
        }
        let listed: Vec<_> = text
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|piece| !piece.is_empty())
            .map(read)
            .collect();
        // One URL with blanks is no list, nor is one with something else behind.
        let list = listed.len() > 1 && listed.iter().all(Result::is_ok);
        return if list { listed } else { vec![Err(BLANK)] };
    }
    if let Some(path) = text.strip_prefix(['/', '\\']) {
        return match path.strip_prefix(['/', '\\']) {
            Some(_) => vec![read(&format!("https:{text}"))],
            None => Vec::new(),
        };
    }
    if text.starts_with(['#', '?']) {
        return Vec::new();
    }
    if let Some((scheme, rest)) = text.split_once(':')
        && !scheme.contains(['.', '/', '@'])
    {
        if find::is_harmless(scheme) {
            return Vec::new();
        }
        let port = rest.starts_with(|c: char| c.is_ascii_digit());
        if !port || target::network(scheme).is_some() {
            return vec![read(text)];
        }
    }
    // One word is a label more often than a host of the local network.
    if !text.contains(['.', ':', '/', '@']) && !text.eq_ignore_ascii_case("localhost") {
        return Vec::new();
    }
    vec![read(&format!("http://{text}"))]
}

fn starts_with_scheme(text: &str) -> bool {
    text.split_once(':')
        .is_some_and(|(scheme, _)| target::network(scheme).is_some() || find::is_active(scheme))
}

/// JSON's and C's escapes for ASCII characters, undone; the rest stays.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (digits, skip) = match after.bytes().next() {
            Some(b'u') => (after.get(1..5), 5),
            Some(b'x') => (after.get(1..3), 3),
            Some(b'/') => (Some("2f"), 1),
            _ => (None, 0),
        };
        let decoded = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32);
        plain.push(decoded.unwrap_or('\\'));
        let skip = if decoded.is_some() { skip } else { 0 };
        rest = after.get(skip..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

impl Layer for Egress {
    fn id(&self) -> LayerId {
        LayerId::Egress
    }

    fn reaches(&self, item: &Located, context: &Context<'_>) -> bool {
        matches!(item.item, Item::ToolCall(_)) && !self.rules(context).is_empty()
    }

    fn judge<'a>(
        &'a self,
        item: &'a Located,
        context: &'a Context<'a>,
    ) -> BoxFuture<'a, Result<Verdict, Undecided>> {
        let verdict = match &item.item {
            Item::ToolCall(call) => self.judge(call, context),
            _ => Verdict::Allow,
        };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_that_hold_urls_are_known_by_their_words() {
        for key in [
            "url",
            "URL",
            "image_url",
            "callbackUrl",
            "Webhook-URI",
            "href",
        ] {
            assert!(names_a_url(key), "{key}");
        }
        for key in ["body", "curly", "linked", "hosting_plan", ""] {
            assert!(!names_a_url(key), "{key}");
        }
    }

    #[test]
    fn a_url_field_may_lack_its_scheme_and_nothing_else() {
        for (text, host) in [
            ("https://a.example/x", "a.example"),
            ("a.example/x", "a.example"),
            ("a.example:443", "a.example"),
            ("www.a.example", "www.a.example"),
            ("//a.example/x", "a.example"),
            ("localhost", "localhost"),
        ] {
            let found = whole(text);
            let [Ok(target)] = &found[..] else {
                panic!("{text}: {found:?}")
            };
            assert_eq!(target.host.to_string(), host, "{text}");
        }
        for text in [
            "https://a.example\t/",
            "https://a.example /",
            " https://a.example/",
            "https://a.example/\n",
            "https:a.example",
            "/\\a.example",
            "\\\\a.example\\x",
            "a.example@b.example",
            "javascript:alert(1)",
            "data:,x",
        ] {
            assert!(matches!(&whole(text)[..], [Err(_)]), "{text}");
        }
        for text in [
            "",
            "home",
            "/orders/7",
            "#top",
            "?q=1",
            "mailto:bob@a.example",
        ] {
            assert_eq!(whole(text), [], "{text}");
        }
    }

    #[test]
    fn a_list_of_urls_and_a_sentence_are_taken_apart() {
        let list = whole("https://a.example/x, https://b.example\n");
        assert!(matches!(&list[..], [Ok(_), Ok(_)]), "{list:?}");
        let sentence = whole("see https://a.example/x");
        assert!(matches!(&sentence[..], [Ok(_)]), "{sentence:?}");
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            unescaped(r"\u0068ttps:\/\/a\x2eexample \n \u12 \"),
            r"https://a.example \n \u12 \"
        );
    }

    proptest! {
        #[test]
        fn reading_a_field_never_panics(text in "\\PC{0,40}") {
            whole(&text);
            unescaped(&text);
        }
    }
}
