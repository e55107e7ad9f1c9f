//! `cases.jsonl`: strict JSON, one case a line, every line with its place.

use std::path::Path;
use std::sync::Arc;

use super::{Digest, MAX_FILE};
use crate::eval::case::Case;
use crate::source::{Problem, Problems, Spot, Tree, json_lines};

/// A case with the line it came from.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The case.
    pub case: Arc<Case>,
    /// Its line.
    pub at: Spot,
}

impl Placed {
    /// A problem at the case's line.
    pub fn problem(&self, message: &str) -> Problem {
        Problem::new(format!("case `{}`: {message}", self.case.id)).at(self.at.clone())
    }
}

/// Reads the lines of a file as strict JSON.
pub(super) fn lines(path: &Path, digest: &mut Digest) -> Result<Vec<Tree>, Problems> {
    let trees = json_lines(path, MAX_FILE)?;
    if let Some(tree) = trees.first() {
        digest.add(&tree.file.text);
    }
    Ok(trees)
}

/// Reads a file of cases.
pub(super) fn read(path: &Path, digest: &mut Digest) -> Result<Vec<Placed>, Problems> {
    let mut problems = Problems::default();
    let mut cases = Vec::new();
    for tree in lines(path, digest)? {
        match case(tree.root.json(), tree.root.spot.clone()) {
            Ok(case) => cases.push(case),
            Err(problem) => problems.0.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(cases)
    } else {
        Err(problems)
    }
}

/// One case from its JSON.
pub(super) fn case(json: serde_json::Value, at: Spot) -> Result<Placed, Problem> {
    match serde_json::from_value(json) {
        Ok(case) => Ok(Placed {
            case: Arc::new(case),
            at,
        }),
        Err(error) => Err(Problem::new(format!("this is not a case: {error}"))
            .help("`docs/eval.md` lists the fields of a case")
            .at(at)),
    }
}
