//! Definitions of tools as they were last offered: a ticket is bound to the one that its approver could know.
//!
//! What an agent is offered is kept for its session, since a server may offer each client something else: two clients of one user
//! say nothing of each other's tools. What a document describes holds for everybody. Kept in memory. After a restart nothing is known until a list of tools passes again, and what is not
//! known has not changed: only two definitions that both were seen and differ are a change.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use crate::generations::Generations;
use crate::names::{RouteName, SessionKey, ToolName};
use crate::principal::{Session, Who};
use crate::store::tickets::digest::sha256_hex;
use crate::wire::json::{BODY_DEPTH, Document};

/// Definitions that are kept. The one seen first makes room, of the user who has most: nobody drives out others'.
const KEPT: usize = 50_000;

/// Hashes by the bytes that they are of, in two generations: every client of a tool is offered the same bytes, with each turn.
const HASHED: usize = 8_192;

/// SHA-256 of bytes as they came: the same bytes need not be read again.
type Raw = [u8; 32];

static KNOWN: LazyLock<Mutex<Generations<Raw, Arc<str>>>> = LazyLock::new(Mutex::default);

/// As [`hash`], of bytes some of which came before.
fn known_hash(raw: &Raw, source: &Bytes) -> Option<Arc<str>> {
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = known().get(raw, HASHED) {
        return Some(hash);
    }
    let hash = hash(source)?;
    known().keep(*raw, Arc::clone(&hash), HASHED);
    Some(hash)
}

/// Where, in which session of a user, and what.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    route: RouteName,
    tool: ToolName,
    agent: Arc<str>,
    session: Option<SessionKey>,
}

impl Key {
    fn new(route: &RouteName, session: &Session, tool: &ToolName) -> Self {
        Self {
            route: route.clone(),
            tool: tool.clone(),
            agent: Arc::clone(&session.principal.agent),
            session: session.key.clone(),
        }
    }
}

/// One definition.
struct Seen {
    /// Of the bytes as they came.
    raw: Raw,
    hash: Arc<str>,
}

/// One user's.
#[derive(Default)]
struct Own {
    by: HashMap<Key, Seen>,
    order: VecDeque<Key>,
}

#[derive(Default)]
struct Offered {
    to: HashMap<Who, Own>,
    kept: usize,
}

impl Offered {
    fn seen(&self, who: &Who, key: &Key) -> Option<&Seen> {
        self.to.get(who)?.by.get(key)
    }

    fn keep(&mut self, who: Who, key: Key, seen: Seen, most: usize) {
        let own = self.to.entry(who).or_default();
        if own.by.insert(key.clone(), seen).is_some() {
            return;
        }
        own.order.push_back(key);
        self.kept += 1;
        if self.kept > most {
            self.forget_one();
        }
    }

    fn forget_one(&mut self) {
        let largest = self.to.iter_mut().max_by_key(|(_, own)| own.by.len());
        if let Some((who, own)) = largest
            && let Some(oldest) = own.order.pop_front()
        {
            own.by.remove(&oldest);
            self.kept -= 1;
            if own.by.is_empty() {
                let who = who.clone();
                self.to.remove(&who);
            }
        }
    }
}

/// See the module.
pub struct Definitions {
    described: HashMap<(RouteName, ToolName), Arc<str>>,
    most: usize,
    offered: Mutex<Offered>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self::described([])
    }
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
            most: KEPT,
            offered: Mutex::default(),
        }
    }

    /// A definition that passed to, or came with, an agent in this session. `source` is its JSON.
    pub fn offer(&self, route: &RouteName, session: &Session, tool: &ToolName, source: &Bytes) {
        let Ok(raw) = Raw::try_from(digest(&SHA256, source).as_ref()) else {
            return;
        };
        let (who, key) = (Who::of(&session.principal), Key::new(route, session, tool));
        let known =
            |offered: &Offered| offered.seen(&who, &key).is_some_and(|seen| seen.raw == raw);
        if known(&self.lock()) {
            return;
        }
        let Some(hash) = known_hash(&raw, source) else {
            return;
        };
        self.lock().keep(who, key, Seen { raw, hash }, self.most);
    }

    /// Lower-case hex of the SHA-256 of the definition's canonical JSON, as last seen; `None`: it was not.
    pub fn of(&self, route: &RouteName, session: &Session, tool: &ToolName) -> Option<Arc<str>> {
        let described = self.described.get(&(route.clone(), tool.clone()));
        described.map(Arc::clone).or_else(|| {
            let offered = self.lock();
            let key = Key::new(route, session, tool);
            let seen = offered.seen(&Who::of(&session.principal), &key)?;
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
    use crate::principal::Principal;

    fn session(subject: &str, key: &str) -> Session {
        let principal = Principal {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: subject.into(),
            agent: "bot".into(),
            actors: Vec::new(),
            scopes: std::collections::BTreeSet::new(),
        };
        Session::new(Some(SessionKey::from(key)), Arc::new(principal))
    }

    #[test]
    fn the_whole_definition_counts_and_its_spelling_does_not() {
        let known = Definitions::default();
        let (route, tool) = (RouteName::from("mcp"), ToolName::from("pay"));
        let ann = session("ann", "one");
        let offer = |json: &'static str| {
            known.offer(&route, &ann, &tool, &Bytes::from_static(json.as_bytes()));
            known.of(&route, &ann, &tool).unwrap()
        };
        assert_eq!(known.of(&route, &ann, &tool), None);
        let first = offer(r#"{"name": "pay", "inputSchema": {"maximum": 10, "required": ["a"]}}"#);
        let same = offer(r#"{"inputSchema":{"required":["a"],"maximum":1e1},"name":"pay"}"#);
        assert_eq!(first, same);
        let looser = offer(r#"{"name": "pay", "inputSchema": {"maximum": 11, "required": ["a"]}}"#);
        assert_ne!(first, looser);
        // What somebody else is offered, or another client of hers, says nothing of this one.
        for other in [session("bob", "one"), session("ann", "two")] {
            assert_eq!(known.of(&route, &other, &tool), None);
            known.offer(&route, &other, &tool, &Bytes::from_static(b"{}"));
            assert_eq!(known.of(&route, &ann, &tool), Some(Arc::clone(&looser)));
        }
        assert_eq!(known.of(&RouteName::from("other"), &ann, &tool), None);
    }

    #[test]
    fn who_is_offered_much_forgets_their_own_alone() {
        let known = Definitions {
            most: 10,
            ..Definitions::default()
        };
        let (route, tool) = (RouteName::from("mcp"), ToolName::from("pay"));
        let offer = |subject: &str, key: &str| {
            let session = session(subject, key);
            known.offer(&route, &session, &tool, &Bytes::from_static(b"{}"));
        };
        offer("ann", "one");
        (0..100).for_each(|n| offer("bob", &n.to_string()));
        let has =
            |subject: &str, key: &str| known.of(&route, &session(subject, key), &tool).is_some();
        assert!(has("ann", "one") && has("bob", "99") && !has("bob", "0"));
        assert_eq!(known.lock().kept, 10);
    }

    #[test]
    fn what_a_document_describes_holds_for_everybody() {
        let (route, tool) = (RouteName::from("api"), ToolName::from("pay"));
        let hash: Arc<str> = Arc::from("00");
        let known = Definitions::described([(route.clone(), tool.clone(), Arc::clone(&hash))]);
        let ann = session("ann", "one");
        known.offer(&route, &ann, &tool, &Bytes::from_static(b"{}"));
        assert_eq!(known.of(&route, &ann, &tool), Some(hash));
    }
}
