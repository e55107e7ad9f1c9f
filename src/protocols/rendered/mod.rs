//! Text of a model's answer that a client may render: which pieces of it could make a client fetch or follow something.
//!
//! A piece is an image, a link, a definition, a tag or a URL. It waits until it is whole, at most [`HOLD`] bytes and never past
//! its line but for a destination that stands on the next; all other text leaves at once. How a text is cut into pieces depends
//! on the text alone, so it is the same whole and streamed. What a piece may lead to is the guard's to say.

mod lines;
mod parts;
mod scan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use lines::Lines;
pub use parts::{Part, check_pieces, located, pieces, written};
use scan::{End, Form, Reach};

use crate::item::{Around, ModelText};
use crate::layers::egress::SCHEMES;

/// Most bytes that wait.
pub const HOLD: usize = 2048;

/// Most bytes of definitions that are kept for the images behind them.
const DEFINITIONS: usize = 4096;

/// Elements in which nothing is Markdown, also behind blank lines.
const RAW: [&str; 4] = ["pre", "script", "style", "textarea"];

/// Pieces of a text, as they come.
#[derive(Debug)]
pub struct Text {
    lines: Lines,
    /// What waits.
    rest: String,
    previous: char,
    /// A bracket of this line does not close on it.
    is_unclosed: bool,
    around: Around,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            lines: Lines::default(),
            rest: String::new(),
            previous: '\n',
            is_unclosed: false,
            around: Around {
                definitions: Some(Arc::from("")),
                ..Around::default()
            },
        }
    }
}

enum Found {
    /// Nothing to judge in so many bytes.
    Plain(usize),
    Piece(Piece),
    More,
}

#[derive(Clone, Copy)]
struct Piece {
    length: usize,
    kind: Kind,
    /// An image in it may have the destination of a definition.
    is_named: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A destination whose bracket is not there.
    Partial,
    Definition,
    /// A tag with no end.
    Unclosed,
    Other,
}

impl Text {
    /// Takes more of the text; gives what waits no longer.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.rest.push_str(text);
        self.parts(End::Open)
    }

    /// The text has ended: nothing waits any more.
    pub fn end(&mut self) -> Vec<Part> {
        self.parts(End::Text)
    }

    /// Another text of the same answer begins. Clients show it behind this one or apart from it; nothing waits any more.
    pub fn another(&mut self) {
        self.lines = self.lines.another();
        self.rest.clear();
        self.previous = '\n';
        self.is_unclosed = false;
    }

    /// Bytes that wait.
    pub fn held(&self) -> usize {
        self.rest.len()
    }

    fn parts(&mut self, end: End) -> Vec<Part> {
        let text = std::mem::take(&mut self.rest);
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let near = rest.get(..rest.floor_char_boundary(HOLD)).unwrap_or(rest);
            let end = if near.len() < rest.len() {
                End::Cut
            } else {
                end
            };
            let (length, piece) = match self.next(near, end) {
                Found::More if end == End::Open => break,
                Found::More => (first(near), None),
                Found::Plain(length) => (length, None),
                Found::Piece(piece) => (piece.length, Some(piece)),
            };
            let Some((own, behind)) = near.split_at_checked(length.max(1)) else {
                break;
            };
            match piece {
                Some(piece) => {
                    let is_cut = end == End::Cut && behind.is_empty();
                    let is_open = is_cut || piece.is_open(behind);
                    parts.push(Part::Piece(self.piece(own, piece, is_open)));
                }
                None => parts::push_plain(&mut parts, own),
            }
            self.feed(own);
            at += own.len();
        }
        text.get(at..)
            .unwrap_or_default()
            .clone_into(&mut self.rest);
        parts
    }

    fn feed(&mut self, text: &str) {
        for c in text.chars() {
            self.lines.feed(c);
            self.is_unclosed &= !lines::is_line_end(c);
            self.previous = c;
        }
    }

    fn piece(&mut self, text: &str, piece: Piece, is_open: bool) -> ModelText {
        let judged = ModelText {
            text: text.into(),
            around: Some(Around {
                is_open,
                is_named: piece.is_named,
                in_image: self.lines.in_image(),
                ..self.around.clone()
            }),
        };
        self.around.has_named |= piece.is_named;
        if piece.kind == Kind::Definition {
            let known = self.around.definitions.take();
            let known = known.map(|known| format!("{known}{text}\n"));
            let known = known.filter(|known| known.len() <= DEFINITIONS);
            self.around.definitions = known.map(Arc::from);
        }
        judged
    }

    fn next(&mut self, near: &str, end: End) -> Found {
        let Some(c) = near.chars().next() else {
            return Found::More;
        };
        if self.lines.leaves_code(c) {
            self.lines.lose_blocks();
        }
        if self.lines.in_code() {
            return Found::Plain(c.len_utf8());
        }
        match c {
            '\\' => match near.chars().nth(1) {
                None => Found::or(end, 1),
                Some('\\' | '`' | '[') => Found::Plain(2),
                Some(_) => Found::Plain(1),
            },
            '`' | '~' => self.marks(near, c, end),
            '<' => self.angle(near, end),
            '!' => match near.chars().nth(1) {
                None => Found::or(end, 1),
                Some('[') => self.brackets(near, true, end),
                Some(_) => Found::Plain(1),
            },
            '[' => self.brackets(near, false, end),
            ']' => self.closing(near, end),
            '&' => match scan::entity(near, end) {
                Reach::To(_) => self.word(near, end),
                Reach::Never => Found::Plain(1),
                Reach::More => Found::More,
            },
            c if c.is_ascii_alphabetic() && !self.previous.is_ascii_alphabetic() => {
                self.letters(near, end)
            }
            c => Found::Plain(c.len_utf8()),
        }
    }

    /// A fence, a code span, or marks without meaning.
    fn marks(&mut self, near: &str, mark: char, end: End) -> Found {
        let length = scan::run(near, 0, mark);
        if length == near.len() && end == End::Open {
            return Found::More;
        }
        if length >= 3 && self.lines.is_outer() {
            let rest = near.get(length..).unwrap_or_default();
            match rest.find(lines::is_line_end) {
                Some(at) => {
                    let info = rest.get(..at).unwrap_or_default();
                    let is_span = mark == '`' && info.contains('`');
                    if !is_span && self.lines.opens(mark, length, info) {
                        return Found::Plain(length + at);
                    }
                }
                None if end == End::Open => return Found::More,
                None if end == End::Cut => self.lines.lose_blocks(),
                None => {}
            }
        }
        if mark == '~' || !self.lines.has_spans() {
            return Found::Plain(length);
        }
        let span = match scan::code_span(near, end) {
            Reach::More => return Found::More,
            Reach::To(span) => near.get(..span),
            Reach::Never => None,
        };
        // Cells of a table end what stands in them.
        if let Some(span) = span.filter(|span| !span.contains('|')) {
            return Found::Plain(span.len());
        }
        self.lines.lose_spans();
        Found::Plain(length)
    }

    fn angle(&mut self, near: &str, end: End) -> Found {
        let is_outer = self.lines.is_outer();
        let reach = match (near.chars().nth(1), near.chars().nth(2)) {
            (None, _) | (Some('/'), None) => return Found::or(end, 1),
            (Some('!'), _) => scan::comment(near, end),
            (Some('/' | '?' | 'a'..='z' | 'A'..='Z'), _) if scan::starts_with_tag(near) => {
                scan::tag(near, end)
            }
            // A bracket may become its words.
            (Some('/' | '?' | '['), _) => Reach::Never,
            _ => return Found::Plain(1),
        };
        match reach {
            Reach::More => Found::More,
            Reach::Never => Self::unended(),
            Reach::To(length) => {
                let tag = near.get(1..length).unwrap_or_default();
                // Words to some, whose URLs are links, and a tag to others.
                if self.previous == '\\' && tag.contains([':', '=']) {
                    return Self::unended();
                }
                let end = tag.find(|c: char| !c.is_ascii_alphanumeric());
                let name = end.and_then(|end| tag.get(..end)).unwrap_or_default();
                if is_outer && RAW.iter().any(|raw| raw.eq_ignore_ascii_case(name)) {
                    self.lines.begin_raw();
                }
                if tag.contains('`') {
                    self.lines.lose_spans();
                }
                self.found(near, length, Kind::Other)
            }
        }
    }

    /// A tag with no end: all of it but this is words.
    const fn unended() -> Found {
        Found::Piece(Piece {
            length: 1,
            kind: Kind::Unclosed,
            is_named: false,
        })
    }

    fn brackets(&mut self, near: &str, is_image: bool, end: End) -> Found {
        let from = if is_image { 2 } else { 1 };
        let found = if self.is_unclosed {
            Err(Reach::Never)
        } else {
            scan::brackets(near, from, self.lines.has_spans(), end)
        };
        match found {
            Err(Reach::More) => Found::More,
            Err(_) => {
                self.is_unclosed = true;
                self.unclosed(from, is_image)
            }
            // Only its definition leads anywhere.
            Ok(found) if found.form == Form::Name && !is_image => Found::Plain(1),
            Ok(found) => {
                if found.is_odd {
                    self.lines.lose_spans();
                }
                let kind = match found.form {
                    Form::Inline if !found.is_closed => Kind::Partial,
                    Form::Definition => Kind::Definition,
                    Form::Inline | Form::Name => Kind::Other,
                };
                Found::Piece(Piece {
                    length: found.length,
                    kind,
                    is_named: found.has_named,
                })
            }
        }
    }

    /// An opening bracket that does not close on its line: its destination is judged where that stands.
    fn unclosed(&mut self, length: usize, is_image: bool) -> Found {
        if !is_image {
            return Found::Plain(length);
        }
        self.lines.open_image();
        Found::Piece(Piece {
            length,
            kind: Kind::Other,
            is_named: true,
        })
    }

    /// A closing bracket whose opening one has left: what it leads to stands behind it.
    fn closing(&mut self, near: &str, end: End) -> Found {
        let rest = near.get(2..).unwrap_or_default();
        let is_inline = match near.chars().nth(1) {
            None => return Found::or(end, 1),
            Some('(') => true,
            Some(':') => false,
            Some(_) => return Found::Plain(1),
        };
        match scan::target(rest, is_inline, end) {
            Ok(target) => {
                let length = 2 + target.length;
                if near.get(..length).is_some_and(|text| text.contains('`')) {
                    self.lines.lose_spans();
                }
                let kind = match (is_inline, target.is_closed) {
                    (false, _) => Kind::Definition,
                    (true, false) => Kind::Partial,
                    (true, true) => Kind::Other,
                };
                self.found(near, length, kind)
            }
            Err(Reach::More) => Found::More,
            Err(_) => Found::Plain(1),
        }
    }

    /// A piece in which an image may begin that goes on behind it.
    fn found(&mut self, near: &str, length: usize, kind: Kind) -> Found {
        let is_named = near.get(..length).is_some_and(|text| text.contains("!["));
        if is_named {
            self.lines.open_image();
        }
        Found::Piece(Piece {
            length,
            kind,
            is_named,
        })
    }

    /// Letters that may begin a URL.
    fn letters(&mut self, near: &str, end: End) -> Found {
        let letters = near.len()
            - near
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let name = near.get(..letters).unwrap_or_default().to_ascii_lowercase();
        let begins = |scheme: &&str| scheme.starts_with(&name);
        if !SCHEMES.iter().chain(&["www"]).any(begins) {
            return Found::Plain(letters);
        }
        let rest = near.get(letters..).unwrap_or_default();
        match rest.chars().next() {
            None => Found::or(end, letters),
            Some('&') => match scan::entity(rest, end) {
                Reach::To(_) => self.word(near, end),
                Reach::Never => Found::Plain(letters),
                Reach::More => Found::More,
            },
            Some(c @ (':' | '.')) if SCHEMES.contains(&&*name) == (c == ':') => {
                self.word(near, end)
            }
            Some(_) => Found::Plain(letters),
        }
    }

    fn word(&mut self, near: &str, end: End) -> Found {
        match scan::word(near, end) {
            Reach::To(length) => self.found(near, length, Kind::Other),
            Reach::More => Found::More,
            Reach::Never => Found::Plain(1),
        }
    }
}

impl Piece {
    /// Whether what begins in it does not end there, as far as what is behind it tells.
    fn is_open(self, behind: &str) -> bool {
        match self.kind {
            Kind::Unclosed => true,
            Kind::Partial | Kind::Definition => behind.starts_with('<'),
            Kind::Other => false,
        }
    }
}

impl Found {
    /// Plain, unless what follows may change that.
    fn or(end: End, length: usize) -> Self {
        if end == End::Open {
            Self::More
        } else {
            Self::Plain(length)
        }
    }
}

fn first(text: &str) -> usize {
    text.chars().next().map_or(1, char::len_utf8)
}
