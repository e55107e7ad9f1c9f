//! Who may answer a request, and what stands against it.

use super::TicketError;
use super::digest::MIN_PREFIX;
use super::model::{Ticket, TicketState};
use crate::names::TicketId;
use crate::policy::Gate;

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decider {
    /// Somebody with access to the store's file; the operating system vouches for the name.
    Local(String),
    /// An approver of the config.
    Api {
        /// Subject of the person.
        subject: String,
        /// Roles of the person.
        roles: Vec<String>,
    },
}

impl Decider {
    /// As it is recorded.
    pub fn record(&self) -> String {
        match self {
            Self::Local(name) => format!("local:{name}"),
            Self::Api { subject, .. } => format!("api:{subject}"),
        }
    }
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub ticket: TicketId,
    /// Yes or no. A no also takes back an approval that is not used yet.
    pub approve: bool,
    /// Whose.
    pub by: Decider,
    /// Start of the digest that the person was shown, at least [`MIN_PREFIX`] hex digits. Over the API an approval needs one.
    pub digest_prefix: Option<String>,
    /// For the agent's operator; kept, never shown to the model.
    pub comment: Option<String>,
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There is no such ticket.
    #[error("there is no ticket {0}; `holdpoint ticket list` names them")]
    NoSuchTicket(TicketId),
    /// It is answered, used or withdrawn.
    #[error("ticket {ticket} is {state}: this answer comes too late")]
    AlreadyDecided {
        /// Which.
        ticket: TicketId,
        /// Where it stands.
        state: TicketState,
    },
    /// It ran out.
    #[error("ticket {0} has expired; the agent must repeat the call to ask again")]
    Expired(TicketId),
    /// What was shown is not what would be approved.
    #[error(
        "the digest prefix does not belong to ticket {0}: look at the ticket again and compare its arguments"
    )]
    DigestMismatch(TicketId),
    /// No prefix, a short one, or one that is not hex.
    #[error("give the first {MIN_PREFIX} or more hex digits of the ticket's digest")]
    DigestPrefix,
    /// The requester approves.
    #[error("ticket {0} needs somebody else: nobody approves an own request")]
    SelfApproval(TicketId),
    /// Somebody else confirms.
    #[error("ticket {0} waits for its own user's confirmation")]
    NotTheRequester(TicketId),
    /// The approver lacks the role.
    #[error("ticket {ticket} needs the role `{role}`")]
    RoleMissing {
        /// Which.
        ticket: TicketId,
        /// What it needs.
        role: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] TicketError),
}

impl AnswerError {
    /// Closed code in the API, listed in `docs/reference/tickets.md`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSuchTicket(_) => "ticket_unknown",
            Self::AlreadyDecided { .. } => "already_decided",
            Self::Expired(_) => "ticket_expired",
            Self::DigestMismatch(_) => "digest_mismatch",
            Self::DigestPrefix => "digest_prefix_required",
            Self::SelfApproval(_) => "self_approval",
            Self::NotTheRequester(_) => "not_the_requester",
            Self::RoleMissing { .. } => "role_missing",
            Self::Store(_) => "store_unavailable",
        }
    }
}

impl Answer {
    /// Whether this answer counts for the ticket as it stands, and which state it leads to. Every store asks this inside the
    /// transaction that writes the answer.
    ///
    /// # Errors
    /// What stands against it; authority is checked before anything about the state is told.
    pub fn judge(&self, ticket: &Ticket) -> Result<TicketState, AnswerError> {
        self.check_authority(ticket)?;
        self.check_digest(ticket)?;
        let id = || ticket.id.clone();
        match (ticket.state, self.approve) {
            (TicketState::Requested, true) => Ok(TicketState::Approved),
            (TicketState::Requested | TicketState::Approved, false) => Ok(TicketState::Denied),
            (TicketState::Expired, _) => Err(AnswerError::Expired(id())),
            (state, _) => Err(AnswerError::AlreadyDecided {
                ticket: id(),
                state,
            }),
        }
    }

    fn check_authority(&self, ticket: &Ticket) -> Result<(), AnswerError> {
        let Decider::Api { subject, roles } = &self.by else {
            return Ok(());
        };
        let own = subject.as_str() == &*ticket.principal.subject;
        match ticket.gate {
            Gate::Approve if self.approve && own => {
                return Err(AnswerError::SelfApproval(ticket.id.clone()));
            }
            Gate::Confirm if self.approve && !own => {
                return Err(AnswerError::NotTheRequester(ticket.id.clone()));
            }
            Gate::Approve | Gate::Confirm => {}
        }
        match &ticket.role {
            Some(role) if !roles.contains(role) => Err(AnswerError::RoleMissing {
                ticket: ticket.id.clone(),
                role: role.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn check_digest(&self, ticket: &Ticket) -> Result<(), AnswerError> {
        let Some(prefix) = &self.digest_prefix else {
            let needed = self.approve && matches!(self.by, Decider::Api { .. });
            return if needed {
                Err(AnswerError::DigestPrefix)
            } else {
                Ok(())
            };
        };
        if prefix.len() < MIN_PREFIX || !prefix.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(AnswerError::DigestPrefix);
        }
        if ticket.digest.has_prefix(prefix) {
            Ok(())
        } else {
            Err(AnswerError::DigestMismatch(ticket.id.clone()))
        }
    }
}
