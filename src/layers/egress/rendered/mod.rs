//! Text that a client renders: images are fetched at once, links are followed by a person.
//!
//! Read are Markdown (inline, by reference, autolinks), the HTML that may stand in it, and bare URLs, which many clients turn
//! into links. What stands in code spans and code blocks is not rendered. Clients differ in whether they take HTML and tables:
//! the text is read in each of these ways, and what one of them would show counts.

mod css;
mod html;
mod markdown;
mod piece;

use std::ops::Range;

use super::code::{Code, Denied};
use super::find::is_invisible;
use super::rules::Rule;
use super::target::{BACKSLASH, CONTROL, SCHEME, Url};

/// Schemes that lead to no host and that a rule may list all the same: the first three in links, the others in images.
pub const HOSTLESS: [&str; 5] = ["mailto", "tel", "sms", "data", "cid"];

/// What a client does with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// Fetched as soon as the text is shown: images, frames, styles, scripts.
    Fetched,
    /// Followed by a person: links, forms.
    Followed,
}

/// A place in a text that must not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Bytes of the whole construct.
    pub span: Range<usize>,
    /// What a client would do with it.
    pub how: Use,
    /// Why not.
    pub denied: Denied,
    label: String,
}

/// A place that was found.
#[derive(Clone, Debug)]
struct Place {
    span: Range<usize>,
    how: Option<Use>,
    value: Value,
    label: String,
}

#[derive(Clone, Debug)]
enum Value {
    /// An attribute's value or a link's destination, entities decoded.
    Reference(String),
    /// A URL in running text.
    Bare(Box<super::run::Found>),
    /// Code that the client would run.
    Active,
}

/// Where images and links may lead.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// For what is fetched.
    pub images: Rule,
    /// For what is followed.
    pub links: Rule,
}

const SCRIPT: Denied = Denied::new(Code::SchemeNotAllowed, "code that the client would run");
const SPACE: Denied = Denied::new(Code::MalformedUrl, "white space in a URL");

impl Rendered {
    /// Every place that must not be rendered, in the order of the text.
    pub fn refused(&self, text: &str) -> Vec<Shown> {
        let mut refused: Vec<_> = markdown::places(text)
            .into_iter()
            .filter_map(|place| {
                let (how, denied) = self.judge(&place)?;
                Some(Shown {
                    span: place.span,
                    how,
                    denied,
                    label: place.label,
                })
            })
            .collect();
        refused.sort_by_key(|shown| (shown.span.start, shown.span.end, shown.how));
        refused.dedup_by(|a, b| a.span == b.span && a.how == b.how);
        refused
    }

    /// Whether a text may be rendered as it is.
    ///
    /// # Errors
    /// Why the first place that must not be rendered must not.
    pub fn judge_text(&self, text: &str) -> Result<(), Denied> {
        self.refused(text)
            .first()
            .map_or(Ok(()), |shown| Err(shown.denied))
    }

    /// Edits that neutralise what was refused: each place becomes a notice, which keeps the words of a link. The edited text
    /// has no refused place.
    pub fn edits(&self, text: &str, refused: &[Shown]) -> Vec<(Range<usize>, String)> {
        let mut edits: Vec<(Range<usize>, Use, String)> = Vec::new();
        for shown in refused {
            match edits.last_mut() {
                Some((span, how, label)) if shown.span.start < span.end => {
                    if shown.span.end > span.end || shown.span.start != span.start {
                        label.clear();
                    }
                    span.end = span.end.max(shown.span.end);
                    *how = (*how).min(shown.how);
                }
                _ => edits.push((shown.span.clone(), shown.how, shown.label.clone())),
            }
        }
        let edits: Vec<_> = edits
            .into_iter()
            .map(|(span, how, label)| (span, notice(how, &label)))
            .collect();
        let clean = applied(text, &edits).is_some_and(|edited| self.refused(&edited).is_empty());
        if clean {
            edits
        } else {
            vec![(0..text.len(), "(text withheld)".to_owned())]
        }
    }

    fn judge(&self, place: &Place) -> Option<(Use, Denied)> {
        let Some(how) = place.how else {
            // A definition that nothing uses may be for either.
            let fetched = self.value(Use::Fetched, &place.value);
            let followed = self.value(Use::Followed, &place.value);
            return fetched.and(followed).map(|denied| (Use::Followed, denied));
        };
        self.value(how, &place.value).map(|denied| (how, denied))
    }

    fn value(&self, how: Use, value: &Value) -> Option<Denied> {
        let rule = match how {
            Use::Fetched => &self.images,
            Use::Followed => &self.links,
        };
        match value {
            Value::Active => Some(SCRIPT),
            Value::Bare(found) => super::args::judged(rule, found).err(),
            Value::Reference(text) => reference(rule, how, text).err(),
        }
    }
}

fn notice(how: Use, label: &str) -> String {
    match how {
        Use::Fetched => "(image withheld)".to_owned(),
        Use::Followed if label.is_empty() => "(link withheld)".to_owned(),
        Use::Followed => format!("{label} (link withheld)"),
    }
}

fn applied(text: &str, edits: &[(Range<usize>, String)]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (span, with) in edits {
        out.push_str(text.get(done..span.start)?);
        out.push_str(with);
        done = span.end;
    }
    out.push_str(text.get(done..)?);
    Some(out)
}

/// Judges a reference as a client resolves it. What names no host leads to the client's own page.
fn reference(rule: &Rule, how: Use, text: &str) -> Result<(), Denied> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if text.is_empty() || text.starts_with('#') {
        return Ok(());
    }
    if text.chars().any(char::is_control) {
        return Err(CONTROL);
    }
    // Some clients drop or trim these, and then read a URL of its own.
    let first = text.find(['/', '?', '#']).unwrap_or(text.len());
    let odd = |c: char| is_invisible(c) || (!c.is_ascii() && c.is_whitespace());
    if text.get(..first).unwrap_or_default().contains(odd) {
        return Err(CONTROL);
    }
    let end = text.find(['?', '#']).unwrap_or(text.len());
    if text.get(..end).unwrap_or_default().contains('\\') {
        return Err(BACKSLASH);
    }
    if text.starts_with("//") {
        return rule.judge_bare(&Url::read(&format!("https:{text}"))?);
    }
    let Some(scheme) = scheme(text) else {
        let www = text
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("www."));
        return if www {
            rule.judge_bare(&Url::read_bare(text)?)
        } else {
            Ok(())
        };
    };
    // Nothing behind it: it leads nowhere.
    if scheme.len() + 1 == text.len() {
        return Ok(());
    }
    let scheme = scheme.to_ascii_lowercase();
    let hostless = match how {
        Use::Followed => matches!(scheme.as_str(), "mailto" | "tel" | "sms"),
        Use::Fetched => matches!(scheme.as_str(), "data" | "cid"),
    };
    if hostless {
        return if rule.has_scheme(&scheme) {
            Ok(())
        } else {
            Err(SCHEME)
        };
    }
    if text.contains(char::is_whitespace) {
        return Err(SPACE);
    }
    rule.judge(&Url::read(text)?)
}

/// What stands before the colon, if it makes a scheme (RFC 3986 section 3.1).
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let plain = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    plain.then_some(scheme)
}

#[cfg(test)]
mod tests;
