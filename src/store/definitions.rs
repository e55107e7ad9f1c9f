//! Definitions of tools as they were last offered: a ticket is bound to the one that its approver could know.
//!
//! What an agent is offered is kept for its principal, since a server may offer each something else; what a document describes
//! holds for everybody. Kept in memory. After a restart nothing is known until a list of tools passes again, and what is not
//! known has not changed: only two definitions that both were seen and differ are a change.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::names::{RouteName, ToolName};
use crate::principal::Principal;
use crate::store::tickets::digest::sha256_hex;
use crate::wire::json::{BODY_DEPTH, Document};

/// Definitions that are kept; the one seen first makes room.
const KEPT: usize = 50_000;

/// For whom, where, and what.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    route: RouteName,
    tool: ToolName,
    tenant: Arc<str>,
    issuer: Arc<str>,
    subject: Arc<str>,
    agent: Arc<str>,
}

impl Key {
    fn new(route: &RouteName, principal: &Principal, tool: &ToolName) -> Self {
        Self {
            route: route.clone(),
            tool: tool.clone(),
            tenant: Arc::clone(&principal.tenant),
            issuer: Arc::clone(&principal.issuer),
            subject: Arc::clone(&principal.subject),
            agent: Arc::clone(&principal.agent),
        }
    }
}

/// One definition.
struct Seen {
    /// SHA-256 of the bytes as they came: the same bytes need not be read again.
    raw: String,
    hash: Arc<str>,
}

#[derive(Default)]
struct Offered {
    by: HashMap<Key, Seen>,
    order: VecDeque<Key>,
}

/// See the module.
#[derive(Default)]
pub struct Definitions {
    described: HashMap<(RouteName, ToolName), Arc<str>>,
    offered: Mutex<Offered>,
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions")
            .field("described", &self.described.len())
            .finish_non_exhaustive()
    }
}

impl Definitions {
    /// With what documents of the config describe: the route, the tool, and the hash of its definition.
    pub fn described(by: impl IntoIterator<Item = (RouteName, ToolName, Arc<str>)>) -> Self {
        let by = by.into_iter();
        Self {
            described: by
                .map(|(route, tool, hash)| ((route, tool), hash))
                .collect(),
            offered: Mutex::default(),
        }
    }

    /// A definition that passed to, or came with, an agent of this principal. `source` is its JSON.
    pub fn offer(&self, route: &RouteName, principal: &Principal, tool: &ToolName, source: &Bytes) {
        let raw = sha256_hex(source);
        let key = Key::new(route, principal, tool);
        let known = |offered: &Offered| offered.by.get(&key).is_some_and(|seen| seen.raw == raw);
        if known(&self.lock()) {
            return;
        }
        let Some(hash) = hash(source) else { return };
        let mut offered = self.lock();
        let seen = Seen { raw, hash };
        if offered.by.insert(key.clone(), seen).is_none() {
            offered.order.push_back(key);
            if offered.order.len() > KEPT
                && let Some(oldest) = offered.order.pop_front()
            {
                offered.by.remove(&oldest);
            }
        }
    }

    /// Lower-case hex of the SHA-256 of the definition's canonical JSON, as last seen; `None`: it was not.
    pub fn of(
        &self,
        route: &RouteName,
        principal: &Principal,
        tool: &ToolName,
    ) -> Option<Arc<str>> {
        let described = self.described.get(&(route.clone(), tool.clone()));
        described.map(Arc::clone).or_else(|| {
            let offered = self.lock();
            let seen = offered.by.get(&Key::new(route, principal, tool))?;
            Some(Arc::clone(&seen.hash))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Offered> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hash of a definition: the same for other white space and order of keys. `None` where it is no strict JSON.
pub fn hash(source: &Bytes) -> Option<Arc<str>> {
    let document = Document::read(source.clone(), BODY_DEPTH).ok()?;
    let (value, _) = document.value(document.root()).ok()?;
    hash_of(&value)
}

/// As [`hash`], of JSON that was read already.
pub fn hash_of(definition: &serde_json::Value) -> Option<Arc<str>> {
    let canonical = serde_json_canonicalizer::to_vec(definition).ok()?;
    Some(Arc::from(sha256_hex(&canonical)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Principal {
        Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: "ann".into(),
            agent: "bot".into(),
            actors: Vec::new(),
            scopes: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn the_whole_definition_counts_and_its_spelling_does_not() {
        let known = Definitions::default();
        let (route, tool) = (RouteName::from("mcp"), ToolName::from("pay"));
        let offer = |json: &'static str| {
            known.offer(&route, &ann(), &tool, &Bytes::from_static(json.as_bytes()));
            known.of(&route, &ann(), &tool).unwrap()
        };
        assert_eq!(known.of(&route, &ann(), &tool), None);
        let first = offer(r#"{"name": "pay", "inputSchema": {"maximum": 10, "required": ["a"]}}"#);
        let same = offer(r#"{"inputSchema":{"required":["a"],"maximum":1e1},"name":"pay"}"#);
        assert_eq!(first, same);
        let looser = offer(r#"{"name": "pay", "inputSchema": {"maximum": 11, "required": ["a"]}}"#);
        assert_ne!(first, looser);
        let bob = Principal {
            subject: "bob".into(),
            ..ann()
        };
        assert_eq!(known.of(&route, &bob, &tool), None);
        assert_eq!(known.of(&RouteName::from("other"), &ann(), &tool), None);
    }

    #[test]
    fn what_a_document_describes_holds_for_everybody() {
        let (route, tool) = (RouteName::from("api"), ToolName::from("pay"));
        let hash: Arc<str> = Arc::from("00");
        let known = Definitions::described([(route.clone(), tool.clone(), Arc::clone(&hash))]);
        known.offer(&route, &ann(), &tool, &Bytes::from_static(b"{}"));
        assert_eq!(known.of(&route, &ann(), &tool), Some(hash));
    }
}
