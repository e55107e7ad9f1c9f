//! Takes secrets out of what is written: those that the proxy itself holds, those that are registered, and whatever the egress
//! layer's readers tell by its shape, in any form in which they look for it. What still holds one afterwards is not written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};

use super::{Content, Withheld};
use crate::layers::egress::{Class, Register, Scanner};
use crate::protocols::Event;
use crate::settings::Settings;
use crate::wire::sse;

/// Shortest secret of the proxy's own that is looked for: a shorter one stands there by chance.
const SHORTEST: usize = 8;
/// Kinds of secrets that are replaced. A path of a credential file is none.
const CLASSES: [Class; 3] = [Class::Credentials, Class::Registered, Class::Cards];

/// Where a text is cut into pieces, ever fewer. Marks that stand in secrets themselves, such as those of base64, are none of
/// them, but for the slash of a URL.
const SEPARATORS: [&[char]; 4] = [
    &[' ', '\t', '\n', '\r', '<', '>', '"', '\'', '?', '&', '/'],
    &[
        ' ', '\t', '\n', '\r', ',', ';', '<', '>', '(', ')', '"', '\'', '?', '&',
    ],
    &[' ', '\t', '\n', '\r'],
    &['\n'],
];

/// Replaces secrets.
pub struct Redactor {
    scanner: Scanner,
    /// What the proxy itself holds.
    own: Option<AhoCorasick>,
    /// What stands in place of each.
    instead: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// A body without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// What may be written.
    pub content: Content,
    /// How many secrets were replaced.
    pub replaced: usize,
}

impl Redactor {
    /// One that knows the secrets of the settings and of the register.
    ///
    /// # Errors
    /// The secrets cannot be looked for, such as an empty list of very long ones.
    pub fn new(settings: &Settings, register: Arc<Register>) -> Result<Self, String> {
        let mut own: Vec<(String, String)> = Vec::new();
        for secret in &settings.secrets {
            own.push((
                secret.value.0.to_string(),
                format!("{{{{holdpoint:{}}}}}", secret.name),
            ));
        }
        for upstream in settings.upstreams.values() {
            if let Some((_, value)) = &upstream.credential {
                let bare = value.0.rsplit(' ').next().unwrap_or_default();
                own.push((bare.to_owned(), note("credential")));
            }
        }
        own.retain(|(secret, _)| secret.len() >= SHORTEST);
        let (secrets, instead): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        let own = if secrets.is_empty() {
            None
        } else {
            let automaton = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&secrets);
            Some(automaton.map_err(|error| error.to_string())?)
        };
        Ok(Self {
            scanner: Scanner {
                classes: CLASSES.into(),
                register,
            },
            own,
            instead,
        })
    }

    /// One that knows secrets by their shape alone.
    pub fn by_shape() -> Self {
        Self {
            scanner: Scanner {
                classes: CLASSES.into(),
                register: Arc::default(),
            },
            own: None,
            instead: Vec::new(),
        }
    }

    /// A body as it may be written. `media`: its `Content-Type`.
    pub fn body(&self, media: Option<&str>, body: &[u8]) -> Redacted {
        let Ok(text) = std::str::from_utf8(body) else {
            return withheld(Withheld::Binary, 0);
        };
        let mut count = 0;
        let mut text = self.without_own(text, &mut count);
        let events = media.is_some_and(|media| media.contains("event-stream"));
        if events {
            text = match self.events(&text, &mut count) {
                Some(text) => text,
                None => return withheld(Withheld::Secret, count + 1),
            };
        } else if self.scanner.body(media, text.as_bytes(), None).is_some() {
            text = self
                .value_text(&text, &mut count)
                .unwrap_or_else(|| self.lines(&text, &mut count));
        }
        if self.scanner.body(media, text.as_bytes(), None).is_some() {
            return withheld(Withheld::Secret, count + 1);
        }
        Redacted {
            content: Content::Body(text),
            replaced: count,
        }
    }

    /// A line of text, such as a path or a header's value.
    pub fn line(&self, text: &str) -> String {
        let mut count = 0;
        let text = self.without_own(text, &mut count);
        if self.scanner.url(&text, None).is_none() {
            return text;
        }
        let (path, query) = text
            .split_once('?')
            .map_or((text.as_str(), None), |(p, q)| (p, Some(q)));
        let mut line = self.lines(path, &mut count);
        if let Some(query) = query {
            let parts = query.split('&').map(|part| self.text(part, &mut count));
            let parts: Vec<_> = parts.collect();
            line = format!("{line}?{}", parts.join("&"));
        }
        if self.scanner.url(&line, None).is_some() {
            return note("secret");
        }
        line
    }

    fn without_own(&self, text: &str, count: &mut usize) -> String {
        let Some(own) = &self.own else {
            return text.to_owned();
        };
        *count += own.find_iter(text).count();
        own.replace_all(text, &self.instead)
    }

    /// JSON with its texts, keys and numbers redacted; `None`: it is none.
    fn value_text(&self, text: &str, count: &mut usize) -> Option<String> {
        let bare = text.trim_start();
        if !bare.starts_with(['{', '[']) {
            return None;
        }
        let mut value: Value = serde_json::from_str(text).ok()?;
        self.value(&mut value, count);
        Some(value.to_string())
    }

    fn value(&self, value: &mut Value, count: &mut usize) {
        match value {
            Value::String(text) => {
                if self.scanner.text(text, None).is_some() {
                    *text = self.text(text, count);
                }
            }
            Value::Number(number) => {
                if self.scanner.text(&number.to_string(), None).is_some() {
                    *count += 1;
                    *value = note("number").into();
                }
            }
            Value::Array(elements) => elements
                .iter_mut()
                .for_each(|element| self.value(element, count)),
            Value::Object(members) => {
                let mut kept = Map::new();
                for (key, mut member) in std::mem::take(members) {
                    self.value(&mut member, count);
                    let key = if self.scanner.text(&key, None).is_some() {
                        self.text(&key, count)
                    } else {
                        key
                    };
                    kept.insert(key, member);
                }
                *members = kept;
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// A text that holds a secret, without: as little of it as will do.
    fn text(&self, text: &str, count: &mut usize) -> String {
        self.value_text(text, count)
            .filter(|text| self.scanner.text(text, None).is_none())
            .unwrap_or_else(|| self.lines(text, count))
    }

    /// Piece by piece, the smallest first, and at last the whole: until no secret is left.
    fn lines(&self, text: &str, count: &mut usize) -> String {
        let from = usize::from(!text.contains("://"));
        for separators in SEPARATORS.iter().skip(from) {
            let separators = *separators;
            let mut replaced = 0;
            let pieces = text.split_inclusive(separators).map(|piece| {
                let bare = piece.trim_end_matches(separators);
                let Some(kind) = self.scanner.text(bare, None) else {
                    return piece.to_owned();
                };
                replaced += 1;
                format!(
                    "{}{}",
                    note(kind.as_str()),
                    piece.strip_prefix(bare).unwrap_or_default()
                )
            });
            let without: String = pieces.collect();
            if replaced > 0 && self.scanner.text(&without, None).is_none() {
                *count += replaced;
                return without;
            }
        }
        if self.scanner.text(text, None).is_none() {
            return text.to_owned();
        }
        *count += 1;
        note("secret")
    }

    /// A stream of events. A text that comes in pieces is read whole, and where it holds a secret its first piece takes what is
    /// left of it. `None`: it is no stream that can be read.
    fn events(&self, text: &str, count: &mut usize) -> Option<String> {
        let bytes = bytes::Bytes::copy_from_slice(text.as_bytes());
        let mut decoder = sse::Decoder::new(usize::MAX);
        let mut events = decoder.push(bytes).ok()?;
        decoder.finish().ok()?;
        let mut values: Vec<Option<Value>> = events
            .iter()
            .map(|event| serde_json::from_str(event.data.as_deref()?).ok())
            .collect();
        let mut whole: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        for (index, value) in values.iter().enumerate() {
            if let Some(value) = value {
                let mut at = Vec::new();
                pieces(value, &channel(value), &mut at, &mut |channel, pointer| {
                    whole.entry(channel).or_default().push((index, pointer));
                });
            }
        }
        let before = *count;
        for places in whole.into_values() {
            let piece = |(index, pointer): &(usize, String)| {
                let value = values.get(*index)?.as_ref()?;
                value.pointer(pointer)?.as_str().map(str::to_owned)
            };
            let joined: String = places.iter().filter_map(piece).collect();
            if places.len() < 2 || self.scanner.text(&joined, None).is_none() {
                continue;
            }
            let mut left = Some(self.text(&joined, count));
            for (index, pointer) in places {
                let place = values.get_mut(index).and_then(Option::as_mut);
                if let Some(place) = place.and_then(|value| value.pointer_mut(&pointer)) {
                    *place = left.take().unwrap_or_default().into();
                }
            }
        }
        for value in values.iter_mut().flatten() {
            self.value(value, count);
        }
        for (event, value) in events.iter_mut().zip(&values) {
            match value {
                Some(value) => event.data = Some(value.to_string()),
                None => {
                    if let Some(data) = &mut event.data
                        && self.scanner.text(data, None).is_some()
                    {
                        *data = self.lines(data, count);
                    }
                }
            }
        }
        if *count == before {
            // As it came, byte for byte.
            return Some(text.to_owned());
        }
        let encoded = events
            .into_iter()
            .map(encoded)
            .collect::<Option<Vec<_>>>()?;
        Some(encoded.concat())
    }
}

fn encoded(event: Event) -> Option<String> {
    let bytes = sse::encode(event).ok()?;
    String::from_utf8(bytes.to_vec()).ok()
}

/// What tells one text that comes in pieces from another: the numbers and ids beside it.
fn channel(value: &Value) -> String {
    let Some(members) = value.as_object() else {
        return String::new();
    };
    let named = ["type", "index", "output_index", "content_index", "item_id"].iter();
    let named = named.filter_map(|key| Some(format!("{key}={};", members.get(*key)?)));
    named.collect()
}

/// Every text at or below a member whose name says that it is a piece, with the text that it is a piece of.
fn pieces(
    value: &Value,
    channel_of: &str,
    at: &mut Vec<String>,
    tell: &mut dyn FnMut(String, String),
) {
    match value {
        Value::String(_) if at.iter().any(|step| step == "delta") => {
            let mut pointer = String::new();
            for step in at.iter() {
                pointer.push('/');
                pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
            }
            tell(format!("{channel_of}{pointer}"), pointer);
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                at.push(index.to_string());
                pieces(
                    element,
                    &format!("{channel_of}{}", channel(element)),
                    at,
                    tell,
                );
                at.pop();
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                at.push(key.clone());
                pieces(member, channel_of, at, tell);
                at.pop();
            }
        }
        _ => {}
    }
}

const fn withheld(why: Withheld, replaced: usize) -> Redacted {
    Redacted {
        content: Content::Withheld(why),
        replaced,
    }
}

/// What stands in place of a secret: also in a URL it breaks nothing.
fn note(kind: &str) -> String {
    format!("holdpoint-withheld-{kind}")
}
