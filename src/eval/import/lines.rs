//! Files of JSON lines, plain or gzipped: strict, bounded, every fault with its file and line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use serde_json::Value;

use super::agentdojo::record::RecordError;
use crate::wire::json::{BODY_DEPTH, Document};

/// Longest line that is read, in bytes after decompression.
const MAX_LINE: u64 = 64 << 20;

/// One line of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The file.
    pub file: PathBuf,
    /// Its number, from 1.
    pub number: usize,
    /// What it holds.
    pub value: Value,
}

impl Line {
    /// A fault of this line.
    pub fn bad(&self, what: impl Into<String>) -> RecordError {
        RecordError::Line {
            file: self.file.clone(),
            line: self.number,
            what: what.into(),
        }
    }
}

/// The lines of one file; blank ones are skipped.
pub struct Lines {
    file: PathBuf,
    from: Box<dyn BufRead>,
    number: usize,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("file", &self.file)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Lines {
    /// Opens a file; one whose name ends in `.gz` is unpacked.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(file: &Path) -> Result<Self, RecordError> {
        let opened = File::open(file).map_err(|cause| RecordError::File {
            file: file.to_owned(),
            cause,
        })?;
        let plain = BufReader::new(opened);
        let from: Box<dyn BufRead> = if file.extension().is_some_and(|ending| ending == "gz") {
            Box::new(BufReader::new(MultiGzDecoder::new(plain)))
        } else {
            Box::new(plain)
        };
        Ok(Self {
            file: file.to_owned(),
            from,
            number: 0,
        })
    }

    fn bad(&self, what: String) -> RecordError {
        RecordError::Line {
            file: self.file.clone(),
            line: self.number,
            what,
        }
    }

    fn read(&self, line: Vec<u8>) -> Result<Line, RecordError> {
        let no_json = |what: &str, column| self.bad(format!("no JSON: {what} at column {column}"));
        let document = Document::read(Bytes::from(line), BODY_DEPTH)
            .map_err(|error| no_json(&error.what, error.column))?;
        let (value, _) = document
            .value(document.root())
            .map_err(|error| no_json(&error.what, error.column))?;
        Ok(Line {
            file: self.file.clone(),
            number: self.number,
            value,
        })
    }
}

impl Iterator for Lines {
    type Item = Result<Line, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut line = Vec::new();
            self.number += 1;
            let read = (&mut self.from)
                .take(MAX_LINE + 1)
                .read_until(b'\n', &mut line);
            match read {
                Ok(0) => return None,
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(read) if read as u64 > MAX_LINE => {
                    let longest = MAX_LINE >> 20;
                    return Some(Err(
                        self.bad(format!("the line is longer than {longest} MiB"))
                    ));
                }
                Ok(_) => return Some(self.read(line)),
                Err(cause) => {
                    return Some(Err(RecordError::File {
                        file: self.file.clone(),
                        cause,
                    }));
                }
            }
        }
    }
}
