//! Markdown as clients read it.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::super::code::Code;
use super::super::find::find;
use super::super::target::network;
use super::html;
use super::{Place, Use, Value};

/// Longest text of a link that is kept, in bytes.
const LABEL: usize = 128;

/// Every place of the text that some client would fetch or follow.
pub(super) fn places(text: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let tables: &[bool] = if text.contains('|') {
        &[false, true]
    } else {
        &[false]
    };
    let mut tags = Vec::new();
    for tables in tables {
        let found = Reader::new(text, *tables, &mut places).read(Vec::new());
        tags.extend(found);
    }
    if let Some(tagless) = tagless(text) {
        for tables in tables {
            let mut reader = Reader::new(&tagless, *tables, &mut places);
            reader.html = false;
            reader.read(tags.clone());
        }
    }
    places
}

/// The text as a client reads it that takes no HTML: tags are words and hide nothing. Autolinks stay.
fn tagless(text: &str) -> Option<String> {
    let opens = |at: usize| {
        let after = text.get(at + 1..).unwrap_or_default();
        let word = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-')))
            .and_then(|end| after.get(end..));
        let autolink = word.is_some_and(|rest| rest.starts_with([':', '@']));
        after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'))
            && !autolink
    };
    let mut bytes = text.as_bytes().to_vec();
    let mut found = false;
    for (at, _) in text.match_indices('<').filter(|(at, _)| opens(*at)) {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = 1;
            found = true;
        }
    }
    String::from_utf8(bytes).ok().filter(|_| found)
}

/// One way to read it.
struct Reader<'t, 'p> {
    text: &'t str,
    tables: bool,
    html: bool,
    places: &'p mut Vec<Place>,
    /// What is not rendered.
    code: Vec<Range<usize>>,
    /// What is judged by itself, so that URLs in it are no bare ones.
    taken: Vec<Range<usize>>,
    /// Tags among these.
    tags: Vec<Range<usize>>,
    /// What another reading takes for tags and judges, by start.
    hidden: Vec<Range<usize>>,
    /// Links that are open: their places, whose labels are being read.
    links: Vec<Option<usize>>,
    block: Block,
}

/// A block's text with entities decoded, where there are any.
#[derive(Default)]
struct Block {
    text: String,
    span: Range<usize>,
    decoded: bool,
}

impl<'t, 'p> Reader<'t, 'p> {
    fn new(text: &'t str, tables: bool, places: &'p mut Vec<Place>) -> Self {
        Self {
            text,
            tables,
            html: true,
            places,
            code: Vec::new(),
            taken: Vec::new(),
            tags: Vec::new(),
            hidden: Vec::new(),
            links: Vec::new(),
            block: Block::default(),
        }
    }

    /// Reads the text; `hidden` holds no bare URL either. Gives the spans of tags.
    fn read(mut self, mut hidden: Vec<Range<usize>>) -> Vec<Range<usize>> {
        hidden.sort_by_key(|tag| tag.start);
        self.hidden = hidden;
        let mut options = Options::ENABLE_STRIKETHROUGH;
        options.set(Options::ENABLE_TABLES, self.tables);
        let mut events = Parser::new_ext(self.text, options).into_offset_iter();
        for (event, span) in events.by_ref() {
            self.event(event, span);
        }
        for (_, definition) in events.reference_definitions().iter() {
            self.taken.push(definition.span.clone());
            self.places.push(Place {
                span: definition.span.clone(),
                how: None,
                value: Value::Reference(definition.dest.to_string()),
                label: String::new(),
            });
        }
        self.taken.extend(std::mem::take(&mut self.hidden));
        self.finish()
    }

    fn event(&mut self, event: Event<'_>, span: Range<usize>) {
        match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => {
                self.link(Use::Followed, &dest_url, span, link_type);
            }
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                ..
            }) => self.link(Use::Fetched, &dest_url, span, link_type),
            Event::End(TagEnd::Link | TagEnd::Image) => {
                self.links.pop();
                self.block.text.push(' ');
            }
            Event::Start(Tag::CodeBlock(_)) | Event::Code(_) => {
                self.code.push(span);
                self.block.text.push(' ');
            }
            Event::Start(Tag::HtmlBlock) => {
                let inside = self.text.get(span.clone()).unwrap_or_default();
                let tags = html::scan(inside, span.start, self.places);
                self.tags.extend(tags);
            }
            Event::InlineHtml(tag) => {
                html::scan(&tag, span.start, self.places);
                self.tags.push(span);
                self.block.text.push(' ');
            }
            Event::Text(text) => self.words(&text, span),
            Event::SoftBreak | Event::HardBreak => self.block.text.push('\n'),
            Event::Start(_) | Event::End(_) => self.flush(),
            _ => {}
        }
    }

    fn link(&mut self, how: Use, dest: &CowStr<'_>, span: Range<usize>, kind: LinkType) {
        self.taken.push(span.clone());
        let mail = kind == LinkType::Email;
        // The words of an autolink are its destination.
        let labelled = !mail && kind != LinkType::Autolink;
        self.links.push(labelled.then_some(self.places.len()));
        self.block.text.push(' ');
        if !mail {
            self.places.push(Place {
                span,
                how: Some(how),
                value: Value::Reference(dest.to_string()),
                label: String::new(),
            });
        }
    }

    fn words(&mut self, text: &str, span: Range<usize>) {
        if let Some(open) = self.links.last() {
            let place = open.and_then(|open| self.places.get_mut(open));
            if let Some(place) = place
                && place.label.len() + text.len() <= LABEL
            {
                let plain = |c: char| c.is_alphanumeric() || " ,-'".contains(c);
                place.label.extend(text.chars().filter(|c| plain(*c)));
            }
            return;
        }
        if self.block.text.is_empty() {
            self.block.span = span.clone();
        }
        self.block.span.end = self.block.span.end.max(span.end);
        let written = self.text.get(span.clone()) == Some(text);
        let inside = self.hidden_in(&span);
        if inside.is_empty() {
            self.block.decoded |= !written;
            self.block.text.push_str(text);
        } else if written {
            self.block.text.push_str(&blanked(text, &inside));
        } else {
            // An entity in a tag.
            self.block.text.push(' ');
        }
    }

    /// Hidden parts of a span, counted from its start.
    fn hidden_in(&self, span: &Range<usize>) -> Vec<Range<usize>> {
        let until = self.hidden.partition_point(|tag| tag.start < span.end);
        let before = self.hidden.get(..until).unwrap_or_default();
        let inside = before.iter().rev().take_while(|tag| tag.end > span.start);
        inside
            .map(|tag| tag.start.max(span.start) - span.start..tag.end.min(span.end) - span.start)
            .collect()
    }

    /// A block ends: where entities were decoded, its text is searched as it is shown.
    fn flush(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.decoded {
            self.bare(&block.text, Some(&block.span));
        }
    }

    fn bare(&mut self, text: &str, whole: Option<&Range<usize>>) {
        let text = &*parted(text);
        for found in find(text) {
            let words = text.get(found.span.clone()).unwrap_or_default();
            let www = words.get(..4);
            let www = www.is_some_and(|start| start.eq_ignore_ascii_case("www."));
            let written = www || !found.bare && words.contains("://");
            // Clients turn what has a scheme of the web into links, and names that begin with `www.`.
            let other = matches!(&found.url, Err(denied) if denied.code == Code::SchemeNotAllowed);
            if !written || other {
                continue;
            }
            self.places.push(Place {
                span: whole.cloned().unwrap_or_else(|| found.span.clone()),
                how: Some(Use::Followed),
                value: Value::Bare(Box::new(found)),
                label: String::new(),
            });
        }
    }

    fn finish(mut self) -> Vec<Range<usize>> {
        self.flush();
        let visible = blanked(self.text, &self.code);
        if self.html && visible.contains('<') {
            html::scan(&visible, 0, self.places);
            html::unclosed(&visible, self.places);
        }
        let running = blanked(&visible, &self.taken);
        let running = blanked(&running, &self.tags).into_owned();
        self.bare(&running, None);
        self.tags
    }
}

/// Some clients begin a link at a scheme of the web that another name stands before: `x.https://..`.
fn parted(text: &str) -> Cow<'_, str> {
    const JOINS: [u8; 3] = *b"+-.";
    let mut bytes = Cow::Borrowed(text.as_bytes());
    for (colon, _) in text.match_indices("://") {
        let head = text.get(..colon).unwrap_or_default();
        let name = head
            .trim_end_matches(|c: char| c.is_ascii_alphabetic())
            .len();
        let scheme = head.get(name..).unwrap_or_default();
        let join = name.checked_sub(1);
        let joined = join.filter(|at| bytes.get(*at).is_some_and(|byte| JOINS.contains(byte)));
        if let Some(at) = joined.filter(|_| network(scheme).is_some())
            && let Some(byte) = bytes.to_mut().get_mut(at)
        {
            *byte = b' ';
        }
    }
    match bytes {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// The text with spans blanked, byte for byte.
fn blanked<'t>(text: &'t str, spans: &[Range<usize>]) -> Cow<'t, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in sorted {
        if span.end <= done {
            continue;
        }
        let start = span.start.max(done);
        out.push_str(text.get(done..start).unwrap_or_default());
        out.extend(std::iter::repeat_n(' ', span.end - start));
        done = span.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}
