//! Whose a session of an upstream is: the one who opened or first used it, and nobody else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::names::RouteName;
use crate::principal::Principal;

/// Most sessions that are known; the oldest is forgotten first.
const MOST: usize = 1 << 16;

#[derive(PartialEq, Eq)]
struct Owner {
    tenant: Arc<str>,
    issuer: Arc<str>,
    subject: Arc<str>,
}

type Key = (RouteName, Arc<str>);

#[derive(Default)]
struct Known {
    owners: HashMap<Key, Owner>,
    order: VecDeque<Key>,
}

/// The sessions of every route.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Known>);

impl Sessions {
    /// Whether the session is the principal's; one that nobody has used becomes so.
    pub(super) fn admits(&self, route: &RouteName, session: &str, principal: &Principal) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (route.clone(), Arc::from(session));
        let owner = Owner {
            tenant: Arc::clone(&principal.tenant),
            issuer: Arc::clone(&principal.issuer),
            subject: Arc::clone(&principal.subject),
        };
        if let Some(known) = known.owners.get(&key) {
            return *known == owner;
        }
        if known.order.len() >= MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.owners.remove(&oldest);
        }
        known.order.push_back(key.clone());
        known.owners.insert(key, owner);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn principal(subject: &str) -> Principal {
        Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: subject.into(),
            agent: "a".into(),
            actors: Vec::new(),
            scopes: BTreeSet::new(),
        }
    }

    #[test]
    fn a_session_is_of_the_first_on_its_route() {
        let sessions = Sessions::default();
        let (a, b) = (RouteName::from("a"), RouteName::from("b"));
        let (ann, bob) = (principal("ann"), principal("bob"));
        assert!(sessions.admits(&a, "s", &ann));
        assert!(sessions.admits(&a, "s", &ann));
        assert!(!sessions.admits(&a, "s", &bob));
        assert!(sessions.admits(&b, "s", &bob));
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let sessions = Sessions::default();
        let route = RouteName::from("a");
        let (ann, bob) = (principal("ann"), principal("bob"));
        for n in 0..=MOST {
            assert!(sessions.admits(&route, &n.to_string(), &ann));
        }
        assert!(!sessions.admits(&route, "1", &bob));
        assert!(sessions.admits(&route, "0", &bob));
    }
}
