//! Files that people write: YAML read strictly, with spans, and every problem shown at its line with a hint.

mod problem;

pub use problem::{Problem, Problems};
