//! Who approves, and by which channels: everything on the approver listener.
//!
//! It knows people (keys, accounts, an identity provider, Slack's users), lets them log in, and carries their answers to the
//! ticket store: over the API (`api`), the page (`page`) and Slack (`slack`). `webhook` tells others what happened. What an
//! answer counts is the store's to say; what a credential of an agent is worth here is nothing.

pub mod api;
mod human;
mod login;
mod outbound;
mod page;
pub mod password;
mod people;
mod place;
mod sessions;
mod slack;
mod throttle;
mod view;
pub mod webhook;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::map_response;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

pub use self::human::{Human, Posted};
use self::login::Login;
pub use self::people::{People, Person};
use self::place::Place;
use self::sessions::Sessions;
use self::throttle::Throttle;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::proxy::Identify;
use crate::settings::Settings;
use crate::source::{Problem, Problems};
use crate::store::tickets::TicketStore;

/// Largest body of a request from people or programs, in bytes.
const MAX_BODY: usize = 16 << 10;

/// What the page may load and do: nothing of others, nothing inline, no frame around it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What every handler of the listener shares.
pub struct Approvals {
    /// Where tickets live.
    pub store: Arc<dyn TicketStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    people: Arc<People>,
    metrics: Arc<Metrics>,
    place: Place,
    sessions: Sessions,
    login: Login,
    /// Knows credentials of agents, which are worth nothing here.
    agents: Option<Identify>,
    /// Audit rows that strangers can cause.
    noted: Throttle<String>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals").finish_non_exhaustive()
    }
}

/// Who is at the other end of a connection to this listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) std::net::SocketAddr);

impl Approvals {
    /// Everything that the settings say of approvers, around the store.
    ///
    /// # Errors
    /// A way in that cannot work.
    pub fn new(
        settings: &Settings,
        people: Arc<People>,
        store: Arc<dyn TicketStore>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, Problems> {
        let approvers = people.approvers();
        let place = Place::new(approvers.url.clone());
        let login = Login::new(approvers, &place, settings.state_keys()).map_err(|cause| {
            Problem::new(format!("approvers cannot log in: {cause}"))
                .help("check `approvers` in the config")
        })?;
        // A fixed principal comes without a credential.
        let agents = settings.principals.header().is_some();
        let agents = agents.then(|| Identify::new(settings, Arc::clone(&clock)));
        Ok(Arc::new(Self {
            sessions: Sessions::new(approvers.sessions),
            people,
            store,
            metrics,
            place,
            login,
            agents: agents.transpose()?,
            noted: Throttle::new(1, Duration::from_mins(1)),
            clock,
        }))
    }

    /// Asks the identity provider, where there is one, whether people can log in there.
    ///
    /// # Errors
    /// They cannot.
    pub async fn load(&self) -> Result<(), Problems> {
        let Some(provider) = &self.login.oidc else {
            return Ok(());
        };
        provider.load(&self.clock).await.map_err(|cause| {
            Problem::new(format!(
                "the approvers' identity provider cannot be used: {cause}"
            ))
            .help("check `approvers.oidc` in the config: nobody could log in there")
            .into()
        })
    }

    /// Counts a request that was turned away.
    fn refused(&self, why: &'static str) {
        tracing::warn!(why, "a request to the approver listener was refused");
        self.metrics.approver_refused(why);
    }
}

/// The whole listener.
pub fn router(approvals: Arc<Approvals>) -> Router {
    Router::new()
        .merge(api::router(&approvals))
        .merge(login::router())
        .merge(slack::router())
        .merge(page::router())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(map_response(headers))
        .with_state(approvals)
}

/// Laid over every answer.
async fn headers(mut response: Response) -> Response {
    const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
    const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: browsers then hide where our own forms come from.
        (header::REFERRER_POLICY, "same-origin"),
        (OPENER, "same-origin"),
        (RESOURCE, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
