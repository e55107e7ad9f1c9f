//! Who may approve, and by which channels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use url::Url;

use super::jwt::{algorithms, claim, leeway};
use super::places::{is_public, is_safe, public_url, safe_url};
use super::principals::digest;
use super::{Reading, positive_duration};
use crate::approvals::password;
use crate::identity::api_key;

use crate::settings::{
    Account, Approver, ApproverKey, Approvers, HumanId, JwtPrincipals, KeySource, Oidc, Principals,
    Secret, SessionTimes, Slack, SlackPost, Webhook,
};
use crate::source::{Field, Fields, Kind};
use crate::store::tickets::audit::Event;

/// Where Slack's Web API is.
const SLACK_API: &str = "https://slack.com/api/";

impl Reading<'_> {
    /// A list of keys, or a map of everything.
    pub(super) fn approvers(
        &self,
        field: &Field<'_>,
        principals: Option<&Principals>,
    ) -> Option<Approvers> {
        let issuer = principals.map_or_else(|| "config".into(), Principals::issuer);
        let people = People {
            reading: self,
            issuer: &issuer,
        };
        if matches!(field.node().kind, Kind::List(_)) {
            let keys = people.keys(field)?;
            return Some(Approvers {
                keys,
                ..Approvers::default()
            });
        }
        let mut fields = field.map()?;
        let url = fields.optional("url");
        let url = url.map_or(Some(None), |field| public_url(&field).map(Some));
        let keys = fields.optional_or("keys", Vec::new(), |field| people.keys(field));
        let accounts = fields.optional_or("accounts", Vec::new(), |field| people.accounts(field));
        let oidc = fields.optional("oidc");
        let oidc_at = oidc.clone();
        let oidc = oidc.map_or(Some(None), |field| {
            people.oidc(&field, principals).map(Some)
        });
        let aliases = fields.optional_or("aliases", Vec::new(), |field| people.aliases(field));
        let sessions = fields.optional_or("sessions", SessionTimes::default(), sessions);
        let slack = fields.optional("slack");
        let webhooks = fields.optional_or("webhooks", Vec::new(), |field| people.webhooks(field));
        let mut approvers = Approvers {
            url: url?,
            keys: keys?,
            accounts: accounts?,
            oidc: oidc?,
            aliases: aliases?,
            slack: None,
            webhooks: webhooks?,
            sessions: sessions?,
        };
        if let Some(field) = slack {
            approvers.slack = Some(people.slack(&field, &approvers)?);
        }
        if let (Some(at), None) = (&oidc_at, &approvers.url) {
            at.error(
                "the identity provider must send people back to a URL, and there is none",
                "add `url` beside it: where browsers reach the approver listener, such as `https://approve.shop.example`",
            );
            return None;
        }
        if approvers.is_empty() {
            field.error(
                "there is nobody who may approve",
                "add `keys`, `accounts` or `oidc`, or remove `approvers`",
            );
            return None;
        }
        Some(approvers)
    }
}

struct People<'r> {
    reading: &'r Reading<'r>,
    issuer: &'r Arc<str>,
}

impl People<'_> {
    fn keys(&self, field: &Field<'_>) -> Option<Vec<ApproverKey>> {
        let mut keys: Vec<ApproverKey> = Vec::new();
        let mut whole = true;
        for entry in field.filled_list()? {
            let Some(key) = self.key(&entry) else {
                whole = false;
                continue;
            };
            let same = |other: &ApproverKey| match (
                other.who.id == key.who.id,
                other.digest == key.digest,
            ) {
                (true, _) => Some("subject"),
                (_, true) => Some("key"),
                _ => None,
            };
            if let Some(what) = keys.iter().find_map(same) {
                entry.error(
                    format!("an approver above has the same {what}"),
                    "name each person once, with a key of their own",
                );
            }
            keys.push(key);
        }
        whole.then_some(keys)
    }

    fn key(&self, field: &Field<'_>) -> Option<ApproverKey> {
        let mut fields = field.map()?;
        let found = fields.exactly_one(&["key_env", "key_sha256"]);
        let digest = found.and_then(|(key, field)| match key {
            "key_env" => {
                let secret = self.reading.secrets.key(&field)?;
                Some(api_key::sha256(secret.0.as_bytes()))
            }
            _ => digest(&field),
        });
        let who = self.who(&mut fields);
        Some(ApproverKey {
            digest: digest?,
            who: who?,
        })
    }

    fn who(&self, fields: &mut Fields<'_>) -> Option<Approver> {
        let id = self.id(fields);
        let roles = fields.optional_or("roles", Vec::new(), names);
        let tenants = fields.optional_or("tenants", None, |field| texts(field).map(Some));
        Some(Approver {
            id: id?,
            roles: roles?,
            tenants: tenants?,
        })
    }

    fn id(&self, fields: &mut Fields<'_>) -> Option<HumanId> {
        let subject = fields.required("subject").and_then(|f| f.text());
        let issuer = fields.optional_or("issuer", Arc::clone(self.issuer), |field| {
            field.text().map(Arc::from)
        });
        Some(HumanId {
            issuer: issuer?,
            subject: subject?.into(),
        })
    }

    fn accounts(&self, field: &Field<'_>) -> Option<Vec<Account>> {
        let mut accounts: Vec<Account> = Vec::new();
        let mut whole = true;
        for entry in field.filled_list()? {
            let Some(account) = entry.map().and_then(|mut fields| {
                let name = fields.required("name").and_then(|f| f.text());
                let hash = fields.exactly_one(&["password_hash", "password_hash_env"]);
                let hash = hash.and_then(|(key, field)| {
                    let hash = match key {
                        "password_hash" => Secret(field.text()?.into()),
                        _ => self.reading.secrets.get(&field)?,
                    };
                    if let Err(why) = password::check(&hash.0) {
                        field.error(
                            format!("`{}` holds no hash of a password: {why}", field.path()),
                            "make it with `holdpoint approver hash`",
                        );
                        return None;
                    }
                    Some(hash)
                });
                let who = self.who(&mut fields);
                Some(Account {
                    name: name?.into(),
                    hash: hash?,
                    who: who?,
                })
            }) else {
                whole = false;
                continue;
            };
            if accounts.iter().any(|other| other.name == account.name) {
                entry.error(
                    "an account above has the same name",
                    "give each person an account of their own",
                );
                whole = false;
            }
            accounts.push(account);
        }
        whole.then_some(accounts)
    }

    fn oidc(&self, field: &Field<'_>, principals: Option<&Principals>) -> Option<Oidc> {
        let mut fields = field.map()?;
        let default = JwtPrincipals::new("", "", KeySource::Inline(bytes::Bytes::new()));
        let issuer = fields.required("issuer");
        let issuer = issuer.and_then(|field| safe_url(&field).map(|_| field.text()))?;
        let client_id = fields.required("client_id").and_then(|f| f.text());
        let secret = fields.optional("client_secret_env");
        let secret = secret.map_or(Some(None), |field| {
            self.reading.secrets.get(&field).map(Some)
        });
        let ca = fields.optional("ca");
        let ca = ca.map_or(Some(None), |field| self.reading.path(&field).map(Some));
        let scopes = fields.optional_or("scopes", Vec::new(), texts);
        let (mut subject, mut roles, mut tenants_claim) =
            ("sub".to_owned(), "roles".to_owned(), None);
        if let Some(claims) = fields.optional("claims") {
            let mut fields = claims.map()?;
            subject = fields.optional_or("subject", subject, claim)?;
            roles = fields.optional_or("roles", roles, claim)?;
            tenants_claim = fields.optional_or("tenants", None, |f| claim(f).map(Some))?;
        }
        let tenants = fields.optional("tenants");
        if let (Some(_), Some(field)) = (&tenants_claim, &tenants) {
            field.error(
                "`tenants` has no effect: `claims.tenants` says whose tickets a person sees",
                "keep one of the two",
            );
            return None;
        }
        let tenants = tenants.map_or(Some(None), |field| texts(&field).map(Some));
        let require = fields.optional_or("require", Vec::new(), texts);
        let approver_roles = fields.optional_or("approver_roles", Vec::new(), texts);
        let algorithms = fields.optional_or("algorithms", default.algorithms, algorithms);
        let leeway = fields.optional_or("leeway", default.leeway, leeway);
        let audience = fields.optional("api_audience");
        let audience = match &audience {
            Some(field) => api_audience(field, issuer?, client_id?, principals).map(Some),
            None => Some(None),
        };
        Some(Oidc {
            issuer: issuer?.into(),
            client_id: client_id?.to_owned(),
            client_secret: secret?,
            ca: ca?,
            scopes: scopes?,
            subject,
            roles,
            tenants_claim,
            tenants: tenants?,
            require: require?,
            approver_roles: approver_roles?,
            algorithms: algorithms?,
            api_audience: audience?,
            leeway: leeway?,
        })
    }

    /// One human each; two that share a name are one.
    fn aliases(&self, field: &Field<'_>) -> Option<Vec<BTreeSet<HumanId>>> {
        let mut sets: Vec<BTreeSet<HumanId>> = Vec::new();
        for entry in field.filled_list()? {
            let mut fields = entry.map()?;
            let id = self.id(&mut fields);
            let also = fields.required("is").and_then(|field| {
                let read: Vec<_> = field
                    .filled_list()?
                    .iter()
                    .map(|field| field.map().and_then(|mut fields| self.id(&mut fields)))
                    .collect();
                read.into_iter().collect::<Option<Vec<_>>>()
            });
            let mut set: BTreeSet<HumanId> = also?.into_iter().collect();
            set.insert(id?);
            if set.len() < 2 {
                entry.error(
                    "this says that a person is themselves",
                    "name in `is` what the same person is called elsewhere, with `issuer` and `subject`",
                );
                return None;
            }
            sets.retain(|other| {
                let apart = other.is_disjoint(&set);
                if !apart {
                    set.extend(other.iter().cloned());
                }
                apart
            });
            sets.push(set);
        }
        Some(sets)
    }

    fn slack(&self, field: &Field<'_>, approvers: &Approvers) -> Option<Slack> {
        let mut fields = field.map()?;
        let secret = fields.required("signing_secret_env");
        let signing_secret = secret.and_then(|f| self.reading.secrets.key(&f));
        let users = fields.required("users").and_then(|field| {
            let mut users = BTreeMap::new();
            for (key, field) in field.entries()? {
                let user = self.slack_user(&field, approvers)?;
                users.insert(key.text().to_owned(), user);
            }
            if users.is_empty() {
                field.error(
                    "no user of Slack is anybody",
                    "write Slack's user id and whose it is, such as `U012ABCDEF: ann`",
                );
                return None;
            }
            Some(users)
        });
        let post = fields.optional("post");
        let post = post.map_or(Some(None), |field| self.slack_post(&field).map(Some));
        Some(Slack {
            signing_secret: signing_secret?,
            users: users?,
            post: post?,
        })
    }

    /// The subject of a key or account, or somebody with roles of their own.
    fn slack_user(&self, field: &Field<'_>, approvers: &Approvers) -> Option<Approver> {
        if matches!(field.node().kind, Kind::Map(_)) {
            return self.who(&mut field.map()?);
        }
        let id = HumanId::new(Arc::clone(self.issuer), field.text()?);
        let known = approvers.named().find(|known| known.id == id);
        if known.is_none() {
            field.error(
                format!("no key and no account has the subject `{}`", id.subject),
                "write `{subject: …, roles: […]}` for somebody who has neither",
            );
        }
        known.cloned()
    }

    fn slack_post(&self, field: &Field<'_>) -> Option<SlackPost> {
        let mut fields = field.map()?;
        let found = fields.exactly_one(&["webhook_url_env", "token_env"]);
        let (key, secret_at) = found?;
        let secret = self.reading.secrets.get(&secret_at)?;
        if key == "webhook_url_env" {
            let fine = Url::parse(&secret.0).is_ok_and(|url| is_safe(&url));
            if !fine {
                secret_at.error(
                    "the variable holds no URL with `https`",
                    "set it to the URL that Slack shows for the incoming webhook",
                );
                return None;
            }
            return Some(SlackPost::Webhook(secret));
        }
        let channel = fields.required("channel").and_then(|f| f.text());
        let api = match fields.optional("api_url") {
            Some(field) => {
                let mut url = safe_url(&field)?;
                if !url.path().ends_with('/') {
                    url.set_path(&format!("{}/", url.path()));
                }
                Some(url)
            }
            None => Url::parse(SLACK_API).ok(),
        };
        Some(SlackPost::Bot {
            api: api?,
            token: secret,
            channel: channel?.to_owned(),
        })
    }

    fn webhooks(&self, field: &Field<'_>) -> Option<Vec<Webhook>> {
        let mut webhooks: Vec<Webhook> = Vec::new();
        let mut whole = true;
        for entry in field.filled_list()? {
            let Some(webhook) = self.webhook(&entry) else {
                whole = false;
                continue;
            };
            if webhooks.iter().any(|other| other.name == webhook.name) {
                entry.error(
                    "a webhook above has the same name",
                    "give each a name of its own: what was told already is kept under it",
                );
                whole = false;
            }
            webhooks.push(webhook);
        }
        whole.then_some(webhooks)
    }

    fn webhook(&self, field: &Field<'_>) -> Option<Webhook> {
        let mut fields = field.map()?;
        let name = fields.required("name").and_then(|f| f.name());
        let url_at = fields.required("url");
        let secret = fields.required("secret_env");
        let secret = secret.and_then(|f| self.reading.secrets.key(&f));
        let events = fields.optional("events");
        let events = events.map_or(Some(None), |field| {
            let words: Vec<_> = Event::ALL.iter().map(|it| (it.as_str(), *it)).collect();
            let read: Vec<_> = field
                .filled_list()?
                .iter()
                .map(|field| field.choice(&words))
                .collect();
            read.into_iter().collect::<Option<BTreeSet<_>>>().map(Some)
        });
        let private = fields.optional_or("private", false, Field::bool);
        let ca = fields.optional("ca");
        let ca = ca.map_or(Some(None), |field| self.reading.path(&field).map(Some));
        let (url_at, private) = (url_at?, private?);
        let url = safe_url(&url_at)?;
        if !private && !is_public(&url) {
            url_at.error(
                "the webhook leads to a private address, or to this machine",
                "write a public name, or `private: true` beside it",
            );
            return None;
        }
        Some(Webhook {
            name: name?.to_owned(),
            url,
            secret: secret?,
            events: events?,
            private,
            ca: ca?,
        })
    }
}

/// Access tokens of agents must not be good here.
fn api_audience(
    field: &Field<'_>,
    issuer: &str,
    client_id: &str,
    principals: Option<&Principals>,
) -> Option<String> {
    let audience = field.text()?;
    if audience == client_id {
        field.error(
            "this is the audience of ID tokens, which are no keys",
            "have the issuer give access tokens for another audience than `client_id`",
        );
        return None;
    }
    if let Some(Principals::Jwt(jwt)) = principals
        && *jwt.issuer == *issuer
        && jwt.audiences.iter().any(|one| one == audience)
    {
        field.error(
            "tokens of agents are for this audience: an agent could approve",
            "have the issuer give approvers tokens for another audience than `principal.jwt.audience`",
        );
        return None;
    }
    Some(audience.to_owned())
}

fn sessions(field: &Field<'_>) -> Option<SessionTimes> {
    let default = SessionTimes::default();
    let mut fields = field.map()?;
    let idle = fields.optional_or("idle", default.idle, positive_duration);
    let absolute = fields.optional_or("absolute", default.absolute, positive_duration);
    let fresh = fields.optional_or("fresh", default.fresh, positive_duration);
    Some(SessionTimes {
        idle: idle?,
        absolute: absolute?,
        fresh: fresh?,
    })
}

fn names(field: &Field<'_>) -> Option<Vec<String>> {
    let read: Vec<_> = field.list()?.iter().map(Field::name).collect();
    let read = read.into_iter();
    read.map(|name| name.map(str::to_owned)).collect()
}

fn texts(field: &Field<'_>) -> Option<Vec<String>> {
    let read: Vec<_> = field.filled_list()?.iter().map(Field::text).collect();
    let read = read.into_iter();
    read.map(|text| text.map(str::to_owned)).collect()
}
