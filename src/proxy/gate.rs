//! The one place that knows the order: route, principal, session, whole body, strict JSON, items, verdicts, upstream,
//! answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::admission::Admission;
use super::answer::{self, Incoming};
use super::claims::Claims;
use super::headers::Forwarding;
use super::hold::{self, Holds, Waiting};
use super::identify::{Identify, scoped};
use super::passage::Passage;
use super::placeholders::Placeholders;
use super::receive::asks_for_websocket;
use super::redeem::Redemption;
use super::refuse::{self, Refused};
use super::route::{Entry, Routes};
use super::sessions::Sessions;
use super::shaped::{HASH_PREFIX, POLICY, refused};
use super::trail::Trail;
use super::transit::{Judged, Transit};
use super::upstream::Upstream;
use super::{Body, Setup, full};
use crate::guard::{Cleared, Decision, Guard};
use crate::item::{Leg, RouteKind, keep_sources};
use crate::metrics::Unscanned;
use crate::policy::PolicyHash;
use crate::principal::{Principal, Session};
use crate::protocols::http_tools::problem;
use crate::protocols::openai_chat;
use crate::protocols::{Refusal, Request, Written};
use crate::provenance::{self, Tie};
use crate::record::Recorder;
use crate::settings;
use crate::wire::body;
use crate::wire::budget::Budget;
use crate::wire::offload::offload;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How long the rest of a refused request is read, so that its sender gets to read the answer.
const LINGER: Duration = Duration::from_secs(2);

/// A request on its way in.
struct Inbound<'r> {
    /// Below the route's prefix.
    below: Uri,
    parts: Parts,
    body: &'r mut Body,
    /// Set once the request is read: what a refusal of it must name.
    address: &'r mut Option<Bytes>,
    /// Whose judgement holds, where that is not the policy that the request began with.
    judged_by: &'r mut Option<PolicyHash>,
}

/// Everything requests share.
pub(super) struct Gate<U> {
    pub(super) setup: Setup,
    pub(super) routes: Routes,
    pub(super) admission: Admission,
    pub(super) identify: Identify,
    pub(super) forwarding: Forwarding,
    pub(super) secrets: Placeholders,
    pub(super) permits: Arc<Semaphore>,
    pub(super) memory: Budget,
    pub(super) tasks: TaskTracker,
    pub(super) holds: Arc<Holds>,
    pub(super) sessions: Sessions,
    pub(super) evidence: Arc<provenance::Sessions>,
    /// `None`: nothing is recorded.
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) upstream: U,
}

impl<U: Upstream> Gate<U> {
    /// Answers any request.
    pub(super) async fn answer(self: &Arc<Self>, request: http::Request<Body>) -> Response<Body> {
        let (parts, mut body) = request.into_parts();
        let waits = parts.headers.contains_key(header::EXPECT);
        // Where no route is found: this SDK shows nothing of an error that is not in its API's shape.
        let asks_openai = parts.uri.path().ends_with("/chat/completions");
        // Once: both legs and the answer's header are of one policy, whatever is swapped in meanwhile.
        let guard = self.setup.guard.load_full();
        let routed = self.routes.find(&parts.uri);
        let entry = routed.as_ref().ok().map(|(entry, _)| Arc::clone(entry));
        let named = entry
            .as_ref()
            .map(|entry| (entry.route.name.clone(), entry.protocol.name()));
        let mut passage = Passage::begin(&self.setup.metrics, named);
        let (mut address, mut judged_by) = (None, None);
        let answered = match routed {
            Err(code) => Err(code.refusal()),
            Ok((entry, below)) => match Arc::clone(&self.permits).try_acquire_owned() {
                Err(_) => Err(refuse::OVERLOADED.refusal()),
                Ok(permit) => {
                    let permit = Arc::new(permit);
                    passage.hold(Arc::clone(&permit));
                    let guard = Arc::clone(&guard);
                    let inbound = Inbound {
                        below,
                        parts,
                        body: &mut body,
                        address: &mut address,
                        judged_by: &mut judged_by,
                    };
                    let passed = self.pass(&entry, guard, inbound, permit);
                    AssertUnwindSafe(passed)
                        .catch_unwind()
                        .await
                        .unwrap_or_else(|_| Err(refuse::INTERNAL.refusal()))
                }
            },
        };
        let mut response = match answered {
            Ok(response) => response,
            Err(refusal) => {
                passage.refused(refusal.code);
                // Who waits for `100 Continue` has not begun to send.
                if !waits && refusal.status != StatusCode::SERVICE_UNAVAILABLE {
                    let limit = self.setup.settings.limits.request_body;
                    body::discard(&mut body, limit, LINGER).await;
                }
                let shaped = match &entry {
                    Some(entry) => entry.protocol.refuse(&refusal, address.as_ref()),
                    None if asks_openai => openai_chat::refuse(&refusal),
                    None => problem(&refusal),
                };
                refused(shaped, &refusal)
            }
        };
        let hash = judged_by.unwrap_or_else(|| guard.policy().hash.clone()).0;
        if let Ok(value) = HeaderValue::from_str(hash.get(..HASH_PREFIX).unwrap_or(&hash)) {
            response.headers_mut().insert(POLICY, value);
        }
        passage.carried_by(response)
    }

    async fn pass(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        guard: Arc<Guard>,
        inbound: Inbound<'_>,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>, Refused> {
        let Inbound {
            below,
            parts,
            body,
            address,
            judged_by,
        } = inbound;
        self.admission.check(&parts)?;
        if asks_for_websocket(&parts.headers) {
            return Err(refuse::UPGRADE_UNSUPPORTED.refusal());
        }
        let session = self
            .identify
            .session(&parts, guard.clock().as_ref())
            .await?;
        let (request, encoded) = self.receive(below, parts, body).await?;
        if entry.protocol.kind() != RouteKind::Http
            && matches!(request.parts.method, Method::GET | Method::HEAD)
            && !request.body.is_empty()
        {
            return Err(refuse::BODY_UNEXPECTED.refusal());
        }
        let several = entry.protocol.several(&request);
        let several = several.map_err(refuse::malformed_request)?;
        let Some(several) = several else {
            let message = (request, encoded);
            let told = (address, judged_by);
            return self
                .message(entry, guard, session, message, told, permit)
                .await;
        };
        let each = several.into_iter().map(|request| {
            let (gate, entry) = (Arc::clone(self), Arc::clone(entry));
            let (guard, permit) = (Arc::clone(&guard), Arc::clone(&permit));
            gate.one_of_several(entry, guard, session.clone(), request, permit)
        });
        let answers = join_all(each).await;
        Ok(entry.protocol.joined(&answers).map(full))
    }

    /// One message of several, with its whole answer.
    fn one_of_several(
        self: Arc<Self>,
        entry: Arc<Entry>,
        guard: Arc<Guard>,
        session: Session,
        request: Request,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> BoxFuture<'static, Response<Bytes>> {
        Box::pin(async move {
            let (mut address, mut judged_by) = (None, None);
            let told = (&mut address, &mut judged_by);
            let message = (request, true);
            let answered = self
                .message(&entry, guard, session, message, told, permit)
                .await;
            let shape = |refusal: &Refused| entry.protocol.refuse(refusal, address.as_ref());
            let response = match answered {
                Ok(response) => response,
                Err(refusal) => return shape(&refusal),
            };
            let (head, body) = response.into_parts();
            let limit = self.setup.settings.limits.response_body;
            match whole(body, limit).await {
                Some(whole) => Response::from_parts(head, whole),
                None => shape(&refuse::RESPONSE_TOO_LARGE.refusal()),
            }
        })
    }

    /// One message of a caller who is known.
    async fn message(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        guard: Arc<Guard>,
        mut session: Session,
        (mut request, encoded): (Request, bool),
        (address, judged_by): (&mut Option<Bytes>, &mut Option<PolicyHash>),
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>, Refused> {
        let settings = &self.setup.settings;
        *address = entry.protocol.address(&request);
        let caller = Arc::clone(&session.principal);
        request.parts.extensions.insert(caller);
        let request = entry
            .protocol
            .admit(request)
            .map_err(refuse::malformed_request)?;
        let used = entry.protocol.uses(&request);
        self.owned(entry, used, &session.principal)?;
        // The beginning of a conversation names it, but is no secret: it ties nothing to it.
        let ties = session.key.is_some() || entry.protocol.kind() != RouteKind::Model;
        if session.key.is_none()
            && let Some(own) = entry.protocol.session(&request)
        {
            session.key = Some(scoped(&own, &session.principal));
        }
        let trail = guard.traces().then(|| {
            let tie = ties.then(|| Tie::of(&session)).flatten();
            let kind = entry.protocol.kind();
            Arc::new(Trail::new(Arc::clone(&self.evidence), tie, kind))
        });
        let upstream = settings.upstreams.get(&entry.route.upstream);
        let upstream = upstream.filter(|_| entry.protocol.kind() != RouteKind::Model);
        let leaving =
            upstream.map(|upstream| Arc::new(self.forwarding.own(&request.parts, upstream)));
        let taken = self.recorded(entry, &guard, &session, &request);
        let transit = Arc::new(Transit {
            guard,
            guards: Arc::clone(&self.setup.guard),
            holds: Arc::clone(&self.holds),
            metrics: Arc::clone(&self.setup.metrics),
            settings: Arc::clone(settings),
            entry: Arc::clone(entry),
            session: Arc::new(session),
            mask: self.secrets.mask(&entry.route.upstream),
            memory: self.memory.clone(),
            leaving,
            trail,
            taint: Arc::default(),
            reached: Arc::default(),
            taken,
        });
        let judged = judge(&transit, &request).await?;
        let waiting = match waiting(&transit, &request, judged) {
            Ok(waiting) => waiting,
            Err(judged) => {
                let decision = judged.decision;
                return self
                    .conclude(transit, request, encoded, decision, permit)
                    .await;
            }
        };
        let Some(signs) = entry.protocol.signs(&request) else {
            let over = waiting.over().await;
            let (transit, judged) = over.map_err(|u| refuse::undecided_request(&u))?;
            *judged_by = Some(transit.guard.policy().hash.clone());
            let decision = judged.decision;
            return self
                .conclude(transit, request, encoded, decision, permit)
                .await;
        };
        let shape = {
            let (entry, address) = (Arc::clone(entry), address.clone());
            move |refusal: &Refusal| entry.protocol.refuse(refusal, address.as_ref())
        };
        let unreadable = shape(&refuse::RESPONSE_UNREADABLE.refusal()).into_body();
        let (gate, metrics) = (Arc::clone(self), Arc::clone(&self.setup.metrics));
        let route = entry.route.name.clone();
        let rest = async move {
            let conclusion = async {
                let over = waiting.over().await;
                let (transit, judged) = over.map_err(|u| refuse::undecided_request(&u))?;
                let decision = judged.decision;
                gate.conclude(transit, request, encoded, decision, permit)
                    .await
            };
            let answered = AssertUnwindSafe(conclusion).catch_unwind().await;
            let answered = answered.unwrap_or_else(|_| Err(refuse::INTERNAL.refusal()));
            answered.unwrap_or_else(|refusal| {
                metrics.refused(route.as_str(), refusal.code);
                shape(&refusal).map(full)
            })
        };
        let every = settings.timeouts.keep_alive;
        let rest = Box::pin(rest);
        Ok(hold::streamed(signs, every, rest, unreadable))
    }

    /// Does what was decided of a request.
    async fn conclude(
        &self,
        transit: Arc<Transit>,
        request: Request,
        encoded: bool,
        mut decision: Decision,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>, Refused> {
        let entry = &transit.entry;
        let came = request.body.clone();
        let again = (!decision.receipts.is_empty()).then(|| request.clone());
        let length = request.body.len();
        let written = offload(length, || entry.protocol.write(request, &decision));
        let claims = Claims::of(&mut decision);
        if let Ok(Written::Forward(request)) = written {
            let exact = !encoded && same(&came, &request.body);
            return self
                .forward(
                    Arc::clone(&transit),
                    request,
                    exact,
                    &decision,
                    claims,
                    permit,
                )
                .await;
        }
        // Nothing is sent.
        claims.not_sent().await;
        match (written, again) {
            (Ok(Written::Replay(receipt)), Some(request)) => {
                let receipt = entry.protocol.replayed(&request, receipt);
                answer::replay(&transit, &request, receipt).await
            }
            (Ok(Written::Refuse(refusal)), _) => {
                if let Some(taken) = &transit.taken {
                    taken.refused(refusal.code);
                }
                Err(Box::new(refusal))
            }
            (Ok(Written::Ask(answer, refusal)), _) => {
                let route = entry.route.name.as_str();
                transit.metrics.refused(route, refusal.code);
                Ok(answer.map(full))
            }
            (Err(malformed), _) => Err(refuse::malformed_request(malformed)),
            (Ok(_), _) => Err(refuse::INTERNAL.refusal()),
        }
    }

    /// Sends the judged request and answers with what comes back, judged too.
    async fn forward(
        &self,
        transit: Arc<Transit>,
        request: Request,
        exact: bool,
        decision: &Decision,
        claims: Claims,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>, Refused> {
        let name = &transit.entry.route.upstream;
        let Some(upstream) = self.setup.settings.upstreams.get(name) else {
            claims.not_sent().await;
            return Err(refuse::INTERNAL.refusal());
        };
        let outgoing = self.outgoing(&request, upstream, exact);
        let mut outgoing = match self.secrets.fill(outgoing, name, transit.kind()) {
            Ok(outgoing) => outgoing,
            Err(code) => {
                claims.not_sent().await;
                return Err(code.refusal());
            }
        };
        if let Some(key) = claims.key() {
            outgoing.headers_mut().insert(IDEMPOTENCY_KEY, key);
        }
        let outgoing = Cleared::seal(outgoing, decision);
        if claims.is_empty() {
            let response = match self.upstream.send(name, outgoing).await {
                Ok(response) => response,
                Err(error) => {
                    if error.not_sent() {
                        claims.not_sent().await;
                    }
                    return Err(transit.no_answer(&error));
                }
            };
            let opened = transit.entry.protocol.opens(response.headers());
            self.owned(&transit.entry, opened, &transit.session.principal)?;
            return Incoming::open(&transit, &request, response)?.answer().await;
        }
        let redemption = Redemption {
            upstream: self.upstream.clone(),
            transit,
            request,
            outgoing,
            claims,
            permit,
        };
        redemption.start(&self.tasks).await
    }

    /// Refuses a session of the upstream that somebody else uses.
    fn owned(
        &self,
        entry: &Entry,
        session: Option<String>,
        principal: &Principal,
    ) -> Result<(), Refused> {
        let admits = |session: String| {
            let route = &entry.route.name;
            self.sessions.admits(route, &session, principal)
        };
        if session.is_none_or(admits) {
            return Ok(());
        }
        Err(refuse::SESSION_UNKNOWN.refusal())
    }

    fn outgoing(
        &self,
        request: &Request,
        upstream: &settings::Upstream,
        exact: bool,
    ) -> http::Request<Bytes> {
        let mut outgoing = http::Request::new(request.body.clone());
        *outgoing.method_mut() = request.parts.method.clone();
        *outgoing.uri_mut() = request.parts.uri.clone();
        *outgoing.headers_mut() = self.forwarding.outgoing(&request.parts, upstream, exact);
        outgoing
    }
}

/// A whole body; `None`: it broke, or is above the limit.
async fn whole(mut body: Body, limit: usize) -> Option<Bytes> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            if read.len() + data.len() > limit {
                return None;
            }
            read.extend_from_slice(&data);
        }
    }
    Some(read.freeze())
}

/// What the guard says of a request. Also one without items is decided: nothing to scan is not nothing to record.
async fn judge(transit: &Transit, request: &Request) -> Result<Judged, Refused> {
    let protocol = &transit.entry.protocol;
    let length = request.body.len();
    let mut items =
        offload(length, || protocol.read(request)).map_err(refuse::malformed_request)?;
    keep_sources(&mut items, &request.body);
    let rest = match transit.kind() {
        _ if items.is_empty() => Unscanned::NoItem,
        RouteKind::Model => Unscanned::UserText,
        _ => Unscanned::Structure,
    };
    if let Some(trail) = &transit.trail {
        let said = offload(length, || protocol.said(request));
        trail.hear(said.map_err(refuse::malformed_request)?, &transit.metrics);
    }
    let unjudged = offload(length, || protocol.unjudged(request, &items));
    let judged = transit
        .judge(Leg::ToUpstream, items, &[])
        .await
        .map_err(|undecided| refuse::undecided_request(&undecided))?;
    transit.rest(rest, request.body.len(), judged.bytes, &unjudged);
    Ok(judged)
}

/// The judged request, where calls of it wait for an answer; else as it is.
fn waiting(
    transit: &Arc<Transit>,
    request: &Request,
    judged: Judged,
) -> Result<Waiting, Box<Judged>> {
    let protocol = &transit.entry.protocol;
    // Most have nothing that could wait.
    if judged.decision.waits(Some(Duration::ZERO)).is_none()
        || protocol.asks(request, &judged.decision)
    {
        return Err(Box::new(judged));
    }
    let least = protocol.patience(request);
    Waiting::begin(transit, (Leg::ToUpstream, Vec::new()), judged, least, None)
}

/// Whether two bodies are the same bytes in the same place: what was not edited.
fn same(a: &Bytes, b: &Bytes) -> bool {
    std::ptr::eq(a.as_ptr(), b.as_ptr()) && a.len() == b.len()
}
