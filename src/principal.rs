//! On whose behalf the agent acts, and in which session.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::SessionKey;

/// On whose behalf a call is made: the end user, the tenant and the agent that asks.
///
/// Identity is (`tenant`, `issuer`, `subject`); `agent` and `scopes` qualify it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The customer of the platform; two tenants never share a ticket.
    pub tenant: Arc<str>,
    /// Who vouches for the subject: `config` for a fixed or mapped one.
    pub issuer: Arc<str>,
    /// The end user.
    pub subject: Arc<str>,
    /// The agent or client id.
    pub agent: Arc<str>,
    /// Who acts for the end user, the nearest first: subjects of the same issuer (RFC 8693 section 4.1). Empty where the user's
    /// own credential came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<Arc<str>>,
    /// What the principal may do, as granted by its token or the config.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<Arc<str>>,
}

/// An end user, whatever the agent and the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// The customer of the platform.
    pub tenant: Arc<str>,
    /// Who vouches for the subject.
    pub issuer: Arc<str>,
    /// The end user.
    pub subject: Arc<str>,
}

impl Who {
    /// The end user of a principal.
    pub fn of(principal: &Principal) -> Self {
        Self {
            tenant: Arc::clone(&principal.tenant),
            issuer: Arc::clone(&principal.issuer),
            subject: Arc::clone(&principal.subject),
        }
    }
}

/// One conversation of one principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Set by a header, by the MCP session or by config; `None` where nothing ties calls together.
    pub key: Option<SessionKey>,
    /// On whose behalf.
    pub principal: Arc<Principal>,
    /// What the caller's token says of its own use; `None` where the principal came without one.
    pub grant: Option<Arc<Grant>>,
}

impl Session {
    /// A session of a principal that came without a token.
    pub const fn new(key: Option<SessionKey>, principal: Arc<Principal>) -> Self {
        Self {
            key,
            principal,
            grant: None,
        }
    }
}

/// What a verified token says of its own use, beside who it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// From then on it is no longer good: its expiry and the leeway for clocks.
    pub until: Timestamp,
    /// The session that it was issued for; `None` where it names none.
    pub session: Option<SessionKey>,
}
