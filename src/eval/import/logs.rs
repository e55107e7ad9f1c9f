//! What logs of model APIs have in common: exchanges of one conversation become one run.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::agentdojo::record::{Kind, Message, RecordError, Trajectory};
use super::lines::{Line, Lines};
use super::{anthropic_log, openai_log};
use crate::eval::recorded::Run;

/// Of so many conversations it is known where they had got to.
const OPEN: usize = 256;

/// Which API a log is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `OpenAI` Chat Completions or Responses.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
}

impl Api {
    /// Which API a line is of, as far as it shows.
    pub fn of(value: &Value) -> Option<Self> {
        if anthropic_log::is(value) {
            return Some(Self::Anthropic);
        }
        openai_log::is(value).then_some(Self::OpenAi)
    }

    fn messages(self, line: &Line) -> Result<Vec<Message>, RecordError> {
        match self {
            Self::OpenAi => openai_log::messages(line),
            Self::Anthropic => anthropic_log::messages(line),
        }
    }
}

/// The body of an exchange's half: `request` itself, or its member `body`, which may be JSON text.
pub(super) fn body<'v>(value: &'v Value, half: &str) -> Option<&'v Value> {
    let half = value.get(half)?;
    Some(half.get("body").unwrap_or(half))
}

/// An answer that is an error has nothing to judge.
pub(super) fn no_failure(response: &Value) -> Result<(), String> {
    match response {
        Value::Object(fields) if fields.get("error").is_some_and(|error| !error.is_null()) => {
            Err("`response` is an error of the provider; leave such lines out".to_owned())
        }
        Value::Object(_) => Ok(()),
        _ => Err(
            "`response` is not an object: the whole answer is needed, not the events of a stream"
                .to_owned(),
        ),
    }
}

/// The runs of several files, in the order in which they began.
///
/// # Errors
/// A line that is no conversation; its field is named.
pub fn runs(files: &[PathBuf], api: Api) -> Result<Vec<Run>, RecordError> {
    let mut conversations = Conversations::default();
    for file in files {
        for line in Lines::open(file)? {
            conversations.add(&line?, api, file)?;
        }
    }
    Ok(conversations.runs)
}

/// Conversations, each as far as it got.
#[derive(Default)]
pub struct Conversations {
    runs: Vec<Run>,
    /// Which of them another exchange may continue.
    open: Vec<bool>,
}

impl std::fmt::Debug for Conversations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversations")
            .field("runs", &self.runs.len())
            .finish_non_exhaustive()
    }
}

impl Conversations {
    /// Adds a line: another conversation, or one more turn of one.
    ///
    /// # Errors
    /// It is none.
    pub fn add(&mut self, line: &Line, api: Api, file: &Path) -> Result<(), RecordError> {
        let messages = api.messages(line)?;
        let answered = body(&line.value, "response").is_some();
        let continued = self.runs.iter_mut().zip(&self.open).rev().take(OPEN);
        let continued = continued
            .filter(|(_, open)| answered && **open)
            .map(|(run, _)| run)
            .find(|run| {
                let before = &run.trajectory.messages;
                messages.len() > before.len() && messages.starts_with(before)
            });
        if let Some(run) = continued {
            run.trajectory.messages = messages;
            return Ok(());
        }
        self.open.push(answered);
        // What came before the first answer that the log has was judged by nobody here.
        let judged_from = if answered {
            messages.len().saturating_sub(1)
        } else {
            0
        };
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let number = self.runs.len() + 1;
        self.runs.push(Run {
            trajectory: Trajectory {
                line: line.number,
                suite: "log".to_owned(),
                pipeline: name.unwrap_or_default(),
                user_task: format!("conversation_{number}"),
                injection_task: None,
                attack: None,
                kind: Kind::Benign,
                messages,
                utility: None,
                security: None,
                injections: BTreeMap::new(),
                error: None,
            },
            attack_calls: HashSet::new(),
            judged_from,
        });
        Ok(())
    }

    /// Every conversation.
    pub fn into_runs(self) -> Vec<Run> {
        self.runs
    }
}
