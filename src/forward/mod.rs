//! The forward proxy: where an agent's own fetches leave. `CONNECT` and plain `http` in absolute form.
//!
//! A request's way: its head is read strictly; the principal is told by `Proxy-Authorization`; the egress layer judges the
//! target by name, before any look-up, and then the body of a plain request; the name is looked up once and every answer
//! checked; only what was checked is dialled. A tunnel must begin with a TLS hello for the very name that was asked for: until
//! then nothing is dialled. Inside a tunnel nothing is seen, which is counted.
//!
//! It judges nothing itself and follows no redirect. `serve` binds it to a socket.

mod copy;
mod credential;
mod dial;
mod head;
mod hello;
mod judge;
mod plain;
mod proof;
mod tunnel;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use dial::{CheckError, Checked, Connect, Dialler, Network, Resolver, SystemResolver, Tcp};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use judge::Asking;
pub(crate) use proof::{cells, redirects};
use tokio::sync::Semaphore;
pub use tunnel::Tunnel;

use crate::guard::Guard;
use crate::identity::ClientNames;
use crate::item::EgressTarget;
use crate::layers::egress::{self, Denied, Entry, Host, Pattern, Rule};
use crate::metrics::{Unscanned, UpstreamFault};
use crate::names::{RouteName, RuleId, UpstreamName};
use crate::policy::{Budget, PolicyHash};
use crate::protocols::http_tools::problem;
use crate::provenance::Tie;
use crate::proxy::passage::Passage;
use crate::proxy::refuse::{self, Refused};
use crate::proxy::shaped::{HASH_PREFIX, POLICY, refused};
use crate::proxy::{Body, Common, Identify, Setup, error_codes, pseudonym};
use crate::settings::FORWARD;
use crate::source::{Problem, Problems};
use crate::verdict::{LayerId, Mode, Reason};
use crate::wire::body;

/// The protocol's name in metrics.
pub(crate) const PROTOCOL: &str = "forward_proxy";

/// How long the rest of a refused request is read, so that its sender gets to read the answer.
const LINGER: Duration = Duration::from_secs(2);

/// The forward proxy.
#[derive(Clone)]
pub struct ForwardProxy(Arc<Shared>);

impl std::fmt::Debug for ForwardProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForwardProxy").finish_non_exhaustive()
    }
}

/// What requests share.
struct Shared {
    setup: Setup,
    identify: Identify,
    matcher: Matcher,
    dialler: Dialler,
    permits: Arc<Semaphore>,
    pseudonym: String,
    route: RouteName,
    /// With the agents' listener.
    common: Common,
}

/// The policy's rule, compiled.
#[derive(Clone)]
struct Matcher {
    of: PolicyHash,
    id: RuleId,
    rule: Arc<Rule>,
    budget: Option<Budget>,
}

impl Matcher {
    fn of(guard: &Guard) -> Result<Self, Problems> {
        let policy = guard.policy();
        let missing = || {
            Problem::new("`listen.forward` is set and the policy has no `forward`: nobody says where agents may go")
                .help("add `forward: {allow: [LIST]}` to the policy, or remove `listen.forward`")
        };
        if policy.forward.is_none() {
            return Err(missing().into());
        }
        if policy.modes.of(LayerId::Egress) == Mode::Off {
            return Err(Problem::new("`listen.forward` is set and the layer `egress` is off: nobody judges where agents go")
                .help("set `layers.egress: enforce` in the policy, or remove `listen.forward`")
                .into());
        }
        let egress::ForwardMatcher { id, rule, budget } =
            egress::forward_matcher(policy)?.ok_or_else(missing)?;
        Ok(Self {
            of: policy.hash.clone(),
            id,
            rule: Arc::new(rule),
            budget,
        })
    }
}

/// What a request gets.
pub enum Reply {
    /// An answer, and nothing after it.
    Answer(Response<Body>),
    /// A head; what comes after it is the tunnel's.
    Tunnel(Response<Body>, Box<Tunnel>),
}

impl ForwardProxy {
    /// A forward proxy that never dials `own`, the listeners of this process. `common`: with the agents' listener.
    ///
    /// # Errors
    /// A policy that does not say where agents may go, or whose layer `egress` is off.
    pub fn new(
        setup: Setup,
        common: Common,
        network: Network,
        own: Vec<SocketAddr>,
    ) -> Result<Self, Problems> {
        let matcher = Matcher::of(&setup.guard.load())?;
        let route = RouteName::from(FORWARD);
        let codes: Vec<_> = error_codes().collect();
        setup.metrics.announce_route(&route, PROTOCOL, &codes);
        setup
            .metrics
            .announce_upstream(&UpstreamName::from(FORWARD));
        let settings = &setup.settings;
        let clock = Arc::clone(setup.guard.load().clock());
        let identify = Identify::new(settings, clock)?;
        Ok(Self(Arc::new(Shared {
            identify,
            dialler: Dialler::new(network, own, settings.timeouts.connect),
            permits: Arc::new(Semaphore::new(settings.limits.concurrency)),
            pseudonym: pseudonym(),
            matcher,
            route,
            common,
            setup,
        })))
    }

    /// Reads what requests need before the first comes: the keys of the issuer of tokens, where there is one.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn load(&self) -> Result<(), Problems> {
        self.0.identify.load().await
    }

    /// Answers any request. A `CONNECT` that is answered with 200 gives a tunnel, to be run on the same connection.
    pub async fn answer(&self, request: http::Request<Body>) -> Reply {
        let shared = &self.0;
        let (parts, mut body) = request.into_parts();
        let guard = shared.setup.guard.load_full();
        let named = (shared.route.clone(), PROTOCOL);
        let mut passage = Passage::begin(&shared.setup.metrics, Some(named));
        let connect = parts.method == Method::CONNECT;
        // Who waits for `100 Continue` has not begun to send.
        let waits = connect || parts.headers.contains_key(header::EXPECT);
        let asked = match Arc::clone(&shared.permits).try_acquire_owned() {
            Err(_) => Err(refuse::OVERLOADED.refusal()),
            Ok(permit) => {
                passage.hold(Arc::new(permit));
                shared.asked(&parts, guard.clone()).await
            }
        };
        let passed = match asked {
            Err(refusal) => Err(refusal),
            Ok((asking, target)) if connect => {
                match tunnel::open(self, asking, target, &parts).await {
                    Ok(opened) => {
                        let mut response = Response::new(crate::proxy::full(""));
                        with_policy(&mut response, &guard);
                        passage.answered(response.status());
                        return Reply::Tunnel(response, Box::new(opened.held_by(passage)));
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            Ok((asking, target)) => plain::pass(shared, asking, target, &parts, &mut body).await,
        };
        let mut response = match passed {
            Ok(response) => response,
            Err(refusal) => {
                passage.refused(refusal.code);
                if refusal.status != StatusCode::SERVICE_UNAVAILABLE && !waits {
                    let limit = shared.setup.settings.limits.request_body;
                    body::discard(&mut body, limit, LINGER).await;
                }
                let mut response = refused(problem(&refusal), &refusal);
                // What came behind its head is not read: neither as a tunnel nor as a next request.
                response
                    .headers_mut()
                    .insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            }
        };
        with_policy(&mut response, &guard);
        Reply::Answer(passage.carried_by(response))
    }
}

fn with_policy(response: &mut Response<Body>, guard: &Guard) {
    let hash = &guard.policy().hash.0;
    if let Ok(value) = HeaderValue::from_str(hash.get(..HASH_PREFIX).unwrap_or(hash)) {
        response.headers_mut().insert(POLICY, value);
    }
}

impl Shared {
    /// Who asks for what.
    async fn asked(
        &self,
        parts: &Parts,
        guard: Arc<Guard>,
    ) -> Result<(Asking, EgressTarget), Refused> {
        let target = head::target(parts)?;
        head::check(parts, &self.pseudonym)?;
        let names = parts.extensions.get::<Arc<ClientNames>>();
        let known = (&self.identify, &*self.setup.settings);
        let clock = guard.clock();
        let session = credential::session(
            &parts.headers,
            names.map(AsRef::as_ref),
            known,
            clock.as_ref(),
        )
        .await?;
        let matcher = if self.matcher.of == guard.policy().hash {
            self.matcher.clone()
        } else {
            // Another policy has been swapped in.
            Matcher::of(&guard).map_err(|problems| {
                tracing::error!(%problems, "the forward proxy cannot run under this policy");
                refuse::INTERNAL.refusal()
            })?
        };
        let tie = Tie::of(&session).filter(|_| guard.traces());
        let asking = Asking {
            evidence: tie.map(|tie| self.common.evidence.evidence(&tie)),
            guard,
            rule: matcher.rule,
            id: matcher.id,
            budget: matcher.budget,
            metrics: Arc::clone(&self.setup.metrics),
            session: Arc::new(session),
            route: self.route.clone(),
        };
        Ok((asking, target))
    }

    /// What the matcher itself reads, which is what is dialled: nothing else may have been judged. Where the layer only
    /// watches, what it would refuse is read without it.
    async fn agreed<T>(
        &self,
        asking: &Asking,
        target: &EgressTarget,
        read: Result<T, Denied>,
        otherwise: impl FnOnce() -> Option<T>,
    ) -> Result<T, Refused> {
        let denied = match read {
            Ok(read) => return Ok(read),
            Err(denied) => denied,
        };
        let plain = if asking.enforces() { None } else { otherwise() };
        match plain {
            Some(read) => Ok(read),
            None => Err(asking.refuse(target, denied, denied.code.reason()).await),
        }
    }

    /// The addresses that may be dialled for a host: looked up once, all of them checked.
    async fn checked(
        &self,
        asking: &Asking,
        target: &EgressTarget,
        host: &Host,
        port: u16,
    ) -> Result<Checked, Refused> {
        let open;
        let rule: &Rule = if asking.enforces() {
            &asking.rule
        } else {
            open = anywhere_public(&asking.rule, port);
            &open
        };
        let check = |answers: &[_]| egress::resolve(rule, host, port, answers);
        let denied = match self.dialler.check(host, port, check).await {
            Ok(checked) => return Ok(checked),
            Err(CheckError::Refused(denied)) => denied,
            Err(CheckError::Own) => OWN_LISTENER,
            Err(error @ CheckError::Unresolved(_)) => {
                self.fault(UpstreamFault::Connect, &error);
                return Err(refuse::NAME_UNRESOLVED.refusal());
            }
        };
        let reason = Reason::AddressNotAllowed;
        Err(asking.refuse(target, denied, reason).await)
    }

    fn unscanned(&self, reason: Unscanned, bytes: usize) {
        self.setup.metrics.unscanned(&self.route, reason, bytes);
    }

    /// Logs and counts what a peer did wrong. Names of hosts are the agent's words: they stay out.
    fn fault(&self, fault: UpstreamFault, cause: &dyn std::fmt::Display) {
        self.setup
            .metrics
            .upstream_error(&UpstreamName::from(FORWARD), fault);
        tracing::warn!(route = FORWARD, kind = fault.as_str(), %cause, "a peer of the forward proxy failed");
    }
}

const OWN_LISTENER: Denied =
    Denied::new(egress::Code::PrivateAddress, "a listener of this process");

/// The rule that also lets every public host pass at the port: for names that a layer in shadow would refuse. Addresses are
/// refused all the same.
fn anywhere_public(rule: &Rule, port: u16) -> Rule {
    let mut open = rule.clone();
    let mut entry = Entry::new(Pattern::Public);
    entry.ports = vec![port];
    open.allow(entry);
    open
}
