//! What lives as long as the judging of one exchange: answers of look-ups, so that the same question with the same values is
//! asked once, and what its texts have said so far, so that the later ones are judged by the earlier.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::catalog::Worst;
use super::injection::{Placed, Recall, Recalls, ToolNames};
use super::support::Answer;
use crate::item::Exchange;
use crate::principal::Session;

/// Answers that one exchange keeps; further ones are asked for each time.
const KEPT: usize = 4_096;

/// Lives as long as the judging of one exchange, and never longer: an owner may change.
#[derive(Default)]
pub struct Memo {
    answers: Mutex<HashMap<String, Result<Arc<Answer>, String>>>,
    recall: Mutex<Recall>,
    blocked: Mutex<HashMap<Option<Arc<str>>, Option<Placed>>>,
    worst: OnceLock<Worst>,
    tools: OnceLock<ToolNames>,
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

impl Memo {
    /// Goes on from what earlier exchanges of the session said.
    pub(crate) fn after(recalls: &Recalls, session: &Session) -> Self {
        Self {
            recall: Mutex::new(recalls.of(session)),
            ..Self::default()
        }
    }

    /// Keeps what the session has said by now.
    pub(crate) fn hand_over(self, recalls: &Recalls, exchange: &Exchange) {
        let recall = self.recall.into_inner();
        let mut recall = recall.unwrap_or_else(PoisonError::into_inner);
        recall.learn(exchange);
        recalls.keep(&exchange.session, recall);
    }

    /// Names of the session's tools, where some are known that tell anything.
    pub(super) fn tools(&self, exchange: &Exchange) -> Option<&ToolNames> {
        let names = self.tools.get_or_init(|| self.recall().names(exchange));
        (!names.is_empty()).then_some(names)
    }

    /// What the texts before this one said.
    pub(super) fn recall(&self) -> MutexGuard<'_, Recall> {
        self.recall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the worst of the definitions comes to, found once.
    pub(super) fn worst_definition(&self, find: impl FnOnce() -> Worst) -> Worst {
        *self.worst.get_or_init(find)
    }

    /// What is blocked in the result of a call, found once.
    pub(super) fn blocked(
        &self,
        call: Option<&Arc<str>>,
        find: impl FnOnce() -> Option<Placed>,
    ) -> Option<Placed> {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.entry(call.cloned()).or_insert_with(find).clone()
    }

    pub(super) fn get(&self, key: &str) -> Option<Result<Arc<Answer>, String>> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).cloned()
    }

    /// A failure is kept too: a store that is down is not waited for again and again.
    pub(super) fn keep(&self, key: String, answer: Result<Arc<Answer>, String>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() < KEPT {
            answers.insert(key, answer);
        }
    }
}
