//! A policy that can run: every name resolved, every pattern compiled. Made by `policy::compile`, never by hand.

mod allowed;
mod conditions;
mod egress;
mod fallback;
mod injection;
mod lookup;
mod ownership;
mod recipients;
mod secrets;
mod ticket;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use allowed::{Allowed, ArgumentRule, Origin, asks_known, lists, lookups, origins};
pub use conditions::{Claim, Condition, Hours, Limit, Per, PrincipalPart, Scalar, Test};
pub use egress::{Budget, EgressRule, ForwardRule, Reach, RenderedRule};
pub use fallback::{Fallback, Otherwise};
pub use injection::{DefinitionsPolicy, InjectionPolicy, Spotlight, Thresholds, Withhold};
pub use lookup::{HttpLookup, Lookup, SqlLookup};
pub use ownership::{Owners, OwnershipRule};
pub use recipients::{Permit, Plus, RecipientKind, RecipientRule, Undeclared};
pub use secrets::{PrivateRule, SecretsRule, ToolSecrets};
pub use ticket::{Gate, MandateRule, Reconcile, Scope, Sign, StateRule, TicketRule};

use super::selector::Selector;
use crate::layers::egress::{Entry, Location};
pub use crate::layers::recipients::Region;
use crate::names::{ListName, LookupName, RouteName, RuleId, ToolName};
use crate::verdict::{LayerId, Mode};

/// SHA-256 of the policy file, lower-case hex. Every decision carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyHash(pub Arc<str>);

impl fmt::Display for PolicyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The mode of each layer. A layer that is not named is off.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Modes(pub BTreeMap<LayerId, Mode>);

impl Modes {
    /// The layer's mode.
    pub fn of(&self, layer: LayerId) -> Mode {
        self.0.get(&layer).copied().unwrap_or_default()
    }

    /// The same modes with one layer changed.
    #[must_use]
    pub fn with(mut self, layer: LayerId, mode: Mode) -> Self {
        self.0.insert(layer, mode);
        self
    }

    /// Every layer off: eval's arm `none`.
    pub fn none() -> Self {
        Self::default()
    }
}

/// A policy, ready to run.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, for people.
    pub name: String,
    /// Its identity.
    pub hash: PolicyHash,
    /// What each layer does.
    pub modes: Modes,
    /// Named allowlists.
    pub lists: HashMap<ListName, List>,
    /// Named read-only look-ups.
    pub lookups: HashMap<LookupName, Lookup>,
    /// In file order: the first match wins.
    pub tools: Vec<ToolRule>,
    /// What becomes of texts that look like recipients and that no rule is for; `None`: the policy does not say.
    pub undeclared_recipients: Option<Undeclared>,
    /// Hosts that any call may name, for tools whose own rule has no `egress`; `None`: not checked there.
    pub egress: Option<EgressRule>,
    /// What the forward proxy lets pass; `None`: nothing.
    pub forward: Option<ForwardRule>,
    /// Where images and links of a model's text may lead; `None`: not checked.
    pub rendered: Option<RenderedRule>,
    /// Secrets in what leaves; `None`: not looked for.
    pub secrets: Option<SecretsRule>,
    /// Values that tools give for a session only.
    pub private: Vec<PrivateRule>,
    /// Tools that a model's provider may run; any that no entry covers is denied.
    pub provider_tools: Vec<ProviderToolRule>,
    /// What becomes of definitions that tell the model more than what a tool is for.
    pub definitions: DefinitionsPolicy,
    /// What the injection layer does.
    pub injection: InjectionPolicy,
}

impl Policy {
    /// A policy without rules, every layer off.
    pub fn new(name: impl Into<String>, hash: PolicyHash) -> Self {
        Self {
            name: name.into(),
            hash,
            modes: Modes::none(),
            lists: HashMap::new(),
            lookups: HashMap::new(),
            tools: Vec::new(),
            undeclared_recipients: None,
            egress: None,
            forward: None,
            rendered: None,
            secrets: Some(SecretsRule::usual()),
            private: Vec::new(),
            provider_tools: Vec::new(),
            definitions: DefinitionsPolicy::never(),
            injection: InjectionPolicy::never(),
        }
    }

    /// The first rule that matches the tool.
    pub fn rule_for(&self, tool: &ToolName) -> Option<&ToolRule> {
        self.tools.iter().find(|rule| rule.matcher.matches(tool))
    }
}

/// What a list allows. A list may have several kinds of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Hosts, wildcards and addresses, with ports and paths.
    pub hosts: Vec<Entry>,
    /// Whole addresses: local part lower-cased in ASCII, domain as A-label.
    pub emails: HashSet<String>,
    /// Domains, exact: a subdomain is another domain.
    pub email_domains: HashSet<String>,
    /// Domains of which every subdomain is meant, not the domain itself.
    pub email_subdomains_of: HashSet<String>,
    /// Domains that may be given access as a whole, exact.
    pub share_domains: HashSet<String>,
    /// E.164 with `+`.
    pub phones: HashSet<String>,
    /// Ids of chats, channels and users, as they stand.
    pub chats: HashSet<String>,
    /// Account numbers without spaces, upper case.
    pub accounts: HashSet<String>,
}

impl List {
    /// Adds the entries for recipients of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.emails, &other.emails),
            (&mut self.email_domains, &other.email_domains),
            (&mut self.email_subdomains_of, &other.email_subdomains_of),
            (&mut self.share_domains, &other.share_domains),
            (&mut self.phones, &other.phones),
            (&mut self.chats, &other.chats),
            (&mut self.accounts, &other.accounts),
        ] {
            into.extend(from.iter().cloned());
        }
    }
}

/// Which tools a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolMatcher {
    /// One tool, case-sensitive.
    Exact(ToolName),
    /// Every tool whose name starts so: `crm_*`.
    Prefix(String),
    /// `*`.
    Any,
}

impl ToolMatcher {
    /// Whether the rule is for this tool.
    pub fn matches(&self, tool: &ToolName) -> bool {
        match self {
            Self::Exact(name) => name == tool,
            Self::Prefix(prefix) => tool.as_str().starts_with(prefix.as_str()),
            Self::Any => true,
        }
    }
}

/// What a call does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes state, or nobody knows.
    #[default]
    Write,
}

/// Where a call takes effect: there its ticket is redeemed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutesAt {
    /// On this route of the proxy.
    Route(RouteName),
    /// In the agent: releasing the model's proposal is the execution.
    Agent,
}

/// What the policy says of some tools.
#[derive(Clone, Debug)]
pub struct ToolRule {
    /// `tools[3]`.
    pub id: RuleId,
    /// Which tools.
    pub matcher: ToolMatcher,
    /// Nobody may use them: the rule says nothing else.
    pub deny: bool,
    /// Read or write.
    pub effect: Effect,
    /// It prepares what another call carries out, and what it leaves behind harms nobody where that call is refused.
    pub harmless: bool,
    /// `None`: on the route that maps the tool, else in the agent.
    pub executes_at: Option<ExecutesAt>,
    /// URLs in arguments.
    pub egress: Vec<EgressRule>,
    /// Secrets in arguments.
    pub secrets: ToolSecrets,
    /// People and accounts in arguments.
    pub recipients: Vec<RecipientRule>,
    /// Other arguments, and where they must come from.
    pub arguments: Vec<ArgumentRule>,
    /// What becomes of texts that look like recipients and that no rule is for; `None`: as the policy says.
    pub undeclared_recipients: Option<Undeclared>,
    /// Resources in arguments.
    pub ownership: Vec<OwnershipRule>,
    /// Scopes that the principal must have, all of them.
    pub scopes: Vec<Arc<str>>,
    /// Agents that may use the tool; empty for any.
    pub agents: Vec<Arc<str>>,
    /// The call must come in the session that the caller's token names.
    pub own_session: bool,
    /// Conditions on the call; each must hold.
    pub when: Vec<Condition>,
    /// The ticket it needs.
    pub ticket: Option<TicketRule>,
}

impl ToolRule {
    /// Whether a call of it may have to wait for a ticket.
    pub fn can_hold(&self) -> bool {
        let held = |otherwise| otherwise == Otherwise::Hold;
        self.ticket.is_some()
            || self.egress.iter().any(|rule| rule.otherwise.can_hold())
            || self.recipients.iter().any(|rule| rule.otherwise.can_hold())
            || self.arguments.iter().any(|rule| rule.otherwise.can_hold())
            || self.when.iter().any(|rule| held(rule.otherwise))
    }

    /// A rule for a write that asks for nothing.
    pub fn new(id: impl Into<RuleId>, matcher: ToolMatcher) -> Self {
        Self {
            id: id.into(),
            matcher,
            deny: false,
            effect: Effect::Write,
            harmless: false,
            executes_at: None,
            egress: Vec::new(),
            secrets: ToolSecrets::Usual,
            recipients: Vec::new(),
            arguments: Vec::new(),
            undeclared_recipients: None,
            ownership: Vec::new(),
            scopes: Vec::new(),
            agents: Vec::new(),
            own_session: false,
            when: Vec::new(),
            ticket: None,
        }
    }
}

/// A tool that the model's provider may run by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderToolRule {
    /// `provider_tools[0]`.
    pub id: RuleId,
    /// The provider's names of it.
    pub kind: ToolMatcher,
    /// The servers that it may reach, paths below included. `None`: for a tool whose request names no server.
    pub servers: Option<Vec<Location>>,
}
