//! Ticket rules against the config: somebody can answer, and what they ask can be asked.

use std::collections::HashMap;

use super::Against;
use crate::names::LookupName;
use crate::policy::usage::{ALWAYS_BOUND, Misfit};
use crate::policy::{Gate, Lookup, TicketRule, ToolRule};
use crate::source::{Problem, Problems, did_you_mean};
use crate::store::sql::Described;
use crate::verdict::{LayerId, Mode};

impl Against<'_> {
    pub(super) fn tickets(&self, problems: &mut Problems) {
        if self.policy.modes.of(LayerId::Tickets) != Mode::Enforce {
            return;
        }
        if self.settings.tickets.is_none() {
            problems.0.push(self.at(
                "layers.tickets",
                "the layer `tickets` is enforced and the config has no ticket store".to_owned(),
                "add `tickets: {store: tickets.db}` to the config",
            ));
        }
        for ticket in self
            .policy
            .tools
            .iter()
            .filter_map(|rule| rule.ticket.as_ref())
        {
            problems.extend(self.answerable(ticket));
            problems.extend(self.issuers(ticket));
        }
    }

    /// Whose signed tickets are taken the config knows.
    fn issuers(&self, ticket: &TicketRule) -> Vec<Problem> {
        let known = self.settings.tickets.iter();
        let known: Vec<_> = known.flat_map(|tickets| &tickets.issuers).collect();
        let named = ticket.issuers.iter().enumerate();
        let lacking = named.filter(|(_, name)| known.iter().all(|issuer| issuer.name != **name));
        let problems = lacking.map(|(index, name)| {
            let listed = format!("{}.issuers[{index}]", ticket.id);
            let path = match self.checked.tree.at(&listed) {
                Some(_) => listed,
                None => format!("{}.issuers", ticket.id),
            };
            self.at(
                &path,
                format!("the config has no issuer `{name}`"),
                did_you_mean(
                    "issuers of the config",
                    name,
                    known.iter().map(|issuer| issuer.name.as_str()),
                ),
            )
        });
        problems.collect()
    }

    /// Somebody of the config can give the approvals. Who logs in elsewhere is known to nobody here.
    fn answerable(&self, ticket: &TicketRule) -> Vec<Problem> {
        let approvers = &self.settings.approvers;
        // Whom an identity provider gives which roles nobody knows before.
        if approvers.is_empty() || approvers.oidc.is_some() || ticket.gate == Gate::Confirm {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (index, role) in ticket.roles.iter().enumerate() {
            if approvers.named().any(|person| person.roles.contains(role)) {
                continue;
            }
            let roles = approvers.named().flat_map(|approver| &approver.roles);
            let path = match self.checked.tree.at(&format!("{}.role", ticket.id)) {
                Some(_) => format!("{}.role", ticket.id),
                None => format!("{}.roles[{index}]", ticket.id),
            };
            let message = format!("no approver of the config has the role `{role}`");
            let help = did_you_mean("roles", role, roles.map(String::as_str));
            found.push(self.at(&path, message, help).warning());
        }
        let may = |roles: &Vec<String>| {
            ticket.roles.is_empty() || ticket.roles.iter().any(|role| roles.contains(role))
        };
        let able = approvers.named().filter(|person| may(&person.roles));
        let able = able.count();
        if found.is_empty() && able < usize::try_from(ticket.approvals).unwrap_or(usize::MAX) {
            let message = format!(
                "{} approvals are needed and the config has {able} approvers who may give one",
                ticket.approvals
            );
            let help = "add approvers with the role, or lower `approvals`";
            let path = format!("{}.approvals", ticket.id);
            found.push(self.at(&path, message, help).warning());
        }
        found
    }

    /// Look-ups that tell states and outcomes are bound what they ask for, and tell what is read.
    pub(super) fn ticket_lookups(
        &self,
        rule: &ToolRule,
        described: &HashMap<&LookupName, Described>,
        problems: &mut Problems,
    ) {
        let Some(ticket) = &rule.ticket else { return };
        for state in &ticket.state {
            let binds = state.binds();
            let fits = self.columns_fit(
                (&state.lookup, described),
                (&ALWAYS_BOUND, &binds),
                state.columns.iter().map(String::as_str),
            );
            if let Err(misfit) = fits {
                let key = match &misfit.vain {
                    Some(vain) if *vain == state.bind => "as".to_owned(),
                    Some(vain) => format!("with.{vain}"),
                    None => "lookup".to_owned(),
                };
                let path = format!("{}.{key}", state.id);
                problems.0.push(self.at(&path, misfit.message, misfit.help));
            }
        }
        self.reconcile_lookup(ticket, described, problems);
    }

    fn reconcile_lookup(
        &self,
        ticket: &TicketRule,
        described: &HashMap<&LookupName, Described>,
        problems: &mut Problems,
    ) {
        let Some(recipe) = &ticket.reconcile else {
            return;
        };
        let [principal, tenant] = ALWAYS_BOUND;
        let always = [principal, tenant, "ticket"];
        let (binds, columns) = (recipe.binds(), recipe.columns());
        let fits = self.columns_fit(
            (&recipe.lookup, described),
            (&always, &binds),
            columns.into_iter(),
        );
        if let Err(misfit) = fits {
            let key = match &misfit.vain {
                Some(vain) => format!("with.{vain}"),
                None => "lookup".to_owned(),
            };
            let path = format!("{}.{key}", recipe.id);
            problems.0.push(self.at(&path, misfit.message, misfit.help));
            return;
        }
        let asked = match (
            self.policy.lookups.get(&recipe.lookup),
            described.get(&recipe.lookup),
        ) {
            (Some(Lookup::Http(http)), _) => http.parameters(),
            (Some(Lookup::Sql(_)), Some(found)) => found.parameters.clone(),
            _ => return,
        };
        if !asked.iter().any(|name| name == "ticket") {
            let problem = self.at(
                &format!("{}.lookup", recipe.id),
                format!(
                    "the look-up `{}` does not ask for `:ticket`: an earlier identical act would be taken for this one",
                    recipe.lookup
                ),
                "compare it with what the upstream stores of the header `Idempotency-Key`",
            );
            problems.0.push(problem.warning());
        }
    }

    fn columns_fit<'c>(
        &self,
        (name, described): (&LookupName, &HashMap<&LookupName, Described>),
        parameters: (&[&str], &[&str]),
        columns: impl Iterator<Item = &'c str>,
    ) -> Result<(), Misfit> {
        let Some(lookup) = self.policy.lookups.get(name) else {
            return Ok(());
        };
        lookup.columns_fit(name.as_str(), described.get(name), parameters, columns)
    }
}
