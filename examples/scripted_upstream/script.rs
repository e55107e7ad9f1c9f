//! What the model says, and in which manner.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

/// One answer of the model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Signed reasoning, where the API has it.
    #[serde(default)]
    pub thinking: Option<String>,
    /// What it says before its calls.
    pub text: Option<String>,
    pub calls: Vec<Call>,
}

/// A call that it proposes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub name: String,
    /// As the model writes them, so maybe not JSON.
    pub arguments: String,
    /// The code that the harness's policy blocks it with.
    #[serde(default)]
    pub code: Option<String>,
    /// Its place in the scenario, also where calls before it are left out.
    #[serde(skip)]
    pub number: usize,
}

/// How an answer comes over the wire. Those that only streams can have change nothing of a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Only the calls that no code blocks: what a client should see in the end.
    Kept,
    /// Content encodings, flushed after each event.
    Gzip,
    Deflate,
    Br,
    Zstd,
    /// Lines end in CR LF.
    Crlf,
    /// Comments, unknown fields and ids between the events.
    Comments,
    /// Pieces that cut characters, line ends and events anywhere.
    Split,
    /// Each byte a piece of its own.
    Bytes,
    /// The calls' fragments alternate.
    Interleaved,
    /// All calls claim index 0.
    SameIndex,
    /// No call has an index, each comes in one piece.
    NoIndex,
    /// Every fragment repeats id and name.
    Repeated,
    /// Indices with gaps.
    Gaps,
    /// Five seconds of silence within the first call, or within a whole body.
    Stall,
    /// The connection ends within the last call, or within a whole body.
    Cut,
    /// An error in the stream, within the last call.
    Error,
    /// 429.
    Busy,
}

const MANNERS: [(&str, Manner); 18] = [
    ("kept", Manner::Kept),
    ("gzip", Manner::Gzip),
    ("deflate", Manner::Deflate),
    ("br", Manner::Br),
    ("zstd", Manner::Zstd),
    ("crlf", Manner::Crlf),
    ("comments", Manner::Comments),
    ("split", Manner::Split),
    ("bytes", Manner::Bytes),
    ("interleaved", Manner::Interleaved),
    ("same_index", Manner::SameIndex),
    ("no_index", Manner::NoIndex),
    ("repeated", Manner::Repeated),
    ("gaps", Manner::Gaps),
    ("stall", Manner::Stall),
    ("cut", Manner::Cut),
    ("error", Manner::Error),
    ("busy", Manner::Busy),
];

/// What a request's model asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub turn: Turn,
    manners: Vec<Manner>,
}

impl Asked {
    /// Whether the answer comes in this manner.
    pub fn is(&self, manner: Manner) -> bool {
        self.manners.contains(&manner)
    }

    /// The scenario's turn; a last one where the request ends in a tool's result.
    pub fn turn(&self, after_result: bool) -> Turn {
        if after_result {
            Turn {
                text: Some("Done.".to_owned()),
                ..Turn::default()
            }
        } else {
            self.turn.clone()
        }
    }
}

/// The script.
pub struct Scenarios(BTreeMap<String, Turn>);

impl Scenarios {
    /// The script that the harnesses share.
    pub fn read() -> Result<Self> {
        let script = include_str!("../../tests/sdk/scenarios.json");
        let mut turns: BTreeMap<String, Turn> =
            serde_json::from_str(script).context("tests/sdk/scenarios.json")?;
        for turn in turns.values_mut() {
            for (number, call) in turn.calls.iter_mut().enumerate() {
                call.number = number;
            }
        }
        Ok(Self(turns))
    }

    /// Reads `SCENARIO[+MANNER]...[@RUN]`.
    pub fn asked(&self, model: &str) -> Result<Asked, String> {
        let script = model.split('@').next().unwrap_or_default();
        let mut words = script.split('+');
        let name = words.next().unwrap_or_default();
        let mut turn = self
            .0
            .get(name)
            .cloned()
            .ok_or_else(|| format!("no scenario `{name}`"))?;
        let mut manners = Vec::new();
        for word in words {
            let known = MANNERS.iter().find(|(known, _)| *known == word);
            manners.push(known.ok_or_else(|| format!("no manner `{word}`"))?.1);
        }
        if manners.contains(&Manner::Kept) {
            turn.calls.retain(|call| call.code.is_none());
        }
        Ok(Asked { turn, manners })
    }
}

/// Something that a stream does next.
pub enum Piece {
    /// An event: its type, where the API names them, and its data.
    Event(Option<&'static str>, String),
    /// Silence.
    Stall,
    /// The connection ends here.
    Cut,
}

/// A text in pieces of a few characters, at least one.
pub fn pieces(text: &str, size: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(size).map(|c| c.iter().collect()).collect()
}

/// Whether the last message of a request holds a tool's result.
pub fn ends_in_result(request: &Value) -> bool {
    let messages = request["messages"].as_array();
    let Some(last) = messages.and_then(|messages| messages.last()) else {
        return false;
    };
    let blocks = last["content"].as_array();
    last["role"] == "tool"
        || blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
}
