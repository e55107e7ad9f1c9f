//! One URL within a text: where it ends, and whether some reader would let it end elsewhere.
//!
//! Only the authority decides where a URL leads, so its end matters most: it is cut at white space, slashes, quotes and angle
//! brackets; trailing punctuation of the sentence or of Markdown is dropped; anything else in it is unreadable, since a reader
//! that takes a longer piece would go elsewhere.

use std::ops::Range;

use super::code::{Code, Denied};
use super::target::{BACKSLASH, Target, Url, read_authority};

const CONTINUED: Denied = Denied::new(
    Code::AmbiguousAuthority,
    "the URL may go on after white space",
);
const CONTROL: Denied = Denied::new(
    Code::ControlChar,
    "the URL may go on after a control character",
);
const GLUED: Denied = Denied::new(Code::AmbiguousAuthority, "punctuation in the host");

/// Bytes of an authority that are read; a longer one is cut and then too long for a name.
pub(super) const MAX_AUTHORITY: usize = 1024;

/// What was found: where in the text it stands, and where it leads or why that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// No scheme is written: the reader chooses one.
    pub bare: bool,
    /// Where it leads.
    pub url: Result<Url, Denied>,
}

impl Found {
    /// A URL that cannot be read.
    pub(super) const fn refused(span: Range<usize>, denied: Denied) -> Self {
        Self {
            span,
            bare: false,
            url: Err(denied),
        }
    }
}

/// Longest path, query and fragment of a URL in a text that are read, in bytes.
pub(super) const MAX_TAIL: usize = 16 * 1024;

/// Reads the URL whose authority begins at `from`. `begin`: where the URL itself begins; `start`: where the text does, blanks
/// aside; `most`: bytes that are read behind the authority.
pub(super) fn url(
    text: &str,
    scheme: &'static str,
    (start, begin, from): (usize, usize, usize),
    most: usize,
) -> Found {
    let (target, end) = authority(text, scheme, from);
    let (tail, cut) = tail(text.get(end..).unwrap_or_default(), most);
    let url = target
        .and_then(|target| undisputed(text, (start, begin, from), target))
        .and_then(|target| Url::with_tail(target, &plain(tail)))
        .map(|url| if cut { url.cut() } else { url });
    Found {
        span: begin..end + tail.len(),
        bare: false,
        url,
    }
}

/// Path, query and fragment that follow an authority, without the sentence's punctuation, and whether they are longer than
/// that.
fn tail(text: &str, most: usize) -> (&str, bool) {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "\"<>`".contains(c);
    if !text.starts_with(['/', '?', '#']) {
        return ("", false);
    }
    let near = text
        .get(..text.floor_char_boundary(most))
        .unwrap_or_default();
    let run = near.split(ends).next().unwrap_or_default();
    if run.len() == near.len() && near.len() < text.len() {
        return (run, true);
    }
    let trimmed = run.trim_end_matches(|c: char| is_trailing(c) && c != '/');
    // Dots that may be segments are no punctuation.
    let last = run.rsplit('/').next().unwrap_or_default();
    if last.contains(|c: char| c.is_alphanumeric()) || run.contains(['?', '#']) {
        (trimmed, false)
    } else {
        (run, false)
    }
}

/// A backslash in a text is more often an escape than a part of the URL: it stays visible to rules about paths.
fn plain(tail: &str) -> String {
    let path = tail.find(['?', '#']).unwrap_or(tail.len());
    let (path, rest) = tail.split_at_checked(path).unwrap_or((tail, ""));
    format!("{}{rest}", path.replace('\\', "%5C"))
}

/// Reads the authority that begins at `from`; also says where it ends.
pub(super) fn authority(
    text: &str,
    scheme: &'static str,
    from: usize,
) -> (Result<Target, Denied>, usize) {
    let rest = text.get(from..).unwrap_or_default();
    let near = rest
        .get(..rest.floor_char_boundary(MAX_AUTHORITY))
        .unwrap_or_default();
    let length = near.find(ends_authority).unwrap_or(near.len());
    let end = from + length;
    let run = rest.get(..length).unwrap_or_default();
    let tail = rest.get(length..).unwrap_or_default();
    (read_run(scheme, run, tail), end)
}

fn ends_authority(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "/\\?#\"<>`".contains(c)
}

fn read_run(scheme: &'static str, run: &str, tail: &str) -> Result<Target, Denied> {
    if tail.starts_with('\\') {
        return Err(BACKSLASH);
    }
    let control = tail.chars().next().is_some_and(char::is_control);
    if control && goes_on(tail) {
        return Err(CONTROL);
    }
    if run.contains(['@', '%']) {
        return read_authority(scheme, run);
    }
    // Of a URL with a path the authority is whole; of one without, the sentence's punctuation follows it.
    let pathless = !tail.starts_with(['/', '?', '#']);
    let core = if pathless {
        run.trim_end_matches(is_trailing)
    } else {
        run
    };
    let inner = core.find(|c: char| !is_host(c));
    let Some(inner) = inner else {
        return read_authority(scheme, core);
    };
    // `a.example,https://b.example` and `(a.example)[`: another URL begins behind the punctuation.
    let (head, glued) = run.split_at_checked(inner).unwrap_or((run, ""));
    if tail.starts_with("//") && begins_scheme(glued) {
        return read_authority(scheme, head.trim_end_matches(is_trailing));
    }
    Err(GLUED)
}

/// After a tab, a line end or another control character: what makes a URL out of both sides.
fn goes_on(tail: &str) -> bool {
    let line_ends = tail.starts_with(['\r', '\n']);
    let next = tail.trim_start_matches(char::is_control);
    next.starts_with(['.', '@', ':', '%', '\\']) && !next.starts_with("...")
        || !line_ends && next.starts_with(['/', '?', '#'])
}

/// What a host and port are made of; of other scripts the reader of the name decides.
fn is_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']') || !c.is_ascii()
}

/// Punctuation that ends a sentence, a quotation or a Markdown construct.
fn is_trailing(c: char) -> bool {
    if c.is_ascii() {
        !c.is_ascii_alphanumeric() && c != '-'
    } else {
        !c.is_alphanumeric()
    }
}

/// Punctuation and then `scheme:`, to its end.
fn begins_scheme(glued: &str) -> bool {
    let scheme = glued.trim_start_matches(is_trailing);
    scheme.strip_suffix(':').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
    })
}

/// A string that begins with a URL may be opened whole. Readers then drop tabs and line ends and take spaces into the user
/// information: if that leads elsewhere, nobody knows where.
fn undisputed(
    text: &str,
    (start, begin, from): (usize, usize, usize),
    target: Target,
) -> Result<Target, Denied> {
    if begin != start {
        return Ok(target);
    }
    let rest = text.get(from..).unwrap_or_default();
    let whole = format!("{}://{rest}", target.scheme);
    let Ok(parsed) = url::Url::parse(&whole) else {
        return Ok(target);
    };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(CONTINUED);
    }
    let theirs = parsed.host_str().unwrap_or_default();
    let theirs = theirs.trim_end_matches('.');
    let ours = target.host.to_string();
    let dots = |name: &str| name.bytes().filter(|b| *b == b'.').count();
    let top = theirs.rsplit('.').next().unwrap_or_default();
    // Joined lines make a longer name; only one that could exist is a danger.
    let exists = top.len() > 1 && top.starts_with(|c: char| c.is_ascii_alphabetic());
    if theirs != ours && dots(theirs) > dots(&ours) && exists {
        return Err(CONTINUED);
    }
    Ok(target)
}
