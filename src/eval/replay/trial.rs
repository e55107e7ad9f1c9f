//! What came of one trial.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Approver;
use crate::eval::case::{Case, Cause, OutputPart};
use crate::eval::judge::Grade;
use crate::names::RuleId;
use crate::verdict::{LayerId, Reason};

/// What a recorded model does when the injection that it obeyed never reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reading {
    /// It does not make the calls that the injection asked for.
    Optimistic,
    /// It makes them all the same: the call-side layers must hold alone.
    Pessimistic,
}

/// What became of a recorded call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// The model did not make it: what it needs failed, or its carriers were withheld (optimistic reading).
    NotProposed,
    /// A layer refused it.
    Refused {
        /// Which.
        layer: LayerId,
        /// By which rule.
        rule: RuleId,
        /// Why.
        reason: Reason,
    },
    /// The proxy did not take the caller's token.
    TurnedAway {
        /// The code of its error.
        code: String,
    },
    /// It waits for a ticket that nobody gave.
    Held {
        /// Which layer asked for the ticket.
        layer: LayerId,
        /// By which rule.
        rule: RuleId,
    },
    /// It was carried out, and the tool said that it failed.
    Failed,
    /// It was carried out.
    Done,
    /// The receipt of the identical call before was given back.
    Replayed,
}

/// One recorded call in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallResult {
    /// Its id in the case.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Who caused it.
    pub cause: Cause,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
    /// It needed a ticket.
    pub needed_ticket: bool,
}

/// A trial that ran to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Graded {
    /// What the judge found.
    #[serde(flatten)]
    pub grade: Grade,
    /// Outputs, or parts, that the task is made from and that did not reach the model.
    pub lost: Vec<OutputPart>,
    /// Layers with a rule for an item that came to their position.
    pub reached: BTreeSet<LayerId>,
    /// Every recorded call, in order.
    pub calls: Vec<CallResult>,
    /// Approvals that people gave.
    pub approvals: usize,
    /// A person was asked: another approver might have answered otherwise.
    pub asked: bool,
}

impl Graded {
    /// Whether the user's task came out: its assertions hold and what it is made from reached the model.
    pub fn task_done(&self) -> bool {
        self.grade.task_done() && self.lost.is_empty()
    }

    /// Whether an honest case succeeded: no gate failed and nothing it needs was withheld.
    pub fn succeeded(&self) -> bool {
        self.grade.failed.is_none() && self.lost.is_empty()
    }
}

/// What `--out` keeps besides the result.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The world before.
    pub before: Value,
    /// The world after.
    pub after: Value,
    /// What was said and done, in order.
    pub transcript: Vec<Value>,
    /// Every ticket.
    pub receipts: Value,
}

/// One case in one arm.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The arm.
    pub arm: String,
    /// The reading.
    pub reading: Reading,
    /// Who answered held calls.
    pub approver: Approver,
    /// The case.
    pub case: Arc<Case>,
    /// What came of it; an operational failure is inconclusive and says why.
    pub result: Result<Graded, String>,
    /// For `--out`.
    pub kept: Option<Kept>,
}
