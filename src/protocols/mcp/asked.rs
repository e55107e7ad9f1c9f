//! What was asked in which conversation, for answers that come on another stream than the one they were asked on: after a
//! resumption, and always over HTTP with SSE (MCP 2024-11-05).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::names::ToolName;

/// Most conversations of sessions; the oldest goes first.
const CONVERSATIONS: usize = 4096;

/// Most open questions of one conversation; the oldest goes first.
const QUESTIONS: usize = 256;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The method.
    pub(super) method: Box<str>,
    /// The tool, where one is called.
    pub(super) tool: Option<ToolName>,
    /// Whether the revision is stateless.
    pub(super) modern: bool,
    /// What the client gets in place of the server's answer.
    pub(super) instead: Option<Bytes>,
}

/// Which conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The server's session.
    Session(Arc<str>),
    /// Where messages are posted to: path and query below the route's prefix.
    Endpoint(Arc<str>),
}

#[derive(Debug, Default)]
struct Conversation(VecDeque<(Arc<str>, Question)>);

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<Key, Conversation>,
    /// Sessions only: anybody can name as many as they like, which must end nobody's stream.
    sessions: VecDeque<Key>,
}

/// Every conversation of a route.
#[derive(Debug, Default)]
pub(super) struct Conversations(Mutex<Inner>);

impl Conversations {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a conversation. One of an announced endpoint lasts until it is closed, with its stream.
    pub(super) fn open(&self, key: &Key) {
        let mut inner = self.inner();
        if inner.open.contains_key(key) {
            return;
        }
        if matches!(key, Key::Session(_)) {
            if inner.sessions.len() >= CONVERSATIONS
                && let Some(oldest) = inner.sessions.pop_front()
            {
                inner.open.remove(&oldest);
            }
            inner.sessions.push_back(key.clone());
        }
        inner.open.insert(key.clone(), Conversation::default());
    }

    /// Whether there is such a conversation.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.inner().open.contains_key(key)
    }

    /// Ends it.
    pub(super) fn close(&self, key: &Key) {
        let mut inner = self.inner();
        inner.open.remove(key);
        inner.sessions.retain(|other| other != key);
    }

    /// Notes what is asked under this id. An endpoint whose stream has ended stays closed.
    pub(super) fn ask(&self, key: &Key, id: Arc<str>, question: Question) {
        if matches!(key, Key::Session(_)) {
            self.open(key);
        }
        if let Some(Conversation(questions)) = self.inner().open.get_mut(key) {
            questions.retain(|(other, _)| *other != id);
            if questions.len() >= QUESTIONS {
                questions.pop_front();
            }
            questions.push_back((id, question));
        }
    }

    /// What was asked under this id, once.
    pub(super) fn answered(&self, key: &Key, id: &str) -> Option<Question> {
        let mut inner = self.inner();
        let Conversation(questions) = inner.open.get_mut(key)?;
        let at = questions.iter().position(|(other, _)| **other == *id)?;
        questions.remove(at).map(|(_, question)| question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(method: &str) -> Question {
        Question {
            method: method.into(),
            tool: None,
            modern: false,
            instead: None,
        }
    }

    #[test]
    fn an_answer_finds_its_question_once_and_only_in_its_conversation() {
        let all = Conversations::default();
        let (one, two) = (Key::Session("1".into()), Key::Endpoint("1".into()));
        all.ask(&one, "7".into(), question("tools/call"));
        all.open(&two);
        all.ask(&two, "7".into(), question("ping"));
        assert_eq!(all.answered(&one, "\"7\""), None);
        assert_eq!(all.answered(&one, "7"), Some(question("tools/call")));
        assert_eq!(all.answered(&one, "7"), None);
        all.close(&two);
        assert_eq!(all.answered(&two, "7"), None);
    }

    #[test]
    fn neither_conversations_nor_questions_grow_without_end() {
        let all = Conversations::default();
        let key = |n: usize| Key::Session(n.to_string().into());
        for n in 0..=CONVERSATIONS {
            all.open(&key(n));
        }
        assert!(!all.has(&key(0)) && all.has(&key(1)) && all.has(&key(CONVERSATIONS)));
        for n in 0..=QUESTIONS {
            all.ask(&key(1), n.to_string().into(), question("ping"));
        }
        assert_eq!(all.answered(&key(1), "0"), None);
        assert!(all.answered(&key(1), "1").is_some());
    }

    #[test]
    fn invented_sessions_end_no_stream() {
        let all = Conversations::default();
        let endpoints = ["/messages?s=1", "/messages?s=2"].map(|at| Key::Endpoint(at.into()));
        for key in &endpoints {
            all.open(key);
            all.ask(key, "1".into(), question("tools/call"));
        }
        for n in 0..=CONVERSATIONS * 2 {
            all.open(&Key::Session(n.to_string().into()));
        }
        for key in &endpoints {
            assert!(all.has(key));
            assert_eq!(all.answered(key, "1"), Some(question("tools/call")));
        }
    }

    #[test]
    fn an_endpoint_whose_stream_has_ended_stays_closed() {
        let all = Conversations::default();
        let key = Key::Endpoint("/messages?s=1".into());
        all.open(&key);
        all.close(&key);
        all.ask(&key, "1".into(), question("tools/call"));
        assert!(!all.has(&key));
    }
}
