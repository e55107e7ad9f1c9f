//! Calls that the backend takes and that are no tools. A wider template must not take them for its own: `/orders/export` is
//! not the order `export`.

use std::collections::HashMap;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::settings::Closed;

/// Paths that are no tools, by method.
#[derive(Clone, Debug, Default)]
pub(super) struct ClosedPaths(HashMap<Method, Vec<Vec<Segment>>>);

/// A segment of a path template: its fixed texts in lower case, with anything between two of them.
#[derive(Clone, Debug)]
struct Segment(Vec<String>);

/// How much a segment takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    /// One text.
    Fixed,
    /// Texts that begin, end or go on in some way, such as `{id}.json`.
    Partly,
    /// Any text.
    Any,
}

impl ClosedPaths {
    pub(super) fn new(closed: &[Closed]) -> Self {
        let mut paths = Self::default();
        for Closed { method, path } in closed {
            let mut close = |method: Method| {
                paths.0.entry(method).or_default().push(template(path));
            };
            // Most backends answer HEAD by what answers GET.
            if method == Method::GET {
                close(Method::HEAD);
            }
            close(method.clone());
        }
        paths
    }

    /// Whether a call, to which the template `tool` fits, may be one of these to the backend: one fits as well, and the tool's
    /// is not as narrow in every segment.
    pub(super) fn take(&self, method: &Method, path: &str, tool: &str) -> bool {
        let Some(closed) = self.0.get(method) else {
            return false;
        };
        let path: Vec<_> = segments(path).map(plain).collect();
        let tool = template(tool);
        closed.iter().any(|closed| {
            let fits = closed.len() == path.len()
                && closed
                    .iter()
                    .zip(&path)
                    .all(|(segment, text)| segment.fits(text));
            fits && !tool
                .iter()
                .zip(closed)
                .all(|(tool, closed)| tool.width() <= closed.width())
        })
    }
}

/// The segments of a template. What follows `?` or `#` is no part of its path.
fn template(path: &str) -> Vec<Segment> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    segments(path).map(Segment::new).collect()
}

/// The segments of a path: to many backends a slash at the end is none.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.trim_end_matches('/').split('/')
}

/// A segment as backends compare it that decode escapes and ignore case.
fn plain(segment: &str) -> String {
    let decoded = percent_decode_str(segment).decode_utf8_lossy();
    decoded.to_lowercase()
}

impl Segment {
    fn new(segment: &str) -> Self {
        let mut texts = Vec::new();
        let mut rest = segment;
        while let Some((before, (_, after))) = rest
            .split_once('{')
            .and_then(|(before, name)| Some((before, name.split_once('}')?)))
        {
            texts.push(plain(before));
            rest = after;
        }
        texts.push(plain(rest));
        Self(texts)
    }

    fn width(&self) -> Width {
        match self.0.as_slice() {
            [_] => Width::Fixed,
            texts if texts.iter().all(String::is_empty) => Width::Any,
            _ => Width::Partly,
        }
    }

    fn fits(&self, text: &str) -> bool {
        let (Some((first, rest)), [.., last]) = (self.0.split_first(), self.0.as_slice()) else {
            return false;
        };
        let Some((_, between)) = rest.split_last() else {
            return text == first;
        };
        let middle = text.strip_prefix(first.as_str());
        let Some(mut middle) = middle.and_then(|rest| rest.strip_suffix(last.as_str())) else {
            return false;
        };
        between.iter().all(|part| {
            let found = middle.split_once(part.as_str());
            found.is_some_and(|(_, after)| {
                middle = after;
                true
            })
        })
    }
}
