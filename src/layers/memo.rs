//! Answers of look-ups within one exchange: the same question with the same values is asked once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::support::Answer;

/// Answers that one exchange keeps; further ones are asked for each time.
const KEPT: usize = 4_096;

/// Lives as long as the judging of one exchange, and never longer: an owner may change.
#[derive(Default)]
pub struct Memo {
    answers: Mutex<HashMap<String, Result<Arc<Answer>, String>>>,
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

impl Memo {
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
