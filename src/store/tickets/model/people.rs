//! People who answer.

use serde::{Deserialize, Serialize};

use crate::principal::Principal;

/// Issuer of people whom the operating system vouches for.
const LOCAL: &str = "local";

/// Issuer of people whom the config vouches for.
const CONFIG: &str = "config";

/// One identity of a human being.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Person {
    /// Who vouches for the subject: `config`, a token's issuer, or `local` for an operating system user.
    pub issuer: String,
    /// The person.
    pub subject: String,
}

impl Person {
    /// An identity.
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            subject: subject.into(),
        }
    }

    /// Somebody whom the operating system vouches for.
    pub fn local(name: impl Into<String>) -> Self {
        Self::new(LOCAL, name)
    }

    /// Whether this is an operating system user.
    pub fn is_local(&self) -> bool {
        self.issuer == LOCAL
    }

    /// Whether this is the end user of the principal.
    pub fn is(&self, principal: &Principal) -> bool {
        self.issuer == *principal.issuer && self.subject == *principal.subject
    }

    /// Whether this may be that subject of that issuer: a name that the config vouches for has no issuer of its own, so it is
    /// taken for everybody of that name.
    fn may_be(&self, issuer: &str, subject: &str) -> bool {
        let comparable = self.issuer == issuer || self.issuer == CONFIG || issuer == CONFIG;
        comparable && self.subject == subject
    }
}

/// How an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// The command line.
    Cli,
    /// The HTTP API.
    Api,
    /// The web page.
    Page,
    /// A signed interaction of a chat.
    Slack,
    /// A ticket that an orchestrator has signed.
    Issued,
}

impl Channel {
    /// The name in the store and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Api => "api",
            Self::Page => "page",
            Self::Slack => "slack",
            Self::Issued => "issued",
        }
    }

    /// The channel of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Cli, Self::Api, Self::Page, Self::Slack, Self::Issued]
            .into_iter()
            .find(|channel| channel.as_str() == name)
    }
}

/// A person who answers on a channel of the approver listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// As whom the answer is recorded.
    pub person: Person,
    /// Every other identity of the same human.
    pub aliases: Vec<Person>,
    /// Tenants whose tickets this person may see and answer; `None`: every tenant's.
    pub tenants: Option<Vec<String>>,
    /// Roles at this moment.
    pub roles: Vec<String>,
    /// Whether this person sees and answers requests of their own alone: an end user who confirms.
    pub own: bool,
    /// How the answer comes.
    pub channel: Channel,
    /// Vouched for by a security key or a log-in moments ago.
    pub strong: bool,
}

impl Voter {
    /// A person with one identity, for every tenant.
    pub fn new(person: Person, roles: Vec<String>, channel: Channel) -> Self {
        Self {
            person,
            aliases: Vec::new(),
            tenants: None,
            roles,
            own: false,
            channel,
            strong: false,
        }
    }

    /// Whether tickets of that tenant exist for this person.
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenants
            .as_ref()
            .is_none_or(|tenants| tenants.iter().any(|own| own == tenant))
    }

    /// Whether what was asked for that user exists for this person.
    pub fn knows(&self, tenant: &str, issuer: &str, subject: &str) -> bool {
        let own = |it: &Person| it.issuer == issuer && it.subject == subject;
        self.sees(tenant) && (!self.own || self.identities().any(own))
    }

    fn identities(&self) -> impl Iterator<Item = &Person> {
        std::iter::once(&self.person).chain(&self.aliases)
    }

    /// Whether one of the identities is that person.
    pub fn has(&self, person: &Person) -> bool {
        self.identities().any(|own| own == person)
    }

    /// Whether this is the end user of the principal.
    pub fn is(&self, principal: &Principal) -> bool {
        self.identities().any(|own| own.is(principal))
    }

    /// Whether this may be the end user, or somebody who acts for them.
    pub fn may_have_asked(&self, principal: &Principal) -> bool {
        let mut askers = std::iter::once(&principal.subject).chain(&principal.actors);
        askers.any(|asker| {
            self.identities()
                .any(|own| own.may_be(&principal.issuer, asker))
        })
    }
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decider {
    /// Somebody with access to the store itself; the operating system vouches for the name.
    Local(String),
    /// A person on a channel of the approver listener.
    Person(Voter),
}

impl Decider {
    /// As whom the answer is recorded.
    pub fn person(&self) -> Person {
        match self {
            Self::Local(name) => Person::local(name.clone()),
            Self::Person(voter) => voter.person.clone(),
        }
    }

    /// How the answer comes.
    pub const fn channel(&self) -> Channel {
        match self {
            Self::Local(_) => Channel::Cli,
            Self::Person(voter) => voter.channel,
        }
    }

    /// For logs and the audit: `local:` and the user's name, or the issuer and the subject.
    pub fn record(&self) -> String {
        self.person().record()
    }
}

impl Person {
    /// For logs and the audit: issuer, colon, subject.
    pub fn record(&self) -> String {
        format!("{}:{}", self.issuer, self.subject)
    }
}
