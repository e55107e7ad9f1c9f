//! JSON lines in, JSON lines out.

use std::io::{self, BufRead, Read as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, Given, Judge, Verdict, on_all_cores};
use crate::layers::injection::Kind;
use crate::names::ToolName;

/// Lines of a batch, and bytes after which it is full.
const BATCH: usize = 4_096;
const BATCH_BYTES: usize = 8 << 20;

/// Longest line, in bytes.
const LONGEST: usize = 64 << 20;

/// What a line must hold; other keys are left alone.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Value,
    text: String,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
}

#[derive(Serialize)]
struct Out<'a> {
    id: &'a Value,
    #[serde(flatten)]
    answer: &'a Answer,
}

#[derive(Serialize)]
struct Bad<'a> {
    id: Value,
    line: u64,
    error: &'a str,
}

/// What came of a file of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines that held a text.
    pub texts: u64,
    /// Those that were flagged.
    pub flagged: u64,
    /// Lines that could not be read, each answered with `error`.
    pub bad: u64,
}

/// Reads lines and hands the answer to each, in order, to `print`.
///
/// # Errors
/// Input that cannot be read. A line that is no text is no error of the whole: it is answered and counted.
pub fn lines(
    judge: &Judge,
    input: &mut dyn BufRead,
    print: &mut dyn FnMut(&str),
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut number = 0;
    loop {
        let batch = batch(input, &mut number)?;
        if batch.is_empty() {
            return Ok(summary);
        }
        for answered in on_all_cores(&batch, |(number, line)| answer(judge, *number, line)) {
            match answered.verdict {
                Some(verdict) => {
                    summary.texts += 1;
                    summary.flagged += u64::from(verdict == Verdict::Flag);
                }
                None => summary.bad += 1,
            }
            print(&answered.json);
        }
    }
}

/// The next lines with their numbers, empty ones left out.
fn batch(input: &mut dyn BufRead, number: &mut u64) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < BATCH && bytes < BATCH_BYTES {
        let mut line = Vec::new();
        let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX);
        let read = (&mut *input).take(limit).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        *number += 1;
        if !line.ends_with(b"\n") && line.len() >= LONGEST {
            input.skip_until(b'\n')?;
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            bytes += line.len();
            batch.push((*number, line));
        }
    }
    Ok(batch)
}

struct Answered {
    json: String,
    /// `None` for a line that could not be read.
    verdict: Option<Verdict>,
}

fn answer(judge: &Judge, number: u64, line: &[u8]) -> Answered {
    match read(line) {
        Ok((line, kind)) => {
            let tool = line.tool.as_deref().map(ToolName::from);
            let answer = judge.judge(&Given {
                text: &line.text,
                kind,
                tool: tool.as_ref(),
                tools: &line.tools,
            });
            let out = Out {
                id: &line.id,
                answer: &answer,
            };
            match serde_json::to_string(&out) {
                Ok(json) => Answered {
                    json,
                    verdict: Some(answer.verdict),
                },
                Err(_) => bad(number, "the answer cannot be written as JSON"),
            }
        }
        Err(error) => bad(number, &error),
    }
}

fn bad(line: u64, error: &str) -> Answered {
    let bad = Bad {
        id: Value::Null,
        line,
        error,
    };
    let json = serde_json::to_string(&bad)
        .unwrap_or_else(|_| format!("{{\"id\":null,\"line\":{line},\"error\":\"unreadable\"}}"));
    Answered {
        json,
        verdict: None,
    }
}

fn read(line: &[u8]) -> Result<(Line, Kind), String> {
    if line.len() >= LONGEST {
        return Err(format!("longer than {} MiB", LONGEST >> 20));
    }
    // What the parser says of a value may quote it: only where it stands is told.
    let line: Line = serde_json::from_slice(line).map_err(|error| {
        let what = if error.is_data() {
            "not an object with a string `text`, and names alone in `tools`"
        } else {
            "not JSON"
        };
        format!("{what} (column {})", error.column())
    })?;
    let kind = match line.kind.as_deref() {
        None | Some("tool_output") => Kind::ToolOutput,
        Some("definition") => Kind::Definition,
        Some("user") => Kind::User,
        Some(_) => return Err("`kind` is none of tool_output, definition, user".to_owned()),
    };
    Ok((line, kind))
}
