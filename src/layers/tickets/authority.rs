//! Whether those who gave a permission may give it still: asked when it is used, not only when it is given.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::admit::person;
use crate::clock::Clock;
use crate::policy::{Gate, TicketRule};
use crate::store::Stores;
use crate::store::tickets::issued::Issuer;
use crate::store::tickets::{Channel, Directory, Mandate, Person, Stands, Ticket, Verdict, Vote};

/// Who may permit what, now.
#[derive(Clone)]
pub(super) struct Authorities {
    directory: Arc<dyn Directory>,
    issuers: Arc<[Issuer]>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").finish_non_exhaustive()
    }
}

/// What a person answers for.
struct Matter<'m> {
    tenant: &'m str,
    gate: Gate,
    roles: &'m [String],
}

impl Authorities {
    pub(super) fn new(stores: &Stores) -> Self {
        Self {
            directory: Arc::clone(&stores.directory),
            issuers: Arc::clone(&stores.issuers),
            clock: Arc::clone(&stores.clock),
        }
    }

    /// The issuers whose signed tickets count for a rule.
    pub(super) fn issuers<'s>(&'s self, rule: &TicketRule) -> Vec<&'s Issuer> {
        let named = self.issuers.iter();
        named
            .filter(|issuer| rule.issuers.contains(&issuer.name))
            .collect()
    }

    /// Whether enough of those who approved may approve still.
    pub(super) fn are_enough(&self, ticket: &Ticket, rule: Option<&TicketRule>) -> bool {
        let matter = Matter {
            tenant: &ticket.principal.tenant,
            gate: ticket.gate,
            roles: &ticket.roles,
        };
        let counts = |vote: &&Vote| {
            if vote.channel == Channel::Issued {
                return rule.is_some_and(|rule| self.key_counts(rule, &vote.by));
            }
            self.may_approve(&matter, &vote.by, &vote.roles)
        };
        let yes = ticket.votes.iter();
        let yes = yes.filter(|vote| vote.verdict == Verdict::Approve);
        let issued = yes.clone().any(|vote| vote.channel == Channel::Issued);
        let counted = u32::try_from(yes.filter(counts).count()).unwrap_or(u32::MAX);
        // A signed ticket stands for as many people as the rule asks for.
        let needed = if issued { 1 } else { ticket.approvals };
        counted >= needed
    }

    /// Whether a mandate stands: whoever gave it may give it still, under today's rule.
    pub(super) fn stands(&self, rule: &TicketRule) -> Stands {
        let (authorities, rule) = (self.clone(), rule.clone());
        Arc::new(move |mandate| authorities.holds(mandate, &rule))
    }

    fn holds(&self, mandate: &Mandate, rule: &TicketRule) -> bool {
        let by = &mandate.granted_by;
        if mandate.ticket.is_none() {
            return self.key_counts(rule, by);
        }
        let Some(given) = &mandate.given else {
            return false;
        };
        let matter = Matter {
            tenant: &mandate.tenant,
            gate: rule.gate,
            roles: &rule.roles,
        };
        given.gate == rule.gate
            && (given.strong || by.is_local() || !rule.fresh_login)
            && self.may_approve(&matter, by, &given.roles)
    }

    /// Whether a person may approve now; `then` are the roles with which they did.
    fn may_approve(&self, matter: &Matter<'_>, by: &Person, then: &[String]) -> bool {
        if by.is_local() {
            return true;
        }
        let now = self.directory.authority(&by.issuer, &by.subject, then);
        let Some(now) = now else { return false };
        if matter.gate == Gate::Confirm {
            // The end user answers for nobody else.
            return true;
        }
        let tenants = now.tenants.as_ref();
        let sees = tenants.is_none_or(|tenants| tenants.iter().any(|own| own == matter.tenant));
        let role =
            matter.roles.is_empty() || matter.roles.iter().any(|role| now.roles.contains(role));
        sees && role
    }

    /// Whether the key of a signed ticket still counts: a key that is taken out of the config takes its approvals along.
    fn key_counts(&self, rule: &TicketRule, by: &Person) -> bool {
        let at: Timestamp = self.clock.now();
        self.issuers(rule).into_iter().any(|issuer| {
            person(&issuer.name, &by.subject) == *by
                && issuer
                    .keys
                    .iter()
                    .any(|key| key.kid == by.subject && key.counts(at))
        })
    }
}
