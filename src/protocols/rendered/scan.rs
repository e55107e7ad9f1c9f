//! What stands at the start of a text, as far as it is there.
//!
//! Each function gives the same for a text and for every longer one, unless it asks for more: so nothing hangs on how a stream
//! is cut.

use super::lines::is_line_end;

/// What follows the text that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// More of it may come.
    Open,
    /// More has come than is looked at.
    Cut,
    /// Nothing.
    Text,
}

/// How far a construct goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// So many bytes.
    To(usize),
    /// It is none.
    Never,
    /// That cannot be told yet.
    More,
}

use Reach::{More, Never, To};

/// What the brackets at the start of a text make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `[..](..)`.
    Inline,
    /// `[..]: ..`.
    Definition,
    /// `[..]`.
    Name,
}

/// Brackets that close on their line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brackets {
    pub length: usize,
    pub form: Form,
    /// The destination, if there is one, has its bracket.
    pub is_closed: bool,
    /// An image in it may have the destination of a definition.
    pub has_named: bool,
    /// Backticks in it may pair with others outside.
    pub is_odd: bool,
}

pub(super) fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

pub(super) fn starts_with_tag(text: &str) -> bool {
    text.strip_prefix('<')
        .map(|rest| rest.strip_prefix('/').unwrap_or(rest))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// What is to be said where the text ends within a construct that must end before.
fn ended(end: End) -> Reach {
    if end == End::Open { More } else { Never }
}

/// Length of the run of `mark` at `at`.
pub(super) fn run(text: &str, at: usize, mark: char) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.len() - rest.trim_start_matches(mark).len()
}

/// A code span on one line; the text begins with a backtick.
pub(super) fn code_span(text: &str, end: End) -> Reach {
    let length = run(text, 0, '`');
    let mut at = length;
    while let Some(c) = char_at(text, at) {
        if is_line_end(c) {
            return Never;
        }
        if c != '`' {
            at += c.len_utf8();
            continue;
        }
        let other = run(text, at, '`');
        at += other;
        if at == text.len() && end == End::Open {
            return More;
        }
        if other == length {
            return To(at);
        }
    }
    ended(end)
}

/// A tag or an autolink on one line, as browsers and CommonMark both end it; the text begins with `<` and a letter, or `</`.
pub(super) fn tag(text: &str, end: End) -> Reach {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum State {
        Name,
        Between,
        Attribute,
        Value,
        Unquoted,
        Quoted(char),
    }
    let mut state = State::Name;
    let mut is_link = false;
    for (at, c) in text.char_indices().skip(1) {
        if is_line_end(c) {
            return Never;
        }
        if let State::Quoted(quote) = state {
            // Of an autolink quotes are a part like any other.
            if c == '>' && is_link {
                return Never;
            }
            if c == quote {
                state = State::Between;
            }
            continue;
        }
        state = match (state, c) {
            (_, '>') => return To(at + 1),
            (_, '<') => return Never,
            (State::Value, c) if c.is_ascii_whitespace() => State::Value,
            (State::Value, '"' | '\'') => State::Quoted(c),
            (State::Value | State::Unquoted, c) if !c.is_ascii_whitespace() => State::Unquoted,
            (State::Name, c) if !c.is_ascii_whitespace() && c != '/' => {
                is_link |= c == ':';
                State::Name
            }
            (State::Attribute, '=') => State::Value,
            (State::Attribute, c) if c.is_ascii_whitespace() => State::Attribute,
            (_, c) if c.is_ascii_whitespace() || c == '/' => State::Between,
            _ => State::Attribute,
        };
    }
    ended(end)
}

/// A comment on one line in which nothing else is; the text begins with `<!` or a part of it.
pub(super) fn comment(text: &str, end: End) -> Reach {
    const OPEN: &str = "<!--";
    const CLOSE: &str = "-->";
    let Some(inside) = text.strip_prefix(OPEN) else {
        return if OPEN.starts_with(text) {
            ended(end)
        } else {
            Never
        };
    };
    let odd = |c: char| is_line_end(c) || "<>[]&`".contains(c);
    let Some(close) = inside.find("--") else {
        return if inside.contains(odd) {
            Never
        } else {
            ended(end)
        };
    };
    let rest = inside.get(close..).unwrap_or_default();
    if close == 0 || inside.get(..close).is_none_or(|words| words.contains(odd)) {
        Never
    } else if rest.starts_with(CLOSE) {
        To(OPEN.len() + close + CLOSE.len())
    } else if CLOSE.starts_with(rest) {
        ended(end)
    } else {
        Never
    }
}

/// An entity; the text begins with `&`.
pub(super) fn entity(text: &str, end: End) -> Reach {
    const LONGEST: usize = 40;
    let name = text.strip_prefix("&#").or_else(|| text.strip_prefix('&'));
    let name = name.unwrap_or_default();
    let letters = name.len()
        - name
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric())
            .len();
    if letters > LONGEST {
        return Never;
    }
    match name.get(letters..).and_then(|rest| rest.chars().next()) {
        Some(';') if letters > 0 => To(text.len() - name.len() + letters + 1),
        Some(_) => Never,
        None => ended(end),
    }
}

/// A run of characters that a client could take for one URL.
pub(super) fn word(text: &str, end: End) -> Reach {
    let mut at = 0;
    while let Some(c) = char_at(text, at) {
        if c.is_whitespace() || c.is_control() || "\"<>`".contains(c) {
            return To(at);
        }
        if c == ']' {
            match char_at(text, at + 1) {
                Some('(' | ':' | '[') => return To(at),
                None if end == End::Open => return More,
                _ => {}
            }
        }
        at += c.len_utf8();
    }
    if end == End::Open { More } else { To(at) }
}

fn blanks(text: &str, mut at: usize) -> usize {
    while let Some(' ' | '\t') = char_at(text, at) {
        at += 1;
    }
    at
}

/// Where a destination begins: on this line or the next, also within a quotation.
fn destination_start(text: &str, end: End) -> Reach {
    // Without an end it is one all the same: what is there does not tell where it leads.
    let ended = match end {
        End::Open => More,
        End::Cut => To(text.len()),
        End::Text => Never,
    };
    let mut at = blanks(text, 0);
    match char_at(text, at) {
        None => return ended,
        Some(c) if !is_line_end(c) => return To(at),
        Some('\r') => {
            at += 1;
            match char_at(text, at) {
                None if end == End::Open => return More,
                Some('\n') => at += 1,
                _ => {}
            }
        }
        Some(_) => at += 1,
    }
    while let Some(' ' | '\t' | '>') = char_at(text, at) {
        at += 1;
    }
    match char_at(text, at) {
        None => ended,
        // A blank line, or a code block.
        Some('\n' | '\r' | '`' | '~') => Never,
        Some(_) => To(at),
    }
}

/// A destination with what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub length: usize,
    /// The bracket behind it is there; of a definition there is none.
    pub is_closed: bool,
}

/// A destination behind `](` (`closes`) or `]:`, to its end: with a title and the closing bracket, where these stand on its line;
/// `Err`: there is none, or it cannot be told yet.
pub(super) fn target(text: &str, closes: bool, end: End) -> Result<Target, Reach> {
    let made = |length, is_closed| Ok(Target { length, is_closed });
    let start = match destination_start(text, end) {
        To(start) => start,
        other => return Err(other),
    };
    let stop = match destination(text, start, closes, end) {
        To(stop) => stop,
        other => return Err(other),
    };
    if !closes {
        // What is behind it decides whether its end can be told.
        if stop == text.len() && end == End::Open {
            return Err(More);
        }
        return if stop > start || end == End::Cut {
            made(stop, true)
        } else {
            Err(Never)
        };
    }
    let at = blanks(text, stop);
    match char_at(text, at) {
        Some(')') => made(at + 1, true),
        Some(quote @ ('"' | '\'' | '(')) if at > stop => match title(text, at, quote, end) {
            To(length) => made(length, true),
            Never => made(stop, false),
            More => Err(More),
        },
        None if end == End::Open => Err(More),
        _ => made(stop, false),
    }
}

fn destination(text: &str, start: usize, closes: bool, end: End) -> Reach {
    if char_at(text, start) == Some('<') {
        let inside = text.get(start + 1..).unwrap_or_default();
        match inside.find(|c: char| is_line_end(c) || c == '>' || c == '<') {
            Some(at) if inside.get(at..).is_some_and(|rest| rest.starts_with('>')) => {
                return To(start + 1 + at + 1);
            }
            None if end == End::Open => return More,
            _ => return Never,
        }
    }
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(c) = char_at(text, at) {
        // Readers differ on whether a tag begins within one: its end cannot be told.
        if c <= ' ' || c == '\u{7f}' || c == '<' {
            return To(at);
        }
        match c {
            '\\' => match char_at(text, at + 1) {
                Some(next) if next.is_ascii_punctuation() && next != '<' => at += 1,
                None if end == End::Open => return More,
                _ => {}
            },
            '(' if closes => depth += 1,
            ')' if closes && depth == 0 => return To(at),
            ')' if closes => depth -= 1,
            _ => {}
        }
        at += char_at(text, at).map_or(1, char::len_utf8);
    }
    if end == End::Open { More } else { To(at) }
}

/// A title and the bracket behind it.
fn title(text: &str, start: usize, quote: char, end: End) -> Reach {
    let close = if quote == '(' { ')' } else { quote };
    let mut at = start + 1;
    loop {
        match char_at(text, at) {
            None => return ended(end),
            Some(c) if is_line_end(c) => return Never,
            Some('\\') => match char_at(text, at + 1) {
                None => return ended(end),
                Some(c) if c.is_ascii_punctuation() => at += 2,
                Some(_) => at += 1,
            },
            Some(c) if c == close => break,
            Some(c) => at += c.len_utf8(),
        }
    }
    at = blanks(text, at + 1);
    match char_at(text, at) {
        Some(')') => To(at + 1),
        None => ended(end),
        Some(_) => Never,
    }
}

/// What brackets make whose opening one stands before `from`; `Err`: they do not close on their line, or cannot be told yet.
pub(super) fn brackets(
    text: &str,
    from: usize,
    has_spans: bool,
    end: End,
) -> Result<Brackets, Reach> {
    let is_image = |at: usize| text.get(..at).is_some_and(|head| head.ends_with('!'));
    // The opening brackets that are open: whether each is an image's.
    let mut open = vec![is_image(from - 1)];
    let mut has_named = false;
    let mut is_odd = false;
    let mut at = from;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(c) = rest.chars().next() else {
            return Err(ended(end));
        };
        let step = match c {
            '\n' | '\r' => return Err(Never),
            '\\' => match char_at(text, at + 1) {
                None => return Err(ended(end)),
                // Readers of HTML take no escapes.
                Some(c) if c.is_ascii_punctuation() && c != '<' => To(2),
                Some(_) => To(1),
            },
            '`' if !has_spans => return Err(Never),
            '`' => match code_span(rest, end) {
                To(length) if rest.get(..length).is_some_and(|span| !span.contains('|')) => {
                    To(length)
                }
                More => More,
                _ => return Err(Never),
            },
            '<' => {
                let length = inner_tag(rest, end);
                let inside = match length {
                    To(length) => rest.get(..length),
                    _ => None,
                };
                is_odd |= inside.is_some_and(|tag| tag.contains('`'));
                length
            }
            '[' => {
                open.push(is_image(at));
                To(1)
            }
            ']' => {
                let is_image = open.pop().unwrap_or(false);
                let (length, form, is_closed) = closed(text, at + 1, !is_image, end)?;
                let behind = text.get(at..length).unwrap_or_default();
                is_odd |= behind.contains('`');
                // Where it does not close it is a name and words.
                let is_name = form == Form::Name || !is_closed;
                has_named |= behind.contains("![") || is_image && is_name;
                if open.is_empty() {
                    return Ok(Brackets {
                        length,
                        form,
                        is_closed,
                        has_named,
                        is_odd,
                    });
                }
                match form {
                    Form::Inline => To(length - at),
                    Form::Definition | Form::Name => To(1),
                }
            }
            c => To(c.len_utf8()),
        };
        match step {
            To(length) => at += length,
            other => return Err(other),
        }
    }
}

fn inner_tag(rest: &str, end: End) -> Reach {
    match char_at(rest, 1) {
        None => ended(end),
        Some(c) if c.is_ascii_alphabetic() || c == '/' => tag(rest, end),
        Some('!' | '?') => Never,
        Some(_) => To(1),
    }
}

/// What follows the closing bracket that stands before `after`, where it ends, and whether it closes. `defines`: it may be a
/// definition.
fn closed(text: &str, after: usize, defines: bool, end: End) -> Result<(usize, Form, bool), Reach> {
    let rest = text.get(after + 1..).unwrap_or_default();
    let form = match char_at(text, after) {
        None if end == End::Open => return Err(More),
        Some('(') => Form::Inline,
        Some(':') if defines => Form::Definition,
        _ => return Ok((after, Form::Name, true)),
    };
    match target(rest, form == Form::Inline, end) {
        Ok(found) => Ok((after + 1 + found.length, form, found.is_closed)),
        Err(More) => Err(More),
        Err(_) => Ok((after, Form::Name, true)),
    }
}
