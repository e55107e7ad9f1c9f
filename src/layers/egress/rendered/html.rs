//! Attributes of HTML that lead somewhere.

use std::ops::Range;

use html5gum::emitters::default::{DefaultEmitter, StartTag, Token};
use html5gum::{HtmlString, Tokenizer};

use super::css;
use super::{Place, Use, Value};

/// Attributes of links and forms: a person follows them.
const FOLLOWED: [&str; 4] = ["action", "formaction", "ping", "cite"];

/// Attributes that are fetched as soon as the element is shown, whatever the element.
const FETCHED: [&str; 20] = [
    "src",
    "href",
    "xlink:href",
    "poster",
    "background",
    "data",
    "codebase",
    "classid",
    "archive",
    "code",
    "manifest",
    "lowsrc",
    "dynsrc",
    "icon",
    "longdesc",
    "profile",
    "usemap",
    "attributionsrc",
    "data-src",
    "from",
];

/// Attributes with several candidates.
const SETS: [&str; 3] = ["srcset", "imagesrcset", "data-srcset"];

/// Elements whose content browsers read in a way of its own, so that a tag in it may be words, and its end a tag's.
const OTHERWISE: [&str; 8] = [
    "script",
    "title",
    "textarea",
    "xmp",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
];

/// Levels of documents in attributes.
const NESTED: usize = 3;

/// Finds what the tags of `text` lead to. Spans are of the whole text that `text` begins in at `base`. Gives the spans of all
/// tags.
pub(super) fn scan(text: &str, base: usize, places: &mut Vec<Place>) -> Vec<Range<usize>> {
    let place = |span: Range<usize>| base + span.start..base + span.end;
    let mut tags = scan_nested(text, &place, (NESTED, false), places);
    // A browser reads what stands in these as words, up to their end.
    let lower = text.to_ascii_lowercase();
    if ["<style", "<iframe"]
        .iter()
        .any(|name| lower.contains(name))
    {
        tags.extend(scan_nested(text, &place, (NESTED, true), places));
    }
    tags
}

fn scan_nested(
    text: &str,
    place: &dyn Fn(Range<usize>) -> Range<usize>,
    (left, switches): (usize, bool),
    places: &mut Vec<Place>,
) -> Vec<Range<usize>> {
    let mut tags = Vec::new();
    let mut style = false;
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(switches);
    for token in Tokenizer::new_with_emitter(text, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                let span = place(tag.span.start..tag.span.end);
                style = is(&tag.name, "style");
                tags.push(span.clone());
                let mut found = Tag { span, left, places };
                found.read(&tag);
            }
            Token::EndTag(tag) => {
                style = false;
                tags.push(place(tag.span.start..tag.span.end));
            }
            Token::String(words) if style => {
                let span = place(words.span.start..words.span.end);
                for url in css::urls(&text_of(&words)) {
                    places.push(fetched(span.clone(), url));
                }
                tags.push(span);
            }
            Token::String(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    tags
}

/// A tag that the text does not close takes what follows it on the page into its attributes.
pub(super) fn unclosed(text: &str, places: &mut Vec<Place>) {
    let Some(start) = text.rfind('<') else {
        return;
    };
    let tail = text.get(start..).unwrap_or_default();
    if tail.contains('>') {
        return;
    }
    for end in [">", "\">", "'>"] {
        let closed = format!("{tail}{end}");
        scan_nested(&closed, &|_| start..text.len(), (NESTED, false), places);
    }
}

fn is(name: &HtmlString, word: &str) -> bool {
    name.eq_ignore_ascii_case(word.as_bytes())
}

fn text_of(value: &HtmlString) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn fetched(span: Range<usize>, value: String) -> Place {
    Place {
        span,
        how: Some(Use::Fetched),
        value: Value::Reference(value),
        label: String::new(),
    }
}

struct Tag<'p> {
    span: Range<usize>,
    left: usize,
    places: &'p mut Vec<Place>,
}

impl Tag<'_> {
    fn read(&mut self, tag: &StartTag<usize>) {
        let link = is(&tag.name, "a") || is(&tag.name, "area");
        if OTHERWISE.iter().any(|name| is(&tag.name, name)) {
            self.active();
        }
        for (name, value) in &tag.attributes {
            let name = text_of(name).to_ascii_lowercase();
            let value = text_of(value);
            self.attribute(&name, value, link, is(&tag.name, "meta"));
        }
    }

    fn attribute(&mut self, name: &str, value: String, link: bool, meta: bool) {
        if link && matches!(name, "href" | "xlink:href") || FOLLOWED.contains(&name) {
            self.push(Use::Followed, value);
        } else if FETCHED.contains(&name) {
            self.push(Use::Fetched, value);
        } else if SETS.contains(&name) {
            for candidate in candidates(&value) {
                self.push(Use::Fetched, candidate);
            }
        } else if name == "style" {
            for url in css::urls(&value) {
                self.push(Use::Fetched, url);
            }
        } else if name == "srcdoc" && self.left > 0 {
            let span = self.span.clone();
            let left = (self.left - 1, false);
            scan_nested(&value, &|_| span.clone(), left, self.places);
        } else if name.starts_with("on") && name.len() > 2 || name == "srcdoc" {
            self.active();
        } else if meta && name == "content" {
            self.refresh(&value);
        } else if css::urls(&value).iter().any(|url| url.contains(':')) {
            // Of SVG: `fill="url(https://..)"`, `values`, `mask`.
            for url in css::urls(&value) {
                self.push(Use::Fetched, url);
            }
        }
    }

    fn push(&mut self, how: Use, value: String) {
        self.places.push(Place {
            span: self.span.clone(),
            how: Some(how),
            value: Value::Reference(value),
            label: String::new(),
        });
    }

    fn active(&mut self) {
        self.places.push(Place {
            span: self.span.clone(),
            how: Some(Use::Fetched),
            value: Value::Active,
            label: String::new(),
        });
    }

    /// `5; url=https://..`: the page goes there by itself.
    fn refresh(&mut self, content: &str) {
        let rest = content
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let rest = rest.trim_start();
        let Some(rest) = rest.strip_prefix([';', ',']) else {
            return;
        };
        let rest = rest.trim_start();
        let after = rest
            .get(..3)
            .filter(|word| word.eq_ignore_ascii_case("url"))
            .and_then(|_| rest.get(3..))
            .and_then(|rest| rest.trim_start().strip_prefix('='));
        let url = after.unwrap_or(rest).trim().trim_matches(['"', '\'']);
        if url.contains([':', '/', '\\']) {
            self.push(Use::Fetched, url.to_owned());
        }
    }
}

/// URLs of a `srcset`. A comma may end a candidate or stand in it: both readings count.
fn candidates(set: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in set.split_ascii_whitespace() {
        let word = word.trim_matches(',');
        let numbers = word.trim_end_matches(['w', 'x', 'h']);
        if word.is_empty() || numbers.len() < word.len() && numbers.parse::<f64>().is_ok() {
            continue;
        }
        found.push(word.to_owned());
        if word.contains(',') {
            let pieces = word.split(',').filter(|piece| piece.contains("//"));
            found.extend(pieces.map(str::to_owned));
        }
    }
    found
}
