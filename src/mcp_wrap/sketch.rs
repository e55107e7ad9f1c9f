//! What a line that cannot be read was meant for: found without a parser, so that whoever waits for it can be told.

use super::message::Id;

/// Bytes of a key or a value that are looked at.
const TOKEN: usize = 256;

/// Ids of one line.
const IDS: usize = 64;

/// Whom an unreadable line would have answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Meant {
    /// The requests that it names; more than one in a batch, or where a key is there twice.
    pub(super) ids: Vec<Id>,
    /// It has an answer in it that names none.
    pub(super) has_nameless: bool,
    /// It says of itself that it is JSON-RPC.
    pub(super) is_rpc: bool,
}

#[derive(Clone, Copy, Default)]
enum Shape {
    /// Nothing but white space so far.
    #[default]
    Unknown,
    /// An object, or a batch of them: their keys are at this depth.
    Keys(usize),
    /// No message, or the message has ended.
    Over,
}

/// One object of the line.
#[derive(Default)]
struct Object {
    ids: Vec<Id>,
    is_rpc: bool,
    /// It asks or tells, so its id is the server's own.
    has_method: bool,
}

/// Takes a line piece by piece, whatever its length. Only quotes and brackets count, so a number or a byte that JSON does not
/// know hides nothing.
#[derive(Default)]
pub(super) struct Sketch {
    shape: Shape,
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// The key or value under way, up to its bound.
    token: Vec<u8>,
    key: String,
    object: Object,
    meant: Meant,
}

impl Sketch {
    pub(super) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            match self.shape {
                Shape::Unknown => self.begin(*byte),
                Shape::Keys(at) => self.take(*byte, at),
                Shape::Over => return,
            }
        }
    }

    /// Whether it is a part of a message that names no request so far: the rest may come on the lines behind it, as of JSON that
    /// is written for people.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.shape, Shape::Keys(_))
            && self.object.ids.is_empty()
            && self.meant.ids.is_empty()
    }

    /// Whether nothing more can come.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.shape, Shape::Over)
    }

    /// Whether it is JSON-RPC, as far as it has come.
    pub(super) const fn is_rpc(&self) -> bool {
        self.object.is_rpc || self.meant.is_rpc
    }

    pub(super) fn finish(mut self) -> Meant {
        self.close();
        self.meant
    }

    fn begin(&mut self, byte: u8) {
        self.shape = match byte {
            b'{' => Shape::Keys(1),
            b'[' => Shape::Keys(2),
            // White space, or a byte order mark.
            b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf => return,
            _ => Shape::Over,
        };
        self.depth = 1;
    }

    fn take(&mut self, byte: u8, at: usize) {
        if self.is_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            self.keep(byte, at);
            return;
        }
        let has_keys = self.depth == at;
        match byte {
            // Between the objects of a batch: `[info] started` is none.
            _ if self.depth < at
                && !matches!(byte, b'{' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n') =>
            {
                self.shape = Shape::Over;
            }
            b':' if has_keys => {
                let token = std::mem::take(&mut self.token);
                self.key = serde_json::from_slice(token.trim_ascii()).unwrap_or_default();
            }
            b',' if has_keys => self.member(),
            b'}' | b']' => {
                if has_keys {
                    self.member();
                    self.close();
                }
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.shape = Shape::Over;
                }
            }
            _ => {
                self.is_text = byte == b'"';
                self.keep(byte, at);
                if matches!(byte, b'{' | b'[') {
                    self.depth = self.depth.saturating_add(1);
                }
            }
        }
    }

    /// One byte more than is looked at tells that the rest is missing.
    fn keep(&mut self, byte: u8, at: usize) {
        if self.depth == at && self.token.len() <= TOKEN {
            self.token.push(byte);
        }
    }

    fn member(&mut self) {
        let token = std::mem::take(&mut self.token);
        let value = token.trim_ascii();
        match std::mem::take(&mut self.key).as_str() {
            "id" if token.len() <= TOKEN => self.object.ids.extend(Id::read(value)),
            "method" => self.object.has_method |= value.starts_with(b"\""),
            "jsonrpc" => self.object.is_rpc = true,
            _ => {}
        }
        self.object.ids.truncate(IDS);
    }

    fn close(&mut self) {
        let object = std::mem::take(&mut self.object);
        if object.has_method {
            return;
        }
        self.meant.is_rpc |= object.is_rpc;
        self.meant.has_nameless |= object.is_rpc && object.ids.is_empty();
        self.meant.ids.extend(object.ids);
        self.meant.ids.truncate(IDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a line that is there whole.
    fn of(line: &[u8]) -> Meant {
        let mut sketch = Sketch::default();
        sketch.push(line);
        sketch.finish()
    }

    fn number(id: u8) -> Id {
        Id::Number(id.to_string())
    }

    #[test]
    fn an_answer_names_its_request_whatever_else_is_wrong_with_it() {
        let cases: [(&[u8], Vec<Id>); 13] = [
            (
                br#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#,
                vec![number(1)],
            ),
            (
                br#"{"result":{"id":5,"x":[NaN]},"jsonrpc":"2.0", "id" : 1 }"#,
                vec![number(1)],
            ),
            (b"{\"id\":1,\"result\":{\"x\":\"\xff\"}}", vec![number(1)]),
            (br#"{"id":1,"result":{},"result":{}}"#, vec![number(1)]),
            (
                br#"{"id":1,"id":2,"result":{}}"#,
                vec![number(1), number(2)],
            ),
            (br#"[{"id":1,"result":{}}]"#, vec![number(1)]),
            (
                br#" [ {"id":1,"result":{}} , {"id":2,"error":{}}]"#,
                vec![number(1), number(2)],
            ),
            (
                br#"{"id":"a\u0062\"}","result":NaN}"#,
                vec![Id::Text("ab\"}".to_owned())],
            ),
            (br#"{"\u0069d":1,"result":NaN}"#, vec![number(1)]),
            (br#"{"id":1,"result":{"cut":"#, vec![number(1)]),
            (b"\xef\xbb\xbf{\"id\":1,\"result\":{}}", vec![number(1)]),
            (br#"{"id":1,"method":null,"result":NaN}"#, vec![number(1)]),
            (
                br#"[{"id":1,"method":"m"},{"id":2,"result":{}}]"#,
                vec![number(2)],
            ),
        ];
        for (line, ids) in cases {
            let meant = of(line);
            let line = String::from_utf8_lossy(line);
            assert_eq!((meant.ids, meant.has_nameless), (ids, false), "{line}");
        }
    }

    #[test]
    fn an_answer_without_a_name_is_one_all_the_same() {
        for line in [
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":NaN,"result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{"id":1}}"#,
            &format!(
                r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#,
                "x".repeat(TOKEN)
            ),
        ] {
            let meant = of(line.as_bytes());
            assert_eq!((meant.ids, meant.has_nameless), (vec![], true), "{line}");
        }
    }

    #[test]
    fn a_message_in_lines_is_open_until_it_ends() {
        let mut sketch = Sketch::default();
        for line in [
            "{",
            "  \"jsonrpc\": \"2.0\",",
            "  \"id\": 1,",
            "  \"result\": {\"id\": 5}",
        ] {
            sketch.push(line.as_bytes());
            sketch.push(b"\n");
            assert!(!sketch.is_over(), "{line}");
        }
        sketch.push(b"}");
        assert!(sketch.is_over());
        assert_eq!(sketch.finish().ids, [number(1)]);
    }

    #[test]
    fn notes_and_what_the_server_asks_answer_nobody() {
        for line in [
            "",
            "{",
            "{ not json",
            "[info] started",
            "[1, 2]",
            "[2026-01-01] {\"jsonrpc\":\"2.0\",\"id\":1}",
            "note: {\"jsonrpc\":\"2.0\",\"id\":1}",
            r#"{"level":"error","error":"no \"id\":1"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"roots/list","params":NaN}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":NaN}"#,
        ] {
            let meant = of(line.as_bytes());
            assert_eq!((meant.ids, meant.has_nameless), (vec![], false), "{line}");
        }
    }
}
