//! Files that people write: YAML read strictly, with spans, and every problem shown at its line with a hint.
//!
//! ```
//! use holdpoint::source::{self, Field, Reader};
//!
//! struct Shop { name: String, port: u16 }
//!
//! fn shop(field: &Field<'_>) -> Option<Shop> {
//!     let mut fields = field.map()?; // what nobody asks for is reported as unknown
//!     let name = fields.required("name").and_then(|f| f.text());
//!     let port = fields.optional("port").map_or(Some(80), |f| f.whole());
//!     Some(Shop { name: name?.to_owned(), port: port? })
//! }
//!
//! let tree = source::parse("shop.yaml", "nmae: a\nport: 99999\n".to_owned()).unwrap();
//! let reader = Reader::new();
//! let built = shop(&reader.root(&tree));
//! let problems = reader.finish(built).err().unwrap();
//! assert_eq!(problems.0.len(), 2); // a mistyped key and a number out of range: both at once
//! ```

mod fields;
mod file;
mod hints;
mod json;
mod nearest;
mod problem;
mod reader;
mod scalar;
mod tree;
mod yaml;

pub use fields::{Fields, Key};
pub use file::read_text;
pub use json::{json_lines, parse_json};
pub use nearest::{did_you_mean, nearest};
pub use problem::{Problem, Problems, Severity, SourceFile, Spot};
pub use reader::{Field, Reader};
pub use scalar::duration as read_duration;
pub(crate) use scalar::is_name;
pub use tree::{Entry, Kind, Node, Tree};
pub use yaml::parse;

/// Largest YAML file, in bytes.
pub const MAX_YAML: u64 = 16 << 20;

/// Reads a document that others wrote, such as an API description: JSON where it begins with `{`, else YAML whose keys may be
/// numbers.
///
/// # Errors
/// A file that cannot be read, or every place that is not strict JSON or YAML.
pub fn read_document(path: &std::path::Path) -> Result<Tree, Problems> {
    let text = read_text(path, MAX_YAML)?;
    let shown = path.display().to_string();
    if !text.trim_start().starts_with('{') {
        return yaml::parse_with(&shown, text, true);
    }
    let bytes = 0..text.len();
    let file = std::sync::Arc::new(SourceFile { path: shown, text });
    parse_json(&file, bytes).map_err(|problem| (*problem).into())
}

/// Reads a YAML file.
///
/// # Errors
/// A file that cannot be read, or every place that is not strict YAML (see [`parse`]).
pub fn read(path: &std::path::Path) -> Result<Tree, Problems> {
    let text = read_text(path, MAX_YAML)?;
    parse(&path.display().to_string(), text)
}
