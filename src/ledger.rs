//! Facts that live as long as a session: counts and sums that rules may ask for, bounded in memory.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::names::SessionKey;

/// Remembers facts per session. Implementations are shared by all requests and bound their memory.
pub trait Ledger: Send + Sync {
    /// Adds to a named count of the session and returns the new value.
    fn add(&self, session: &SessionKey, fact: &'static str, amount: u64) -> u64;

    /// A named count of the session; 0 where it was never written.
    fn get(&self, session: &SessionKey, fact: &'static str) -> u64;
}

/// A ledger in memory that forgets the sessions touched longest ago once `capacity` is reached.
#[derive(Debug)]
pub struct MemoryLedger {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock: u64,
    sessions: HashMap<SessionKey, (u64, HashMap<&'static str, u64>)>,
}

impl MemoryLedger {
    /// A ledger for at most `capacity` sessions.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    fn add(&self, session: &SessionKey, fact: &'static str, amount: u64) -> u64 {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        if state.sessions.len() >= self.capacity && !state.sessions.contains_key(session) {
            let oldest = state
                .sessions
                .iter()
                .min_by_key(|(_, (touched, _))| *touched)
                .map(|(key, _)| key.clone());
            oldest.map(|key| state.sessions.remove(&key));
        }
        let (touched, facts) = state.sessions.entry(session.clone()).or_default();
        *touched = now;
        let count = facts.entry(fact).or_default();
        *count = count.saturating_add(amount);
        *count
    }

    fn get(&self, session: &SessionKey, fact: &'static str) -> u64 {
        self.lock()
            .sessions
            .get(session)
            .and_then(|(_, facts)| facts.get(fact))
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_touched_longest_ago_goes_first() {
        let ledger = MemoryLedger::new(2);
        let [a, b, c] = ["a", "b", "c"].map(SessionKey::from);
        ledger.add(&a, "calls", 1);
        ledger.add(&b, "calls", 1);
        assert_eq!(ledger.add(&a, "calls", 2), 3);
        ledger.add(&c, "calls", 1);
        assert_eq!(ledger.get(&a, "calls"), 3);
        assert_eq!(ledger.get(&b, "calls"), 0);
    }
}
