//! JSON lines: the same tree from strict JSON, so that one reader serves both.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::{Entry, Kind, Node, Problem, Problems, SourceFile, Tree, read_text};
use crate::wire::json::{self, Document};

/// Deepest nesting of one line.
const DEPTH: usize = 64;

/// Reads a file of JSON values, one a line; empty lines are skipped.
///
/// # Errors
/// A file that cannot be read or is larger than `limit` bytes, and every line that is not strict JSON.
pub fn json_lines(path: &Path, limit: u64) -> Result<Vec<Tree>, Problems> {
    let file = Arc::new(SourceFile {
        path: path.display().to_string(),
        text: read_text(path, limit)?,
    });
    let mut trees = Vec::new();
    let mut problems = Problems::default();
    let mut start = 0;
    for line in file.text.split('\n') {
        let bytes = start..start + line.len();
        start += line.len() + 1;
        if line.trim().is_empty() {
            continue;
        }
        match parse_json(&file, bytes) {
            Ok(tree) => trees.push(tree),
            Err(problem) => problems.0.push(*problem),
        }
    }
    if problems.is_empty() {
        Ok(trees)
    } else {
        Err(problems)
    }
}

/// Reads one JSON value that stands at `bytes` of the file.
///
/// # Errors
/// Where it is not strict JSON: syntax, duplicate keys, lone surrogates, more than one value.
pub fn parse_json(file: &Arc<SourceFile>, bytes: Range<usize>) -> Result<Tree, Box<Problem>> {
    let text = file.text.get(bytes.clone()).unwrap_or_default();
    let document = Document::read(Bytes::copy_from_slice(text.as_bytes()), DEPTH);
    let reading = Reading {
        file,
        offset: bytes.start,
    };
    match document {
        Ok(document) => Ok(Tree {
            root: reading.node(&document, document.root())?,
            file: Arc::clone(file),
        }),
        Err(error) => Err(Box::new(reading.problem(text, &error))),
    }
}

struct Reading<'f> {
    file: &'f Arc<SourceFile>,
    offset: usize,
}

impl Reading<'_> {
    fn spot(&self, bytes: &Range<usize>) -> (Arc<SourceFile>, Range<usize>) {
        let moved = bytes.start + self.offset..bytes.end + self.offset;
        (Arc::clone(self.file), moved)
    }

    fn problem(&self, text: &str, error: &json::JsonError) -> Problem {
        let before: usize = text
            .split_inclusive('\n')
            .take(error.line.saturating_sub(1))
            .map(str::len)
            .sum();
        let mut at = (before + error.column.saturating_sub(1)).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        Problem::new(format!("not strict JSON: {}", error.what))
            .help("write one JSON value, each key once")
            .at(self.spot(&(at..at)))
    }

    fn node(&self, document: &Document, node: &json::Node) -> Result<Node, Box<Problem>> {
        let kind = match &node.kind {
            json::Kind::Null => Kind::Null,
            json::Kind::Bool(value) => Kind::Bool(*value),
            json::Kind::String(text) => Kind::Text(text.to_string()),
            json::Kind::Number => {
                let Ok((serde_json::Value::Number(number), _)) = document.value(node) else {
                    let problem = Problem::new("the number is out of range")
                        .help("quote it if its digits matter")
                        .at(self.spot(&node.span));
                    return Err(Box::new(problem));
                };
                Kind::Number(number)
            }
            json::Kind::Array(items) => Kind::List(
                items
                    .iter()
                    .map(|item| self.node(document, item))
                    .collect::<Result<_, _>>()?,
            ),
            json::Kind::Object(members) => Kind::Map(
                members
                    .iter()
                    .map(|member| {
                        Ok(Entry {
                            key: member.key.to_string(),
                            key_spot: self.spot(&member.key_span),
                            value: self.node(document, &member.value)?,
                        })
                    })
                    .collect::<Result<_, Box<Problem>>>()?,
            ),
        };
        Ok(Node {
            spot: self.spot(&node.span),
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_their_place_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cases.jsonl");
        std::fs::write(&path, "{\"a\": 1}\n\n{\"é\": [true, \"x\"]}\n").unwrap();
        let trees = json_lines(&path, 1000).unwrap();
        assert_eq!(trees.len(), 2);
        let list = trees[1].root.get("é").unwrap();
        assert_eq!(list.source(), "[true, \"x\"]");
        assert_eq!(list.spot.0.line_column(list.bytes().start), (3, 7));

        std::fs::write(&path, "{}\n{\"a\":1,\"a\":2}\n{\"b\" 1}\n").unwrap();
        let said = json_lines(&path, 1000).unwrap_err().to_string();
        assert!(
            said.contains("cases.jsonl:2:8") && said.contains("duplicate key"),
            "{said}"
        );
        assert!(said.contains("cases.jsonl:3:6"), "{said}");
    }
}
