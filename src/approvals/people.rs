//! Who is who: people by their keys, accounts and log-ins, with all their names, and what of their authority holds now.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::settings::{Account, Approver, Approvers, HumanId};
use crate::store::tickets::{self, Authority, Channel, Directory, Filter, Ticket, Voter};

/// People of the identity provider whose newest log-in is remembered; the oldest is forgotten.
const MOST_SEEN: usize = 10_000;

/// A human who may answer, as they are known at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Who.
    pub id: HumanId,
    /// What to call them; not to be trusted as text.
    pub name: Arc<str>,
    /// Their roles.
    pub roles: Vec<String>,
    /// Whose tickets they see and answer; `None`: those of every tenant. Where `own`, none beside their own.
    pub tenants: Option<Vec<String>>,
    /// Where they are no approver: they see and confirm requests of their own alone, in these tenants (`None`: in every).
    pub own: Option<Option<Vec<String>>>,
    /// Every name of the same human, `id` included.
    pub aliases: BTreeSet<HumanId>,
}

impl Person {
    /// As somebody who answers on a channel; `strong`: they have shown just now who they are.
    pub fn voter(&self, channel: Channel, strong: bool) -> Voter {
        let identity = |id: &HumanId| tickets::Person::new(&*id.issuer, &*id.subject);
        Voter {
            person: identity(&self.id),
            aliases: self.aliases.iter().map(identity).collect(),
            tenants: self.reach(),
            roles: self.roles.clone(),
            own: self.own.is_some(),
            channel,
            strong,
        }
    }

    fn reach(&self) -> Option<Vec<String>> {
        self.own.as_ref().unwrap_or(&self.tenants).clone()
    }

    /// The tickets that exist for them, to be narrowed further.
    pub fn filter(&self) -> Filter {
        let own = |name: &Arc<str>| self.own.is_some().then(|| name.to_string());
        Filter {
            tenants: self.reach(),
            issuer: own(&self.id.issuer),
            subject: own(&self.id.subject),
            ..Filter::default()
        }
    }

    /// Whether the ticket exists for them.
    pub fn sees_ticket(&self, ticket: &Ticket) -> bool {
        let principal = &ticket.principal;
        let voter = self.voter(Channel::Page, false);
        voter.knows(&principal.tenant, &principal.issuer, &principal.subject)
    }

    /// Whether they may know of all the tenant's tickets.
    pub fn sees(&self, tenant: &str) -> bool {
        let tenants = self.tenants.as_ref();
        tenants.is_none_or(|tenants| tenants.iter().any(|one| one == tenant))
    }
}

#[derive(Clone, Debug)]
struct Seen {
    roles: Vec<String>,
    tenants: Option<Vec<String>>,
    /// Rises with each log-in.
    turn: u64,
}

#[derive(Debug, Default)]
struct Newest {
    people: HashMap<HumanId, Seen>,
    turn: u64,
}

/// The people of a config, and what the identity provider last said of its own.
#[derive(Debug)]
pub struct People {
    approvers: Approvers,
    seen: Mutex<Newest>,
}

impl People {
    /// Those of the config.
    pub fn new(approvers: Approvers) -> Self {
        Self {
            approvers,
            seen: Mutex::default(),
        }
    }

    /// What the config says.
    pub const fn approvers(&self) -> &Approvers {
        &self.approvers
    }

    /// Whose key it is, by its digest: looked at are all, whether one has matched already or not.
    pub(crate) fn by_key(&self, digest: &[u8; 32]) -> Option<Person> {
        let equal =
            |key: &[u8; 32]| aws_lc_rs::constant_time::verify_slices_are_equal(key, digest).is_ok();
        let keys = self.approvers.keys.iter();
        let found = keys.fold(None, |found, key| {
            if equal(&key.digest) {
                Some(&key.who)
            } else {
                found
            }
        });
        found.map(|who| self.person(who, None))
    }

    /// The account of that name.
    pub(crate) fn account(&self, name: &str) -> Option<&Account> {
        let accounts = self.approvers.accounts.iter();
        accounts.into_iter().find(|account| &*account.name == name)
    }

    /// Somebody whom the config names.
    pub(crate) fn person(&self, who: &Approver, name: Option<&Arc<str>>) -> Person {
        Person {
            name: Arc::clone(name.unwrap_or(&who.id.subject)),
            aliases: self.approvers.names_of(&who.id),
            id: who.id.clone(),
            roles: who.roles.clone(),
            tenants: who.tenants.clone(),
            own: None,
        }
    }

    /// Somebody whom the identity provider has just vouched for: what it says of them is remembered.
    pub(crate) fn logged_in(
        &self,
        id: HumanId,
        name: Arc<str>,
        roles: Vec<String>,
        tenants: Option<Vec<String>>,
        approves: bool,
    ) -> Person {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.turn += 1;
        let turn = seen.turn;
        let entry = Seen {
            roles: roles.clone(),
            tenants: tenants.clone(),
            turn,
        };
        seen.people.insert(id.clone(), entry);
        if seen.people.len() > MOST_SEEN {
            let oldest = seen.people.iter().min_by_key(|(_, seen)| seen.turn);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                seen.people.remove(&oldest);
            }
        }
        drop(seen);
        let (tenants, own) = if approves {
            (tenants, None)
        } else {
            (Some(Vec::new()), Some(tenants))
        };
        Person {
            aliases: self.approvers.names_of(&id),
            id,
            name,
            roles,
            tenants,
            own,
        }
    }

    /// What holds now of somebody who once voted with the roles `voted`: roles and tenants, of all keys and accounts that
    /// name them and of their newest log-in. A person of the identity provider who has not logged in since the process
    /// started is known only as of the vote. `None`: no approver any more.
    pub fn holds(&self, id: &HumanId, voted: &[String]) -> Option<Authority> {
        let mut holds: Option<Authority> = None;
        let slack = self.approvers.slack.iter().flat_map(|it| it.users.values());
        for who in self.approvers.named().chain(slack) {
            if who.id == *id {
                add(&mut holds, &who.roles, who.tenants.as_deref());
            }
        }
        if let Some(oidc) = &self.approvers.oidc
            && *oidc.issuer == *id.issuer
        {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            match seen.people.get(id) {
                Some(seen) => add(&mut holds, &seen.roles, seen.tenants.as_deref()),
                None if holds.is_none() => {
                    add(&mut holds, voted, oidc.tenants.as_deref());
                }
                None => {}
            }
        }
        holds
    }
}

impl Directory for People {
    fn authority(&self, issuer: &str, subject: &str, voted: &[String]) -> Option<Authority> {
        self.holds(&HumanId::new(issuer, subject), voted)
    }
}

/// All that somebody holds by several keys, accounts and log-ins.
fn add(holds: &mut Option<Authority>, roles: &[String], tenants: Option<&[String]>) {
    let Some(holds) = holds else {
        *holds = Some(Authority {
            roles: roles.to_vec(),
            tenants: tenants.map(<[_]>::to_vec),
        });
        return;
    };
    for role in roles {
        if !holds.roles.contains(role) {
            holds.roles.push(role.clone());
        }
    }
    match (&mut holds.tenants, tenants) {
        (Some(known), Some(more)) => known.extend(more.iter().cloned()),
        (known, _) => *known = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ApproverKey;

    fn approver(subject: &str, roles: &[&str]) -> Approver {
        Approver {
            id: HumanId::new("config", subject),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            tenants: None,
        }
    }

    #[test]
    fn authority_is_what_the_config_says_now() {
        let key = ApproverKey {
            digest: [7; 32],
            who: approver("carol", &["finance"]),
        };
        let approvers = Approvers {
            keys: vec![key],
            aliases: vec![BTreeSet::from([
                HumanId::new("config", "carol"),
                HumanId::new("https://id", "u1"),
            ])],
            ..Approvers::default()
        };
        let people = People::new(approvers);
        let carol = people.by_key(&[7; 32]).unwrap();
        assert!(carol.aliases.contains(&HumanId::new("https://id", "u1")));
        assert!(carol.sees("any"));
        assert_eq!(people.by_key(&[8; 32]), None);
        let old = ["oncall".to_owned()];
        let holds = people.holds(&carol.id, &old).unwrap();
        assert_eq!(holds.roles, ["finance"]);
        assert_eq!(people.holds(&HumanId::new("config", "dave"), &old), None);
        assert_eq!(people.holds(&HumanId::new("https://id", "u1"), &old), None);
    }
}
