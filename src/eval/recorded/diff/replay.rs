//! Exchanges through the proxy's own service under one policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::super::RecordedError;
use super::super::drive::ticket_store;
use super::exchange::Told;
use crate::eval::replay::{SESSION, prefix, settings};
use crate::guard::{Cleared, Decision, Guard, Observer, Parts};
use crate::item::{Exchange, Item};
use crate::metrics::Metrics;
use crate::names::{RouteName, UpstreamName};
use crate::policy::Policy;
use crate::principal::Principal;
use crate::proxy::{self, Body, Setup, Upstream, UpstreamError, full};
use crate::record::{self, Answered, Content, Judged, Who};
use crate::settings::{
    CONFIG_ISSUER, HttpTool, McpRoute, ModelRoute, Principals, Route, RouteProtocol, Settings,
};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::verdict::{LayerId, Mode};

/// The header that says for whom an exchange is replayed.
const WHO: HeaderName = HeaderName::from_static("holdpoint-replay-principal");
/// Where everything leads to: nothing is sent there.
const NOWHERE: &str = "eval.nowhere";

/// What a recording does not have.
#[derive(Default)]
pub struct Backing {
    /// Look-ups. Nothing is written to them.
    pub stores: Stores,
    /// How the routes of the recordings are read, by name; others are read by their protocol's defaults.
    pub routes: HashMap<String, RouteProtocol>,
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl Backing {
    /// What a config says: its databases for look-ups, opened and proved unable to write, and its routes.
    ///
    /// # Errors
    /// A database that cannot be opened.
    pub fn of(settings: &Settings) -> Result<Self, Problems> {
        let (sql, mut problems) = settings.open_sql();
        let mut stores = Stores {
            sql,
            ..Stores::default()
        };
        match settings.register() {
            Ok(register) => stores.register = register,
            Err(found) => problems.extend(found.0),
        }
        match proxy::readers(settings) {
            Ok(readers) => stores.http = readers,
            Err(found) => problems.extend(found.0),
        }
        if problems.has_errors() {
            return Err(problems);
        }
        let routes = settings.routes.iter();
        Ok(Self {
            stores,
            routes: routes
                .map(|route| (route.name.to_string(), route.protocol.clone()))
                .collect(),
        })
    }
}

/// What the guard said of an item.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heard {
    pub(super) judged: Judged,
    /// Of a call, where they were asked for.
    pub(super) arguments: Option<String>,
}

impl From<Judged> for Heard {
    fn from(judged: Judged) -> Self {
        Self {
            judged,
            arguments: None,
        }
    }
}

/// What the guard says of every item of every exchange.
pub(super) fn replay(
    policy: &Arc<Policy>,
    exchanges: &[Told],
    backing: &Backing,
    arguments: bool,
) -> Result<Vec<Vec<Heard>>, RecordedError> {
    let heard = Arc::new(Ears {
        heard: Mutex::default(),
        arguments,
    });
    let stores = Stores {
        tickets: (policy.modes.of(LayerId::Tickets) == Mode::Enforce)
            .then(ticket_store)
            .transpose()?,
        ..backing.stores.clone()
    };
    let whom = whom(exchanges);
    let settings = Arc::new(routes(exchanges, backing, &whom)?);
    let parts = Parts {
        stores,
        venues: settings.venues(),
        observers: vec![Arc::clone(&heard) as _],
        ..Parts::default()
    };
    let guard = Guard::new(Arc::clone(policy), &policy.modes, parts)?;
    let model = Recorded::default();
    let setup = Setup {
        guard: Arc::new(ArcSwap::from_pointee(guard)),
        settings,
        metrics: Metrics::new(),
    };
    let service = proxy::service(setup, model.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| RecordedError::Failed(error.to_string()))?;
    let each = exchanges.iter().map(|told| {
        let Some(request) = request(&told.exchange, &whom).map_err(|cause| RecordedError::Run {
            run: told.name.clone(),
            cause,
        })?
        else {
            return Ok(Vec::new());
        };
        model.answers(told.exchange.answer.clone());
        heard.lock().clear();
        let sent: BoxFuture<'_, Result<Response<Body>, std::convert::Infallible>> =
            Box::pin(service.clone().oneshot(request));
        runtime.block_on(async {
            let Ok(response) = sent.await;
            // Whatever is said of a stream is said as it is read.
            let _ = response.into_body().collect().await;
        });
        Ok(std::mem::take(&mut *heard.lock()))
    });
    each.collect()
}

/// The principals, each with the key that stands for it.
fn whom(exchanges: &[Told]) -> BTreeMap<Who, String> {
    let all: BTreeSet<&Who> = exchanges
        .iter()
        .map(|told| &told.exchange.principal)
        .collect();
    let numbered = all.into_iter().enumerate();
    numbered
        .map(|(number, who)| (who.clone(), format!("principal-{number}")))
        .collect()
}

/// Settings with every route of the exchanges.
fn routes(
    exchanges: &[Told],
    backing: &Backing,
    whom: &BTreeMap<Who, String>,
) -> Result<Settings, Problems> {
    let keys = whom.iter().map(|(who, key)| {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
        let principal = Principal {
            tenant: who.tenant.as_str().into(),
            issuer: CONFIG_ISSUER.into(),
            subject: who.subject.as_str().into(),
            agent: who.agent.as_str().into(),
            actors: Vec::new(),
            scopes: who
                .scopes
                .iter()
                .map(|scope| scope.as_str().into())
                .collect(),
        };
        (hash, Arc::new(principal))
    });
    let principals = Principals::ApiKeys {
        header: WHO,
        keys: keys.collect(),
    };
    let mut settings = settings(&HashMap::new(), principals);
    let Some(upstream) = settings.upstreams.values().next().cloned() else {
        return Err(Problem::new("there is no upstream to replay with").into());
    };
    let name = UpstreamName::from(NOWHERE);
    settings.upstreams.insert(
        name.clone(),
        crate::settings::Upstream {
            name: name.clone(),
            ..upstream
        },
    );
    settings.routes.clear();
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for told in exchanges {
        let exchange = &told.exchange;
        let before = known.insert(&exchange.route, &exchange.protocol);
        if let Some(before) = before.filter(|before| *before != exchange.protocol) {
            let what = format!(
                "the route `{}` is of {before} and of {} in these recordings",
                exchange.route, exchange.protocol
            );
            return Err(Problem::new(what)
                .help("replay recordings of two configs one after the other")
                .into());
        }
    }
    for (route, protocol) in known {
        let route_name = RouteName::from(route);
        settings.routes.push(Route {
            prefix: prefix(&route_name),
            name: route_name,
            upstream: name.clone(),
            protocol: match backing.routes.get(route) {
                Some(known) => known.clone(),
                None => by_default(protocol, route, exchanges)?,
            },
        });
    }
    Ok(settings)
}

fn by_default(protocol: &str, route: &str, exchanges: &[Told]) -> Result<RouteProtocol, Problem> {
    Ok(match protocol {
        "openai_chat" => RouteProtocol::OpenAiChat(ModelRoute::default()),
        "anthropic_messages" => RouteProtocol::AnthropicMessages(ModelRoute::default()),
        "mcp" => RouteProtocol::Mcp(McpRoute::default()),
        "http_tools" => RouteProtocol::HttpTools(tools(route, exchanges).into()),
        other => {
            return Err(Problem::new(format!(
                "the route `{route}` has the protocol `{other}`, which this version does not know"
            )));
        }
    })
}

/// Which paths were which tools, as they were judged.
fn tools(route: &str, exchanges: &[Told]) -> Vec<HttpTool> {
    let mut tools: BTreeMap<(String, String), String> = BTreeMap::new();
    for told in exchanges.iter().filter(|told| told.exchange.route == route) {
        let called = told.exchange.judged.iter().find(|said| {
            said.leg == record::Way::ToUpstream && said.kind == record::ItemKind::Call
        });
        let path = told
            .exchange
            .request
            .path
            .split('?')
            .next()
            .unwrap_or_default();
        if let Some(tool) = called.and_then(|said| said.tool.clone()) {
            tools.insert(
                (told.exchange.request.method.clone(), path.to_owned()),
                tool,
            );
        }
    }
    let each = tools.into_iter().filter_map(|((method, path), tool)| {
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        Some(HttpTool::new(Some(tool.as_str().into()), method, path))
    });
    each.collect()
}

/// The request as it came; `None`: its body was not recorded.
fn request(
    exchange: &record::Exchange,
    whom: &BTreeMap<Who, String>,
) -> Result<Option<Request<Body>>, String> {
    let Content::Body(body) = &exchange.request.content else {
        return Ok(None);
    };
    let path = &exchange.request.path;
    let target = format!(
        "{}{path}",
        prefix(&RouteName::from(exchange.route.as_str()))
    );
    let mut request = Request::builder()
        .method(exchange.request.method.as_str())
        .uri(target)
        .header(header::HOST, "localhost");
    for (name, value) in &exchange.request.headers {
        request = request.header(name, value);
    }
    if let Some(session) = &exchange.session {
        request = request.header(SESSION, header_text(session)?);
    }
    if let Some(key) = whom.get(&exchange.principal) {
        request = request.header(WHO, key);
    }
    let request = request.body(full(body.clone()));
    request
        .map(Some)
        .map_err(|error| format!("`request` cannot be sent: {error}"))
}

/// A session's name as a header: what cannot stand in one is told apart by its digest.
fn header_text(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text)
        .or_else(|_| {
            HeaderValue::from_str(
                &data_encoding::HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref()),
            )
        })
        .map_err(|error| error.to_string())
}

/// The upstream: it answers as it was recorded.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Option<Answered>>>);

impl Recorded {
    fn answers(&self, answer: Option<Answered>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    fn response(&self) -> Result<Response<Body>, UpstreamError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = || UpstreamError::NotSent("no answer was recorded".to_owned());
        let answer = answer.as_ref().ok_or_else(nothing)?;
        let Content::Body(body) = &answer.content else {
            return Err(nothing());
        };
        let mut response = Response::new(full(Bytes::from(body.clone())));
        *response.status_mut() = StatusCode::from_u16(answer.status).map_err(|_| nothing())?;
        let media = answer
            .content_type
            .as_deref()
            .and_then(|media| HeaderValue::from_str(media).ok());
        if let Some(media) = media {
            response.headers_mut().insert(header::CONTENT_TYPE, media);
        }
        Ok(response)
    }
}

impl Upstream for Recorded {
    fn send(
        &self,
        _: &UpstreamName,
        _: Cleared<Request<Bytes>>,
    ) -> BoxFuture<'static, Result<Response<Body>, UpstreamError>> {
        Box::pin(std::future::ready(self.response()))
    }
}

/// Hears what the guard says.
struct Ears {
    heard: Mutex<Vec<Heard>>,
    arguments: bool,
}

impl Ears {
    fn lock(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Ears {
    fn decided<'a>(
        &'a self,
        exchange: &'a Exchange,
        decision: &'a Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        let said = exchange
            .items
            .iter()
            .zip(&decision.rulings)
            .map(|(located, ruling)| {
                let arguments = match &located.item {
                    Item::ToolCall(call) if self.arguments => {
                        Some(String::from_utf8_lossy(&call.args.raw).into_owned())
                    }
                    _ => None,
                };
                Heard {
                    judged: Judged::of(exchange.leg, located, ruling),
                    arguments,
                }
            });
        self.lock().extend(said);
        Box::pin(std::future::ready(Ok(())))
    }
}
