//! Who may approve, and by which channels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Secret;
use crate::identity::Algorithm;
use crate::identity::api_key::sha256;
use crate::store::tickets::audit::Event;

/// Everything under `approvers`.
#[derive(Clone, Debug, Default)]
pub struct Approvers {
    /// Where people's browsers reach the approver listener; `None`: on this machine alone, at the listener's address.
    pub url: Option<Url>,
    /// People and machines that come with an API key.
    pub keys: Vec<ApproverKey>,
    /// People who log in with a password that the config knows the hash of.
    pub accounts: Vec<Account>,
    /// People who log in at an identity provider.
    pub oidc: Option<Oidc>,
    /// Sets of names of one human each; no name is in two of them.
    pub aliases: Vec<BTreeSet<HumanId>>,
    /// Slack.
    pub slack: Option<Slack>,
    /// Who is told of what happens to tickets.
    pub webhooks: Vec<Webhook>,
    /// How long a log-in lasts.
    pub sessions: SessionTimes,
}

impl Approvers {
    /// Whether nobody may approve but over the command line.
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.accounts.is_empty() && self.oidc.is_none()
    }

    /// Those whom the config names, by their key or account.
    pub fn named(&self) -> impl Iterator<Item = &Approver> {
        let keys = self.keys.iter().map(|key| &key.who);
        keys.chain(self.accounts.iter().map(|account| &account.who))
    }

    /// Whether the value is one of the secrets here: whoever has it could approve, or speak for those who do.
    pub fn is_secret(&self, value: &str) -> bool {
        let value = value.trim();
        let digest = sha256(value.as_bytes());
        let post = self.slack.iter().filter_map(|slack| slack.post.as_ref());
        let post = post.map(|post| match post {
            SlackPost::Webhook(url) => url,
            SlackPost::Bot { token, .. } => token,
        });
        let client = self
            .oidc
            .iter()
            .filter_map(|oidc| oidc.client_secret.as_ref());
        let secrets = self.slack.iter().map(|slack| &slack.signing_secret);
        let mut secrets = secrets
            .chain(post)
            .chain(client)
            .chain(self.webhooks.iter().map(|webhook| &webhook.secret))
            .chain(self.accounts.iter().map(|account| &account.hash));
        self.keys.iter().any(|key| key.digest == digest) || secrets.any(|known| *known.0 == *value)
    }

    /// Every (issuer, subject) of the human that this is one of, itself included.
    pub fn names_of(&self, human: &HumanId) -> BTreeSet<HumanId> {
        let known = self.aliases.iter().find(|names| names.contains(human));
        known
            .cloned()
            .unwrap_or_else(|| BTreeSet::from([human.clone()]))
    }
}

/// One name of a human.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HumanId {
    /// Who vouches for the subject.
    pub issuer: Arc<str>,
    /// The subject.
    pub subject: Arc<str>,
}

impl HumanId {
    /// That subject of that issuer.
    pub fn new(issuer: impl Into<Arc<str>>, subject: impl Into<Arc<str>>) -> Self {
        Self {
            issuer: issuer.into(),
            subject: subject.into(),
        }
    }
}

/// Somebody who may approve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approver {
    /// Who.
    pub id: HumanId,
    /// Roles that ticket rules ask for.
    pub roles: Vec<String>,
    /// Whose tickets they see and answer; `None`: those of every tenant.
    pub tenants: Option<Vec<String>>,
}

/// An approver's API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApproverKey {
    /// Its SHA-256.
    pub digest: [u8; 32],
    /// Whose.
    pub who: Approver,
}

/// An account of Holdpoint's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What the person types.
    pub name: Arc<str>,
    /// The password's hash, `$argon2id$…` (PHC string).
    pub hash: Secret,
    /// Whose.
    pub who: Approver,
}

/// An identity provider that approvers log in at (`OpenID` Connect Core 1.0, code flow with PKCE).
#[derive(Clone, Debug)]
pub struct Oidc {
    /// Its issuer, exact; its metadata is at `/.well-known/openid-configuration` below.
    pub issuer: Arc<str>,
    /// Who Holdpoint is there.
    pub client_id: String,
    /// With which secret; `None`: a public client.
    pub client_secret: Option<Secret>,
    /// PEM file of the certificate authorities that are trusted for it, in place of the public ones.
    pub ca: Option<PathBuf>,
    /// Asked for besides `openid`.
    pub scopes: Vec<String>,
    /// Claim with the person's subject.
    pub subject: String,
    /// Claim with the person's roles: a list, or words in one text. A person without it has none.
    pub roles: String,
    /// Claim with the tenants whose tickets the person sees: a list, or words in one text. Who lacks it may not log in.
    pub tenants_claim: Option<String>,
    /// Those tenants where no claim says so; `None`: every one.
    pub tenants: Option<Vec<String>>,
    /// Only who has one of these roles may log in; empty: everybody with an account there.
    pub require: Vec<String>,
    /// Who has none of these roles is no approver: they see and confirm requests of their own alone. Empty: everybody who may
    /// log in is one.
    pub approver_roles: Vec<String>,
    /// How ID tokens may be signed.
    pub algorithms: Vec<Algorithm>,
    /// `aud` of access tokens that the API takes; `None`: it takes none.
    pub api_audience: Option<String>,
    /// How far the issuer's clock may be off.
    pub leeway: Duration,
}

/// How long a log-in lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimes {
    /// Without a request.
    pub idle: Duration,
    /// In all.
    pub absolute: Duration,
    /// For so long after a person has shown who they are, a log-in is fresh.
    pub fresh: Duration,
}

impl Default for SessionTimes {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(30),
            absolute: Duration::from_hours(12),
            fresh: Duration::from_mins(10),
        }
    }
}

/// Messages with buttons.
#[derive(Clone, Debug)]
pub struct Slack {
    /// What Slack signs its requests with.
    pub signing_secret: Secret,
    /// Who is who, by Slack's user id.
    pub users: BTreeMap<String, Approver>,
    /// Where new requests are told; `None`: nowhere.
    pub post: Option<SlackPost>,
}

/// Where messages to Slack go.
#[derive(Clone, Debug)]
pub enum SlackPost {
    /// An incoming webhook: its whole URL is a secret.
    Webhook(Secret),
    /// `chat.postMessage` to a channel.
    Bot {
        /// The base of Slack's Web API.
        api: Url,
        /// The bot's token.
        token: Secret,
        /// The channel's id.
        channel: String,
    },
}

/// Somebody who is told of what happens to tickets.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Its name, in logs and metrics; the place where it stands in the audit rows is kept under it.
    pub name: String,
    /// Where to.
    pub url: Url,
    /// What bodies are signed with.
    pub secret: Secret,
    /// Events to tell; `None`: all.
    pub events: Option<BTreeSet<Event>>,
    /// Whether the URL may lead to a private address.
    pub private: bool,
    /// PEM file of the certificate authorities that are trusted for it, in place of the public ones.
    pub ca: Option<PathBuf>,
}
