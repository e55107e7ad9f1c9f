//! The identity provider: the code flow of `OpenID` Connect (Core 1.0 section 3.1) with PKCE (RFC 7636), state and nonce bound to the
//! browser by a cookie, issuer identification (RFC 9207), and ID tokens verified as the agents' tokens are.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::Url;

use super::pending::Pending;
use super::{Next, append_cookie};
use crate::approvals::Approvals;
use crate::approvals::human::{cookie, set_cookie};
use crate::approvals::outbound::{Outbound, Reach};
use crate::approvals::people::{People, Person};
use crate::approvals::place::Place;
use crate::approvals::sessions::random;
use crate::approvals::view;
use crate::clock::Clock;
use crate::identity::{self, Fetch, Jwks, LARGEST_JWKS, Tokens};
use crate::settings::{ClaimNames, HumanId, JwtPrincipals, KeySource, Oidc, is_local};
use crate::wire::json::{Document, Kind, Node};
use crate::wire::seal::{Sealer, SealingKey};

/// The cookie of a log-in on its way. `Lax`, for the provider's answer comes from another site.
const PENDING: &str = "__Host-holdpoint-login";
/// How long a person may take at the provider.
const TIME: Duration = Duration::from_mins(10);
/// Largest answers of the provider, in bytes.
const LARGEST: usize = 256 << 10;
/// Longest code or state in an answer.
const LONGEST: usize = 4096;

/// The identity provider.
pub(crate) struct Provider {
    oidc: Oidc,
    redirect: String,
    http: Outbound,
    sealer: Sealer,
    known: OnceCell<Known>,
}

/// What its metadata say (`OpenID` Connect Discovery 1.0).
struct Known {
    authorization: Url,
    token: Url,
    /// The secret goes into the form: it does not take it by `Basic`.
    secret_in_form: bool,
    id_tokens: Tokens,
    access_tokens: Option<Tokens>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

struct Remote(Outbound, Url);

impl Fetch for Remote {
    fn fetch(&self) -> BoxFuture<'_, Result<Bytes, String>> {
        Box::pin(get(&self.0, &self.1, LARGEST_JWKS))
    }
}

async fn get(http: &Outbound, url: &Url, most: usize) -> Result<Bytes, String> {
    let request = Request::get(url.as_str())
        .header(header::ACCEPT, "application/json")
        .body(Full::default())
        .map_err(|_| "its URL cannot be asked for".to_owned())?;
    let (status, body) = http.send(request, most).await?;
    if status != StatusCode::OK {
        return Err(format!("it is answered with {status}"));
    }
    Ok(body)
}

impl Provider {
    pub(super) fn new(oidc: &Oidc, place: &Place, keys: &[SealingKey]) -> Result<Self, String> {
        let redirect = place.link("/login/callback");
        Ok(Self {
            redirect: redirect.ok_or("`approvers.url` is missing")?,
            http: Outbound::new(oidc.ca.as_deref(), Reach::Private)?,
            oidc: oidc.clone(),
            sealer: Sealer::new(keys).ok_or("the system gives no randomness")?,
            known: OnceCell::new(),
        })
    }

    /// Reads what the provider says of itself, and its keys. Asked at start, so that a log-in that cannot work is no surprise.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) async fn load(&self, clock: &Arc<dyn Clock>) -> Result<(), String> {
        let known = self.known.get_or_try_init(|| self.discover(clock));
        known.await.map(|_| ())
    }

    async fn discover(&self, clock: &Arc<dyn Clock>) -> Result<Known, String> {
        let issuer = &*self.oidc.issuer;
        let at = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let at = Url::parse(&at).map_err(|_| "the issuer is no URL".to_owned())?;
        let text = get(&self.http, &at, LARGEST).await;
        let text = text.map_err(|cause| format!("{at} cannot be read: {cause}"))?;
        let metadata: Metadata = serde_json::from_slice(&text)
            .map_err(|_| format!("{at} is no metadata of an identity provider"))?;
        if metadata.issuer != issuer {
            return Err(format!("{at} speaks for another issuer"));
        }
        let endpoint = |text: &str| {
            let url = Url::parse(text)
                .ok()
                .filter(|url| url.scheme() == "https" || (url.scheme() == "http" && is_local(url)));
            url.ok_or_else(|| format!("{at} names an endpoint without `https`"))
        };
        let keys = endpoint(&metadata.jwks_uri)?;
        let tokens = |audience: &str| {
            let mut rules = JwtPrincipals::new(issuer, audience, KeySource::Inline(Bytes::new()));
            rules.algorithms.clone_from(&self.oidc.algorithms);
            rules.leeway = self.oidc.leeway;
            rules.claims = ClaimNames::default();
            let from = Box::new(Remote(self.http.clone(), keys.clone()));
            Tokens::new(
                rules.clone(),
                Jwks::new(from, rules.timing, Arc::clone(clock)),
            )
        };
        let id_tokens = tokens(&self.oidc.client_id);
        id_tokens
            .load()
            .await
            .map_err(|cause| format!("the keys at {keys} cannot be used: {cause}"))?;
        let methods = metadata.token_endpoint_auth_methods_supported;
        let methods = methods.unwrap_or_else(|| vec!["client_secret_basic".to_owned()]);
        Ok(Known {
            authorization: endpoint(&metadata.authorization_endpoint)?,
            token: endpoint(&metadata.token_endpoint)?,
            secret_in_form: !methods.iter().any(|method| method == "client_secret_basic"),
            id_tokens,
            access_tokens: self.oidc.api_audience.as_deref().map(tokens),
        })
    }

    /// Where to send the browser, and what its cookie must remember.
    async fn start(
        &self,
        next: &Next,
        fresh_for: Duration,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Url, String), String> {
        let known = self.known.get_or_try_init(|| self.discover(clock)).await?;
        let random = || random().map_err(|_| "the system gives no randomness".to_owned());
        let pending = Pending {
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            next: next.path().to_owned(),
            fresh: next.is_fresh(),
            until: (clock.now() + SignedDuration::from_secs(600)).as_second(),
        };
        let challenge = digest(&SHA256, pending.verifier.as_bytes());
        let challenge = BASE64URL_NOPAD.encode(challenge.as_ref());
        let mut url = known.authorization.clone();
        let scopes = std::iter::once("openid").chain(self.oidc.scopes.iter().map(String::as_str));
        let scopes: Vec<_> = scopes.collect();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.oidc.client_id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if pending.fresh {
            url.query_pairs_mut()
                .append_pair("prompt", "login")
                .append_pair("max_age", &fresh_for.as_secs().to_string());
        }
        let sealed = pending.close(&self.sealer);
        Ok((url, sealed.ok_or("the log-in cannot be sealed")?))
    }

    /// The person of a code, and when they have shown who they are.
    async fn finish(
        &self,
        code: &str,
        pending: &Pending,
        people: &People,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Person, Option<Timestamp>), String> {
        let known = self.known.get_or_try_init(|| self.discover(clock)).await?;
        let token = self.exchange(known, code, &pending.verifier).await?;
        let verified = known.id_tokens.claims(token.as_bytes(), &**clock).await;
        let claims = verified.map_err(|fault| format!("the ID token: {fault}"))?;
        let root = claims.root();
        let nonce = root.get("nonce").and_then(Node::as_str).unwrap_or_default();
        if verify_slices_are_equal(nonce.as_bytes(), pending.nonce.as_bytes()).is_err() {
            return Err("the ID token is for another log-in".to_owned());
        }
        // Core 1.0 section 3.1.3.7: with several audiences, or where it says so, it was made for this client.
        let party = root.get("azp").map(Node::as_str);
        let several = root.get("aud").is_some_and(|aud| aud.elements().len() > 1);
        if party.is_some_and(|party| party != Some(&self.oidc.client_id))
            || (several && party.is_none())
        {
            return Err("the ID token was made for another client".to_owned());
        }
        let shown = root.get("auth_time").and_then(|at| seconds(&claims, at));
        Ok((self.person(&claims, people)?, shown))
    }

    async fn exchange(&self, known: &Known, code: &str, verifier: &str) -> Result<String, String> {
        let request = self.token_request(known, code, verifier);
        let request = request.ok_or("the token endpoint cannot be asked")?;
        let sent = self.http.send(request, LARGEST).await;
        let (status, body) = sent.map_err(|cause| format!("the token endpoint: {cause}"))?;
        if status != StatusCode::OK {
            return Err(format!("the token endpoint answers {status}"));
        }
        let document = Document::read(body, 8).map_err(|_| "its answer is not strict JSON")?;
        let token = document.root().get("id_token").and_then(Node::as_str);
        token
            .map(str::to_owned)
            .ok_or_else(|| "its answer has no ID token".to_owned())
    }

    fn token_request(
        &self,
        known: &Known,
        code: &str,
        verifier: &str,
    ) -> Option<Request<Full<Bytes>>> {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("code_verifier", verifier);
        let mut request = Request::post(known.token.as_str())
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        match &self.oidc.client_secret {
            Some(secret) if !known.secret_in_form => {
                // RFC 6749 section 2.3.1: both are form-encoded first.
                let encoded = |text: &str| {
                    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>()
                };
                let pair = format!("{}:{}", encoded(&self.oidc.client_id), encoded(&secret.0));
                let basic = format!("Basic {}", BASE64.encode(pair.as_bytes()));
                request = request.header(header::AUTHORIZATION, basic);
            }
            Some(secret) => {
                form.append_pair("client_id", &self.oidc.client_id)
                    .append_pair("client_secret", &secret.0);
            }
            None => {
                form.append_pair("client_id", &self.oidc.client_id);
            }
        }
        request.body(Full::from(form.finish())).ok()
    }

    /// Whose access token it is: one that the issuer gave for the API's own audience, to a person and not to an agent.
    pub(crate) async fn bearer(
        &self,
        token: &str,
        people: &People,
        clock: &Arc<dyn Clock>,
    ) -> Option<Person> {
        let known = self.known.get_or_try_init(|| self.discover(clock)).await;
        let tokens = known.ok()?.access_tokens.as_ref()?;
        let claims = tokens.claims(token.as_bytes(), &**clock).await.ok()?;
        if claims.root().get("act").is_some() {
            return None;
        }
        self.person(&claims, people).ok()
    }

    fn person(&self, claims: &Document, people: &People) -> Result<Person, String> {
        let root = claims.root();
        let subject = identity::text(identity::claim(root, &self.oidc.subject));
        let subject = subject.ok_or("the token has no subject")?;
        let words = |name: &str| match identity::claim(root, name) {
            None => Ok(Vec::new()),
            some => {
                let words =
                    identity::words(some).map_err(|_| format!("the claim `{name}` is no list"))?;
                Ok::<_, String>(words.iter().map(ToString::to_string).collect())
            }
        };
        let roles = words(&self.oidc.roles)?;
        let tenants = match &self.oidc.tenants_claim {
            None => self.oidc.tenants.clone(),
            Some(name) => {
                let tenants = words(name)?;
                if tenants.is_empty() {
                    return Err(format!("the claim `{name}` names no tenant"));
                }
                Some(tenants)
            }
        };
        let required = &self.oidc.require;
        if !required.is_empty() && !roles.iter().any(|role| required.contains(role)) {
            return Err("the person has none of the roles that `require` asks for".to_owned());
        }
        let id = HumanId::new(Arc::clone(&self.oidc.issuer), Arc::clone(&subject));
        let name = ["name", "preferred_username", "email"];
        let name = name.into_iter().find_map(|it| identity::text(root.get(it)));
        let known = &self.oidc.approver_roles;
        let approves = known.is_empty() || roles.iter().any(|role| known.contains(role));
        let name = name.unwrap_or(subject);
        Ok(people.logged_in(id, name, roles, tenants, approves))
    }
}

fn seconds(claims: &Document, node: &Node) -> Option<Timestamp> {
    if !matches!(node.kind, Kind::Number) {
        return None;
    }
    let (value, _) = claims.value(node).ok()?;
    Timestamp::from_second(value.as_i64()?).ok()
}

pub(super) async fn go(
    State(approvals): State<Arc<Approvals>>,
    next: Result<Query<Next>, QueryRejection>,
) -> Response {
    let Some(provider) = &approvals.login.oidc else {
        return nobody();
    };
    let next = next.map(|query| query.0).unwrap_or_default();
    let fresh_for = approvals.people.approvers().sessions.fresh;
    match provider.start(&next, fresh_for, &approvals.clock).await {
        Ok((url, sealed)) => {
            let mut response = Redirect::to(url.as_str()).into_response();
            let cookie = set_cookie(PENDING, Some((&sealed, TIME.as_secs())), "Lax");
            append_cookie(&mut response, &cookie);
            response
        }
        Err(cause) => failed(&approvals, &cause),
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Answer {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

pub(super) async fn back(
    State(approvals): State<Arc<Approvals>>,
    answer: Result<Query<Answer>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let Some(provider) = &approvals.login.oidc else {
        return nobody();
    };
    let answer = answer.map(|query| query.0).unwrap_or_default();
    let sealed = cookie(&headers, PENDING);
    let pending = sealed.and_then(|sealed| Pending::open(&provider.sealer, sealed));
    let done = async {
        let pending = pending.ok_or("no log-in was begun in this browser")?;
        if pending.until < approvals.clock.now().as_second() {
            return Err("the log-in took too long".to_owned());
        }
        let state = answer.state.unwrap_or_default();
        if verify_slices_are_equal(state.as_bytes(), pending.state.as_bytes()).is_err() {
            return Err("the answer is for another log-in".to_owned());
        }
        if answer
            .iss
            .is_some_and(|issuer| *issuer != *provider.oidc.issuer)
        {
            return Err("the answer is of another issuer".to_owned());
        }
        if answer.error.is_some() {
            return Err("the identity provider let nobody in".to_owned());
        }
        let code = answer.code.filter(|code| code.len() <= LONGEST);
        let code = code.ok_or("the answer has no code")?;
        let people = &approvals.people;
        let (person, shown) = provider
            .finish(&code, &pending, people, &approvals.clock)
            .await?;
        Ok((person, shown, pending.next))
    };
    let mut response = match done.await {
        // The browser came from another site: a page of ours must lead on, or it would not send the new cookie.
        Ok((person, shown, next)) => approvals.logged_in(&headers, person, shown, "oidc", || {
            view::bounce(&next).into_response()
        }),
        Err(cause) => failed(&approvals, &cause),
    };
    append_cookie(&mut response, &set_cookie(PENDING, None, "Lax"));
    response
}

fn nobody() -> Response {
    let text = "There is no identity provider in the config.";
    view::message(StatusCode::NOT_FOUND, "No such page", text).into_response()
}

fn failed(approvals: &Approvals, cause: &str) -> Response {
    tracing::warn!(cause, "a log-in at the identity provider failed");
    approvals.metrics.approver_login("oidc", "wrong");
    let text =
        "The log-in at the identity provider failed; the log says why. Go back and try again.";
    view::message(StatusCode::FORBIDDEN, "Not logged in", text).into_response()
}
