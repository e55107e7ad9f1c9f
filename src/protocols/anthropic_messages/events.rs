//! Events of a stream: read with their names checked, and made anew where a block moves or a call was held.

use bytes::Bytes;

use super::call::{BlockKind, has_call, has_call_beside, has_part_of_call};
use crate::protocols::object::Object;
use crate::protocols::passed::{encoded, passed};
use crate::protocols::strict::{exact_keys, invalid_response, must_be_object, present};
use crate::protocols::{Event, Malformed, Step, unwritable};
use crate::wire::json::{BODY_DEPTH, Document, Node};
use crate::wire::splice::{Splice, quote};

/// Keys that an event is read by.
const READ: [&str; 6] = [
    "type",
    "index",
    "message",
    "content_block",
    "delta",
    "error",
];

/// An event of the stream, with its data as a document.
pub(super) struct Piece {
    /// Without data.
    event: Event,
    document: Document,
}

impl Piece {
    /// Reads an event. Clients go by its name or by the type in its data: both must say the same.
    pub fn new(mut event: Event, document: Document) -> Result<Self, Malformed> {
        must_be_object(document.root())?;
        exact_keys(document.root(), &READ)?;
        let kind = document.root().get("type").and_then(Node::as_str);
        let kind = kind.ok_or_else(|| invalid_response("an event has no type"))?;
        let own = match kind {
            "content_block_start" => "content_block",
            _ => "",
        };
        if has_call_beside(document.root(), own) {
            return Err(invalid_response("a call stands where an event has none"));
        }
        match event.event.as_deref() {
            Some(name) if name != kind => {
                return Err(invalid_response("an event has another name than type"));
            }
            Some(_) => {}
            // The official clients skip events without a name.
            None => event.event = Some(kind.to_owned()),
        }
        Ok(Self { event, document })
    }

    pub fn kind(&self) -> Result<&str, Malformed> {
        self.event.event.as_deref().ok_or_else(unwritable)
    }

    pub const fn document(&self) -> &Document {
        &self.document
    }

    pub const fn root(&self) -> &Node {
        self.document.root()
    }

    pub const fn size(&self) -> usize {
        self.document.bytes().len()
    }

    /// The event as it came.
    pub fn whole(self) -> Event {
        let data = String::from_utf8_lossy(self.document.bytes()).into_owned();
        Event {
            data: Some(data),
            ..self.event
        }
    }

    /// The bytes of the event as it came.
    pub fn bytes(self) -> Result<Bytes, Malformed> {
        encoded(self.whole())
    }

    /// A step that sends the event as it came.
    pub fn passed(self) -> Result<Step, Malformed> {
        passed(self.whole())
    }

    /// The event with edits.
    pub fn with(self, edit: impl FnOnce(&mut Splice<'_>)) -> Result<Bytes, Malformed> {
        let mut splice = Splice::new(&self.document);
        edit(&mut splice);
        let data = String::from_utf8(splice.finish().into()).map_err(|_| unwritable())?;
        encoded(Event {
            data: Some(data),
            ..self.event
        })
    }

    /// The text of a block or a delta, if it has any.
    pub fn text(&self) -> Option<&str> {
        self.text_node()?.as_str()
    }

    fn text_node(&self) -> Option<&Node> {
        let block = present(self.root(), "content_block");
        let text = block
            .or_else(|| present(self.root(), "delta"))?
            .get("text")?;
        text.as_str().is_some().then_some(text)
    }

    /// The event with this text.
    pub fn saying(self, text: &str) -> Result<Self, Malformed> {
        if self.text() == Some(text) {
            return Ok(self);
        }
        let mut splice = Splice::new(&self.document);
        splice.replace_text(self.text_node().ok_or_else(unwritable)?, text);
        let document = Document::read(splice.finish(), BODY_DEPTH).map_err(|_| unwritable())?;
        Ok(Self {
            event: self.event,
            document,
        })
    }

    /// A delta without text yet, for the block with this index.
    pub fn delta(index: u64) -> Result<Self, Malformed> {
        let data = format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":""}}}}"#
        );
        let document = Document::read(data.into(), BODY_DEPTH).map_err(|_| unwritable())?;
        Self::new(Event::default(), document)
    }

    /// The event, of the block at this index.
    pub fn at(self, index: usize) -> Result<Bytes, Malformed> {
        let index = index.to_string();
        let node = self.root().get("index").ok_or_else(unwritable)?;
        if *self.document.raw(node) == *index.as_bytes() {
            return self.bytes();
        }
        let span = node.span.clone();
        self.with(|splice| splice.replace_span(span, index))
    }
}

/// Refuses the data of an error that some clients, which go by the type in it, read as another event.
pub(super) fn is_error(data: &str) -> Result<(), Malformed> {
    // Words of a server that is about to fail: no reader finds an object in them.
    if !data.contains('{') {
        return Ok(());
    }
    let document = Document::read(data.to_owned().into(), BODY_DEPTH)
        .map_err(|error| invalid_response(format!("an error is not strict JSON: {error}")))?;
    let root = document.root();
    must_be_object(root)?;
    exact_keys(root, &READ)?;
    let is_other = present(root, "type").is_some_and(|kind| kind.as_str() != Some("error"));
    if is_other || has_call(root) {
        return Err(invalid_response("an error holds another event"));
    }
    Ok(())
}

/// Refuses a delta that its block cannot have: clients differ in what they make of it.
pub(super) fn delta_fits(kind: BlockKind, delta: &Node) -> Result<(), Malformed> {
    must_be_object(delta)?;
    exact_keys(
        delta,
        &["type", "partial_json", "text", "thinking", "signature"],
    )?;
    let written = delta.get("type").and_then(Node::as_str);
    let written = written.ok_or_else(|| invalid_response("a delta has no type"))?;
    let is_plain = !has_part_of_call(delta, "");
    let fits = match written {
        // Of the client's own call only its arguments are taken on.
        "input_json_delta" => match kind {
            BlockKind::Call => true,
            BlockKind::ProviderCall => !has_part_of_call(delta, "partial_json"),
            _ => false,
        },
        "text_delta" | "citations_delta" => kind == BlockKind::Text && is_plain,
        "thinking_delta" | "signature_delta" => kind == BlockKind::Thinking && is_plain,
        // It may bring definitions of tools, which have names.
        "compaction_delta" => {
            kind == BlockKind::Compaction && !has_call_beside(delta, "tool_changes")
        }
        _ => kind != BlockKind::Call && is_plain && !has_call(delta),
    };
    if fits {
        Ok(())
    } else {
        Err(invalid_response("a delta does not fit its block"))
    }
}

/// A call at this index, with these arguments.
pub(super) fn call(start: &Piece, index: usize, arguments: &Bytes) -> Result<Bytes, Malformed> {
    let arguments = std::str::from_utf8(arguments).map_err(|_| unwritable())?;
    let block = start.root().get("content_block").ok_or_else(unwritable)?;
    let at = start.root().get("index").ok_or_else(unwritable)?;
    let mut splice = Splice::new(&start.document);
    splice.replace(at, index.to_string());
    match block.get("input") {
        Some(input) => splice.replace(input, "{}"),
        None => splice.add_member(block, "input", b"{}"),
    }
    let data = String::from_utf8(splice.finish().into()).map_err(|_| unwritable())?;
    let mut delta = Object::default();
    delta.text("type", "input_json_delta");
    delta.text("partial_json", arguments);
    Ok([
        encoded(Event {
            event: Some("content_block_start".to_owned()),
            data: Some(data),
            id: start.event.id.clone(),
            retry: start.event.retry,
        })?,
        made(
            "content_block_delta",
            index,
            Some(("delta", &delta.finish())),
        )?,
        made("content_block_stop", index, None)?,
    ]
    .concat()
    .into())
}

/// A block of text at this index.
pub(super) fn text(index: usize, text: &str) -> Result<Bytes, Malformed> {
    let mut block = Object::default();
    block.text("type", "text");
    block.text("text", "");
    let mut delta = Object::default();
    delta.text("type", "text_delta");
    delta.text("text", text);
    Ok([
        made(
            "content_block_start",
            index,
            Some(("content_block", &block.finish())),
        )?,
        made(
            "content_block_delta",
            index,
            Some(("delta", &delta.finish())),
        )?,
        made("content_block_stop", index, None)?,
    ]
    .concat()
    .into())
}

fn made(kind: &str, index: usize, last: Option<(&str, &[u8])>) -> Result<Bytes, Malformed> {
    let mut data = Object::default();
    data.raw("type", &quote(kind));
    data.raw("index", index.to_string().as_bytes());
    if let Some((key, json)) = last {
        data.raw(key, json);
    }
    encoded(Event {
        event: Some(kind.to_owned()),
        data: Some(String::from_utf8(data.finish()).map_err(|_| unwritable())?),
        ..Event::default()
    })
}
