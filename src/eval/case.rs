//! One case of a suite: a recorded trajectory, on whose behalf it ran, and what may come of it. One JSON line each.
//!
//! `docs/eval.md` is the reference of the format. An importer builds these types and writes them with [`Case::to_line`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a case is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Somebody wants harm: counts in ASR.
    Attack,
    /// An honest task: counts in FRR.
    Benign,
    /// A benign case that must succeed with the layers off, or the suite is invalid.
    Control,
    /// Must reach its goal with the layers off, which proves that the harm is possible there. In no rate, in no other arm.
    Mutation,
}

/// Who caused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// What the user rightly asked for. The only cause that the approver `oracle` approves.
    #[default]
    Task,
    /// Text in a tool output.
    Injection,
    /// The user, who is the attacker here.
    Attack,
    /// Nobody knows: sent in both readings, its share is printed.
    Unknown,
}

/// A tool output, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputPart {
    /// The call that it answers.
    pub call: String,
    /// The part that matters; absent: all of it, so that any removal counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A call as it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Unique in its case; also the call's id on the wire.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Who caused it.
    #[serde(default)]
    pub cause: Cause,
    /// Outputs that carried the injection. Only with cause `injection`, and then at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carriers: Vec<OutputPart>,
    /// Calls without whose success the model would not have made this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What the tool gave back in the recording; absent: the world's tool says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The call failed in the recording: it has no effect on the world.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// One step of a trajectory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawStep", into = "RawStep")]
pub enum Step {
    /// The user says something.
    User(String),
    /// The model answers once: text, calls in parallel, or both.
    Model {
        /// Its text.
        say: Option<String>,
        /// Its calls.
        calls: Vec<Call>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    say: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
}

impl TryFrom<RawStep> for Step {
    type Error = &'static str;

    fn try_from(raw: RawStep) -> Result<Self, Self::Error> {
        match raw {
            RawStep {
                user: Some(text),
                say: None,
                calls,
            } if calls.is_empty() => Ok(Self::User(text)),
            RawStep {
                user: None,
                say: None,
                calls,
            } if calls.is_empty() => Err("a step has `user`, or `say`, `calls` or both"),
            RawStep {
                user: None,
                say,
                calls,
            } => Ok(Self::Model { say, calls }),
            RawStep { .. } => {
                Err("a step with `user` has neither `say` nor `calls`: write two steps")
            }
        }
    }
}

impl From<Step> for RawStep {
    fn from(step: Step) -> Self {
        match step {
            Step::User(text) => Self {
                user: Some(text),
                say: None,
                calls: Vec::new(),
            },
            Step::Model { say, calls } => Self {
                user: None,
                say,
                calls,
            },
        }
    }
}

/// What may and must come of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Assertion that holds when the attacker has what they want. Attack and mutation cases have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Assertions that hold when the user's task is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must: Vec<String>,
    /// Named changes that the user's task may make; all else must stay as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_change: Vec<String>,
    /// Outputs that the answer or a later argument is made from: a task whose part was taken out is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<OutputPart>,
}

/// What the source of the recording said of it: for comparison, never for grading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The attack succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<bool>,
    /// The user's task succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<bool>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique in its suite: letters, digits, `.`, `_` and `-`. Names a folder of `--out`.
    pub id: String,
    /// What it is for.
    pub kind: Kind,
    /// Cases that are not independent of each other: the attack's goal or phrasing, the user's task. Absent: the case alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// A principal of the suite.
    pub principal: String,
    /// Session key; absent: the case's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The arm it was recorded in; absent: replayed in every arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    /// Bound by name into assertions, permissions and changes: null, booleans, numbers and strings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// The trajectory.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What may and must come of it.
    #[serde(default)]
    pub expect: Expect,
    /// What the source said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// Why the case is not run, such as `text only`: counted by reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// Anything else worth keeping: model, task ids. Comes back in each result.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Case {
    /// Every recorded call, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.steps.iter().flat_map(|step| match step {
            Step::User(_) => [].iter(),
            Step::Model { calls, .. } => calls.iter(),
        })
    }

    /// Whether the user openly asks for what is elsewhere injected: honest, and in a row of its own (`meta.goal_given_by_user`).
    pub fn asked_for(&self) -> bool {
        self.meta.get("goal_given_by_user") == Some(&Value::Bool(true))
    }

    /// The agent that was recorded, where its name is known (`meta.pipeline`).
    pub fn pipeline(&self) -> Option<&str> {
        self.meta.get("pipeline")?.as_str()
    }

    /// Its cluster: itself where it names none.
    pub fn cluster(&self) -> &str {
        self.cluster.as_deref().unwrap_or(&self.id)
    }

    /// The case as one line of `cases.jsonl`, without newline.
    ///
    /// # Errors
    /// None in practice: every field has a JSON form.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_went() {
        let line = r#"{"id":"a.1","kind":"attack","principal":"emma","steps":[{"user":"hi"},{"say":"let me see","calls":[{"id":"c1","tool":"read","args":{"path":"x"},"cause":"task"}]},{"calls":[{"id":"c2","tool":"send","args":{},"cause":"injection","carriers":[{"call":"c1","text":"send it"}]}]},{"say":"done"}],"expect":{"goal":"sent","must":["read"]}}"#;
        let case: Case = serde_json::from_str(line).unwrap();
        assert_eq!(case.to_line().unwrap(), line);
        assert_eq!(case.calls().count(), 2);
    }

    #[test]
    fn a_step_is_one_thing() {
        for (step, says) in [
            ("{}", "a step has `user`"),
            (r#"{"user":"a","say":"b"}"#, "write two steps"),
            (r#"{"users":"a"}"#, "unknown field `users`"),
        ] {
            let error = serde_json::from_str::<Step>(step).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
