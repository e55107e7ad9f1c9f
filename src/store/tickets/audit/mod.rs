//! The audit: one row for everything that happened to a ticket or mandate, written in the same transaction, each bound to the
//! one before it by its hash.
//!
//! Rows hold digests, ids, states, actors and codes, never arguments.

mod verify;

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use verify::{Broken, Verifier};

use crate::names::{MandateId, TicketId};

/// Separates this hash from every other use of SHA-256.
const DOMAIN: &[u8] = b"holdpoint-audit-v1\0";

/// Actor of what no person did.
pub const ITSELF: &str = "holdpoint";

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Event {
            $($(#[$doc])* $name,)*
        }

        impl Event {
            /// Every event.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in the audit, the webhooks and metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

events! {
    /// A request was made.
    Requested = "requested",
    /// A person answered, and more answers are needed.
    Answered = "answered",
    /// The last approval that was needed.
    Approved = "approved",
    /// A person said no.
    Denied = "denied",
    /// A person took the approval back.
    Revoked = "revoked",
    /// Ran out.
    Expired = "expired",
    /// Withdrawn without an answer.
    Cancelled = "cancelled",
    /// A call took the approval and is on its way.
    Claimed = "claimed",
    /// Provably nothing was sent.
    NotSent = "not_sent",
    /// The upstream answered below 400.
    Succeeded = "succeeded",
    /// The upstream answered 400 or above.
    Failed = "failed",
    /// Nobody knows what came of the call.
    Unknown = "unknown",
    /// It was carried out.
    ResolvedDone = "resolved_done",
    /// It was not carried out.
    ResolvedNotDone = "resolved_not_done",
    /// A mandate was given.
    MandateGranted = "mandate_granted",
    /// A mandate was ended early.
    MandateEnded = "mandate_ended",
    /// A ticket that an orchestrator signed was taken.
    Admitted = "admitted",
    /// Old tickets were removed.
    Pruned = "pruned",
    /// Somebody tried to approve an own request.
    SelfApprovalRefused = "self_approval_refused",
    /// A credential that is no approver's was used where people answer.
    ForeignCredential = "foreign_credential",
}

impl Event {
    /// The event of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|event| event.as_str() == name)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// SHA-256 of a row; all zeros before the first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RowHash([u8; 32]);

impl RowHash {
    /// The hash written as 64 hex digits; `None` where it is something else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for RowHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for RowHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RowHash {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The last row of a chain: where the next one is bound to, and what an operator notes to notice a truncation later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its number; 0 before the first row.
    pub seq: u64,
    /// Its hash.
    pub hash: RowHash,
}

impl Head {
    /// As `SEQ:HASH`, which is how it is printed.
    pub fn from_text(text: &str) -> Option<Self> {
        let (seq, hash) = text.split_once(':')?;
        Some(Self {
            seq: seq.parse().ok()?,
            hash: RowHash::from_hex(hash)?,
        })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// What happened, before it has its place in the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What.
    pub event: Event,
    /// To which ticket.
    pub ticket: Option<TicketId>,
    /// To which mandate.
    pub mandate: Option<MandateId>,
    /// Who did it: a person as recorded, `agent` and the agent's name, or [`ITSELF`].
    pub actor: String,
    /// Digest, ids, states and codes: never arguments. An object.
    pub details: Value,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditRow {
    /// Its number: 1, 2, 3, …
    pub seq: u64,
    /// When, to the microsecond.
    pub at: Timestamp,
    /// What.
    pub event: Event,
    /// To which ticket.
    pub ticket: Option<TicketId>,
    /// To which mandate.
    pub mandate: Option<MandateId>,
    /// Who did it.
    pub actor: String,
    /// More about it.
    pub details: Value,
    /// Hash of the row before.
    pub prev: RowHash,
    /// SHA-256(`"holdpoint-audit-v1\0"` + JCS(all of the above)).
    pub hash: RowHash,
}

/// A row as it is hashed.
#[derive(Serialize)]
struct Hashed<'a> {
    seq: u64,
    at: Timestamp,
    event: Event,
    ticket: Option<&'a TicketId>,
    mandate: Option<&'a MandateId>,
    actor: &'a str,
    details: &'a Value,
    prev: RowHash,
}

impl AuditRow {
    /// The row that follows `head`. `at` must be a moment as the store keeps it: whole microseconds.
    pub fn after(head: Head, at: Timestamp, note: Note) -> Self {
        let mut row = Self {
            seq: head.seq + 1,
            at,
            event: note.event,
            ticket: note.ticket,
            mandate: note.mandate,
            actor: note.actor,
            details: note.details,
            prev: head.hash,
            hash: RowHash::default(),
        };
        row.hash = row.computed();
        row
    }

    /// What its hash must be.
    pub fn computed(&self) -> RowHash {
        let hashed = Hashed {
            seq: self.seq,
            at: self.at,
            event: self.event,
            ticket: self.ticket.as_ref(),
            mandate: self.mandate.as_ref(),
            actor: &self.actor,
            details: &self.details,
            prev: self.prev,
        };
        // Details are values of strict JSON: there is nothing in them that cannot be written.
        let canonical = serde_json_canonicalizer::to_vec(&hashed).unwrap_or_default();
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &[DOMAIN, &canonical].concat()).as_ref());
        RowHash(hash)
    }

    /// Where the next row is bound to.
    pub const fn head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash,
        }
    }
}
