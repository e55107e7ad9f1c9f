//! Who may answer a request, and what stands against it.

use super::TicketError;
use super::digest::MIN_PREFIX;
use super::model::{Decider, NewMandate, Ticket, TicketState, Verdict, Voter};
use crate::guard::Receipt;
use crate::names::{RuleId, TicketId};
use crate::policy::Gate;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub ticket: TicketId,
    /// Yes or no. A no also takes back an approval that is not used yet.
    pub verdict: Verdict,
    /// Whose.
    pub by: Decider,
    /// Start of the digest that the person was shown, at least [`MIN_PREFIX`] hex digits. An approval needs one, except at the
    /// command line.
    pub digest_prefix: Option<String>,
    /// What the person writes.
    pub comment: Option<String>,
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There is no such ticket, or none that this person may see.
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
    /// The requester approves, or somebody who acts for them.
    #[error("ticket {0} needs somebody else: nobody approves an own request")]
    SelfApproval(TicketId),
    /// Somebody else confirms.
    #[error("ticket {0} waits for its own user's confirmation")]
    NotTheRequester(TicketId),
    /// The approver lacks the role.
    #[error("ticket {ticket} needs the role {}", roles.iter().map(|role| format!("`{role}`")).collect::<Vec<_>>().join(" or "))]
    RoleMissing {
        /// Which.
        ticket: TicketId,
        /// What it needs: one of these.
        roles: Vec<String>,
    },
    /// The approver must log in anew.
    #[error("ticket {0} needs a log-in just before the approval")]
    FreshLogin(TicketId),
    /// The outcome of the ticket is known.
    #[error("ticket {ticket} is {state}: only what is unknown can be resolved")]
    NotUnknown {
        /// Which.
        ticket: TicketId,
        /// Where it stands.
        state: TicketState,
    },
    /// No mandate can be given on this request.
    #[error("no mandate can be given on ticket {ticket}: {cause}")]
    NotOffered {
        /// Which.
        ticket: TicketId,
        /// Why.
        cause: &'static str,
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
            Self::FreshLogin(_) => "fresh_login_required",
            Self::NotUnknown { .. } => "not_unknown",
            Self::NotOffered { .. } => "mandate_not_offered",
            Self::Store(_) => "store_unavailable",
        }
    }
}

/// What an answer that counts leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The vote is written and the ticket stands there from now on.
    Vote(TicketState),
    /// The person has said so before: nothing changes.
    Again,
}

impl Answer {
    /// Whether this answer counts for the ticket as it stands. Every store asks this inside the transaction that writes the
    /// answer.
    ///
    /// # Errors
    /// What stands against it; authority is checked before anything about the state is told.
    pub fn judge(&self, ticket: &Ticket) -> Result<Counted, AnswerError> {
        let approves = self.verdict == Verdict::Approve;
        check_authority(&self.by, approves, ticket)?;
        check_digest(&self.by, approves, self.digest_prefix.as_deref(), ticket)?;
        if self.said_before(ticket) {
            return Ok(Counted::Again);
        }
        let id = || ticket.id.clone();
        match (ticket.state, approves) {
            (TicketState::Requested, true) => {
                let enough = ticket.approved_by().saturating_add(1) >= ticket.approvals;
                Ok(Counted::Vote(if enough {
                    TicketState::Approved
                } else {
                    TicketState::Requested
                }))
            }
            (TicketState::Requested, false) => Ok(Counted::Vote(TicketState::Denied)),
            (TicketState::Approved, false) => Ok(Counted::Vote(TicketState::Revoked)),
            (TicketState::Expired, _) => Err(AnswerError::Expired(id())),
            (state, _) => Err(AnswerError::AlreadyDecided {
                ticket: id(),
                state,
            }),
        }
    }

    /// The same person's same word, by whichever identity: a second click, which is no second vote.
    fn said_before(&self, ticket: &Ticket) -> bool {
        let fits = match self.verdict {
            Verdict::Approve => {
                matches!(ticket.state, TicketState::Requested | TicketState::Approved)
            }
            Verdict::Deny | Verdict::Revoke => {
                matches!(ticket.state, TicketState::Denied | TicketState::Revoked)
            }
        };
        let yes = self.verdict == Verdict::Approve;
        fits && ticket.votes.iter().any(|vote| {
            let own = match &self.by {
                Decider::Local(_) => vote.by == self.by.person(),
                Decider::Person(voter) => voter.has(&vote.by),
            };
            own && (vote.verdict == Verdict::Approve) == yes
        })
    }
}

impl NewMandate {
    /// Whether this person may give a mandate on the request as it stands.
    ///
    /// # Errors
    /// What stands against it, as for an approval; and a request that offers none.
    pub fn judge(&self, ticket: &Ticket) -> Result<(), AnswerError> {
        check_authority(&self.by, true, ticket)?;
        check_digest(&self.by, true, self.digest_prefix.as_deref(), ticket)?;
        let not_offered = |cause| {
            let ticket = ticket.id.clone();
            Err(AnswerError::NotOffered { ticket, cause })
        };
        match ticket.state {
            TicketState::Requested => {}
            TicketState::Expired => return Err(AnswerError::Expired(ticket.id.clone())),
            state => {
                let ticket = ticket.id.clone();
                return Err(AnswerError::AlreadyDecided { ticket, state });
            }
        }
        if ticket.offer.is_none() {
            return not_offered("its rule has no `mandate`");
        }
        if ticket.approvals > 1 {
            return not_offered("it needs more than one approval");
        }
        Ok(())
    }
}

/// Who found out what became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// A person who looked.
    Person(Decider),
    /// The recipe of a rule.
    Recipe(RuleId),
}

impl Resolver {
    /// As it is recorded.
    pub fn record(&self) -> String {
        match self {
            Self::Person(by) => by.record(),
            Self::Recipe(rule) => format!("recipe:{rule}"),
        }
    }
}

/// What became of a call whose outcome was unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Of which ticket.
    pub ticket: TicketId,
    /// Whether it was carried out.
    pub done: bool,
    /// Who found out.
    pub by: Resolver,
    /// What they write.
    pub note: Option<String>,
    /// What the recipe read, for repeats of the call.
    pub receipt: Option<Receipt>,
}

impl Resolution {
    /// Whether it counts for the ticket as it stands.
    ///
    /// # Errors
    /// What stands against it; authority is checked before anything about the state is told.
    pub fn judge(&self, ticket: &Ticket) -> Result<TicketState, AnswerError> {
        if let Resolver::Person(by) = &self.by {
            check_authority(by, ticket.gate == Gate::Approve, ticket)?;
        }
        match ticket.state {
            TicketState::Unknown if self.done => Ok(TicketState::ResolvedDone),
            TicketState::Unknown => Ok(TicketState::ResolvedNotDone),
            state => Err(AnswerError::NotUnknown {
                ticket: ticket.id.clone(),
                state,
            }),
        }
    }
}

fn check_authority(by: &Decider, approves: bool, ticket: &Ticket) -> Result<(), AnswerError> {
    let Decider::Person(voter) = by else {
        return Ok(());
    };
    let id = || ticket.id.clone();
    let principal = &ticket.principal;
    if !voter.knows(&principal.tenant, &principal.issuer, &principal.subject) {
        return Err(AnswerError::NoSuchTicket(id()));
    }
    if approves {
        check_distance(voter, ticket)?;
    }
    if !ticket.roles.is_empty() && !ticket.roles.iter().any(|role| voter.roles.contains(role)) {
        return Err(AnswerError::RoleMissing {
            ticket: id(),
            roles: ticket.roles.clone(),
        });
    }
    if approves && ticket.fresh && !voter.strong {
        return Err(AnswerError::FreshLogin(id()));
    }
    Ok(())
}

fn check_distance(voter: &Voter, ticket: &Ticket) -> Result<(), AnswerError> {
    let id = || ticket.id.clone();
    match ticket.gate {
        Gate::Approve if voter.may_have_asked(&ticket.principal) => {
            Err(AnswerError::SelfApproval(id()))
        }
        Gate::Confirm if !voter.is(&ticket.principal) => Err(AnswerError::NotTheRequester(id())),
        Gate::Approve | Gate::Confirm => Ok(()),
    }
}

fn check_digest(
    by: &Decider,
    approves: bool,
    prefix: Option<&str>,
    ticket: &Ticket,
) -> Result<(), AnswerError> {
    let Some(prefix) = prefix else {
        let needed = approves && matches!(by, Decider::Person(_));
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
