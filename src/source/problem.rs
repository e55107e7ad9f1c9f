//! A problem in something an operator wrote.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One problem: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, one line.
    pub message: String,
    /// What to do, one line.
    pub help: Option<String>,
    /// The file, its text and the bytes in question; `None` where no file is at fault.
    pub at: Option<(Arc<SourceFile>, Range<usize>)>,
}

/// A file as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// As the user named it.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl Problem {
    /// A problem without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            at: None,
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// All problems found, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "error: {}", problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
