//! Every kind of recording as exchanges.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::drive::answer;
use super::super::{Format, ReadError, Run, read};
use crate::eval::import::ImportError;
use crate::eval::import::agentdojo::record::{Message, RecordError};
use crate::eval::import::lines::Lines;
use crate::eval::import::recording;
use crate::record::{Answered, Asked, Content, Exchange, VERSION, Who};

/// An exchange with a name for people.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// Its id; of an imported conversation file and line.
    pub(super) name: String,
    /// The exchange.
    pub(super) exchange: Exchange,
    /// Nobody judged it when it was recorded.
    pub(super) imported: bool,
}

impl Told {
    /// A part of it was not written.
    pub(super) fn incomplete(&self) -> bool {
        let part = |content: &Content, replaced: usize| {
            replaced > 0 || matches!(content, Content::Withheld(_))
        };
        let Exchange {
            request, answer, ..
        } = &self.exchange;
        let answer = answer
            .as_ref()
            .is_some_and(|answer| part(&answer.content, answer.replaced));
        part(&request.content, request.replaced) || answer
    }
}

/// Every exchange of the files, in order.
pub(super) fn exchanges(files: &[PathBuf]) -> Result<Vec<Told>, ReadError> {
    let mut told = Vec::new();
    let mut others = Vec::new();
    for file in files {
        match Format::of(file).map_err(ImportError::from)? {
            None => {}
            Some(Format::Holdpoint) => told.extend(holdpoint(file)?),
            Some(Format::InjecAgent) => others.push(file.clone()),
            Some(_) => {
                let runs = read(std::slice::from_ref(file))?;
                told.extend(conversations(&runs, &file.display().to_string()));
            }
        }
    }
    if !others.is_empty() {
        told.extend(conversations(&read(&others)?, "injecagent"));
    }
    Ok(told)
}

fn holdpoint(file: &Path) -> Result<Vec<Told>, ReadError> {
    let lines = Lines::open(file).map_err(ImportError::from)?;
    let each = lines.map(|line| {
        let exchange = recording::exchange(line?)?;
        Ok(Told {
            name: exchange.id.clone(),
            exchange,
            imported: false,
        })
    });
    let each: Result<Vec<_>, RecordError> = each.collect();
    Ok(each.map_err(ImportError::from)?)
}

/// Each answer of the model that is judged, after what came before it.
fn conversations(runs: &[Run], file: &str) -> Vec<Told> {
    let mut told = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let mut conversation: Vec<Value> = Vec::new();
        for (at, message) in run.trajectory.messages.iter().enumerate() {
            let turn = |role: &str, text: &str| json!({"role": role, "content": text});
            match message {
                Message::System(text) => conversation.push(turn("system", text)),
                Message::User(text) => conversation.push(turn("user", text)),
                Message::Output(output) => conversation.push(json!({
                    "role": "tool", "tool_call_id": output.call,
                    "content": match &output.error {
                        Some(error) if output.text.is_empty() => error,
                        _ => &output.text,
                    },
                })),
                Message::Assistant { text, calls } => {
                    let said = answer(text, calls.iter());
                    let last = at + 1 == run.trajectory.messages.len();
                    if at >= run.judged_from && (last || !calls.is_empty()) {
                        let body = said.whole();
                        told.push(Told {
                            name: format!("{file}:{}", run.trajectory.line),
                            exchange: asked(
                                number,
                                file,
                                &conversation,
                                &String::from_utf8_lossy(&body),
                            ),
                            imported: true,
                        });
                    }
                    conversation.push(said.message());
                }
            }
        }
    }
    told
}

fn asked(run: usize, file: &str, conversation: &[Value], answer: &str) -> Exchange {
    let request = json!({"model": "recorded", "messages": conversation});
    let json = || "application/json".to_owned();
    Exchange {
        holdpoint_recording: VERSION,
        id: String::new(),
        policy: String::new(),
        route: "imported".to_owned(),
        protocol: "openai_chat".to_owned(),
        principal: Who {
            tenant: "recorded".to_owned(),
            subject: "user".to_owned(),
            agent: "agent".to_owned(),
            scopes: Vec::new(),
        },
        session: Some(format!("{file}-{run}")),
        request: Asked {
            method: "POST".to_owned(),
            path: "/chat/completions".to_owned(),
            headers: BTreeMap::from([("content-type".to_owned(), json())]),
            content: Content::Body(request.to_string()),
            replaced: 0,
        },
        answer: Some(Answered {
            status: 200,
            content_type: Some(json()),
            content: Content::Body(answer.to_owned()),
            replaced: 0,
        }),
        refused: None,
        judged: Vec::new(),
    }
}
