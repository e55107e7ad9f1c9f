//! Replay: one recorded case through the proxy's own service in process, in a world of its own, graded by the judge.

mod agent;
mod approver;
pub(in crate::eval) mod chat;
mod stage;
mod tally;
mod trial;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use approver::Approver;
use arc_swap::ArcSwap;
use http::{HeaderName, Method, Uri};
pub use trial::{CallResult, Fate, Graded, Kept, Reading, Trial};

use super::arms::Arm;
use super::case::Case;
use super::judge::{Connect, Grade, Judge};
use super::snapshot::Snapshot;
use super::sql::Bindings;
use super::suite::Suite;
use super::tokens::{self, Bearer, Check};
use super::world::World;
use crate::clock::{Clock, SystemClock};
use crate::guard::{Guard, Observer, Parts, Venues};
use crate::metrics::Metrics;
use crate::names::{RouteName, UpstreamName};
use crate::policy::{ExecutesAt, Lookup};
use crate::principal::Principal;
use crate::proxy::{self, ProxyService, Setup};
use crate::settings::{
    Approvers, HttpTool, Limits, Listen, ModelRoute, Principals, Route, RouteProtocol,
    SessionSource, Settings, Timeouts, Upstream,
};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::store::sql::{SqlError, sqlite};
use crate::store::tickets::{TicketLimits, TicketStore, sqlite as tickets};
use crate::verdict::{LayerId, Mode};

/// The route of the recorded model; the dot keeps it apart from every name that a policy can have.
pub(in crate::eval) const MODEL: &str = "eval.model";
/// The upstream of every tool route.
const WORLD: &str = "eval.world";
/// The route of tools for which the policy names none.
const TOOLS: &str = "tools";
/// The header that carries the session.
pub(in crate::eval) const SESSION: HeaderName = HeaderName::from_static("holdpoint-session");
/// A receipt outlives every trial.
const REPLAY_WINDOW: Duration = Duration::from_hours(24);

/// Everything that the trials of a run share.
pub struct Replayer {
    suite: Arc<Suite>,
    routes: HashMap<String, RouteName>,
    metrics: Arc<Metrics>,
    connect: Connect,
    approver: Approver,
    stream: bool,
    keep: bool,
}

/// How a run replays.
#[derive(Clone)]
pub struct Manner {
    /// How the judge connects.
    pub connect: Connect,
    /// Who answers held calls.
    pub approver: Approver,
    /// Whether the model's answers come as a stream.
    pub stream: bool,
    /// Whether snapshots and transcripts are kept.
    pub keep: bool,
}

impl Replayer {
    /// Routes and settings for the suite.
    pub fn new(suite: Arc<Suite>, manner: Manner) -> Self {
        let routes: HashMap<String, RouteName> = suite
            .tools
            .keys()
            .map(|tool| (tool.clone(), route_of(&suite, tool)))
            .collect();
        Self {
            suite,
            routes,
            metrics: Metrics::new(),
            connect: manner.connect,
            approver: manner.approver,
            stream: manner.stream,
            keep: manner.keep,
        }
    }

    /// Runs one case in one arm. The world's file is `path`; it is removed afterwards.
    pub async fn trial(
        &self,
        arm: &Arm,
        reading: Reading,
        case: Arc<Case>,
        path: PathBuf,
    ) -> Trial {
        let (result, kept) = match self.replay(arm, reading, &case, path.clone()).await {
            Ok((graded, kept)) => (Ok(graded), kept),
            Err(why) => (Err(why), None),
        };
        let _ = std::fs::remove_file(&path);
        Trial {
            arm: arm.name.clone(),
            reading,
            case,
            result,
            kept,
        }
    }

    async fn replay(
        &self,
        arm: &Arm,
        reading: Reading,
        case: &Arc<Case>,
        path: PathBuf,
    ) -> Result<(Graded, Option<Kept>), String> {
        let world = World::create(&self.suite.image, path.clone())?;
        let bench = Bench::new(self, case, &path)?;
        let stage = stage::Stage::new(
            Arc::clone(&self.suite),
            Arc::clone(case),
            reading,
            self.stream,
            world,
        );
        let tickets = ticket_store(arm)?;
        let tally = Arc::new(tally::Tally::new(stage.clone()));
        let service = self
            .service(arm, case, &path, &stage, &tally, tickets.clone())
            .map_err(|problems| problems.to_string())?;
        service
            .load()
            .await
            .map_err(|problems| problems.to_string())?;
        let mut agent = agent::Agent {
            token: self.token(case)?,
            service,
            stage: stage.clone(),
            tally: Arc::clone(&tally),
            tickets: tickets.clone(),
            approver: self.approver,
            case,
            routes: &self.routes,
            session: case.session.as_deref().unwrap_or(&case.id),
            stream: self.stream,
            conversation: agent::Conversation::new(&self.suite),
            transcript: agent::Transcript::new(self.keep),
            calls: Vec::new(),
            approvals: 0,
        };
        agent.play(case).await?;
        let (calls, approvals) = (agent.calls, agent.approvals);
        let transcript = agent.transcript;

        let (grade, after) = bench.grade(self, case)?;
        let graded = Graded {
            grade,
            lost: stage.lost(),
            reached: tally.reached(),
            calls,
            approvals,
        };
        let kept = match transcript.into_lines() {
            None => None,
            Some(transcript) => Some(Kept {
                before: bench.before.to_json(),
                after: after.to_json(),
                transcript,
                receipts: receipts(tickets.as_ref()).await?,
            }),
        };
        Ok((graded, kept))
    }

    /// Whether the arm's guard can be built over the suite's world.
    ///
    /// # Errors
    /// Why not: a layer that this build lacks, a look-up that the world cannot answer.
    pub fn ready(&self, arm: &Arm, path: &Path) -> Result<(), Problems> {
        let tickets = ticket_store(arm).map_err(Problem::new)?;
        self.guard(arm, path, tickets, Vec::new()).map(drop)
    }

    fn bindings(&self, case: &Case) -> Bindings {
        let given = case.params.iter();
        let bound = given.fold(Bindings::default(), |bound, (name, value)| {
            bound.json(name, value)
        });
        common(&self.suite, case, bound)
    }

    fn service(
        &self,
        arm: &Arm,
        case: &Case,
        path: &Path,
        stage: &stage::Stage,
        tally: &Arc<tally::Tally>,
        tickets: Option<Arc<dyn TicketStore>>,
    ) -> Result<ProxyService<stage::Stage>, Problems> {
        let guard = self.guard(arm, path, tickets, vec![Arc::clone(tally) as _])?;
        let principals = self.known_as(arm, case).map_err(Problem::new)?;
        let setup = Setup {
            guard: Arc::new(ArcSwap::from_pointee(guard)),
            settings: Arc::new(settings(&self.routes, principals)),
            metrics: Arc::clone(&self.metrics),
        };
        proxy::service(setup, stage.clone())
    }

    /// How the proxy knows the case's principal.
    fn known_as(&self, arm: &Arm, case: &Case) -> Result<Principals, String> {
        let (principal, bearer) = self.caller(case)?;
        let Some(bearer) = bearer else {
            return Ok(Principals::Fixed(Arc::clone(principal)));
        };
        // Left out, the check of the signature takes whoever has signed for the issuer.
        let lifted = arm.without.contains(&Check::Signature);
        let trusted = bearer.signed_by.as_deref().filter(|_| lifted);
        let jwt = tokens::verified_as(&principal.issuer, trusted)?;
        Ok(Principals::Jwt(Box::new(jwt)))
    }

    fn token(&self, case: &Case) -> Result<Option<String>, String> {
        let (principal, bearer) = self.caller(case)?;
        let session = case.session.as_deref().unwrap_or(&case.id);
        let now = SystemClock.now().as_second();
        let signed = bearer.map(|bearer| tokens::token(principal, bearer, session, now));
        signed.transpose()
    }

    fn caller(&self, case: &Case) -> Result<(&Arc<Principal>, Option<&Bearer>), String> {
        let name = &case.principal;
        let principal = self.suite.principals.get(name);
        let principal = principal.ok_or_else(|| format!("no principal `{name}`"))?;
        let bearers = self.suite.bearers.as_ref();
        Ok((principal, bearers.and_then(|bearers| bearers.get(name))))
    }

    fn guard(
        &self,
        arm: &Arm,
        path: &Path,
        tickets: Option<Arc<dyn TicketStore>>,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Result<Guard, Problems> {
        let world =
            sqlite::open(path).map_err(|error| Problems::from(Problem::new(error.to_string())))?;
        let lookups = self.suite.policy.lookups.values();
        let stores = Stores {
            sql: lookups
                .filter_map(|lookup| match lookup {
                    Lookup::Sql(lookup) => Some((lookup.store.clone(), Arc::clone(&world))),
                    // A suite has no backend to ask: the layer says so where it is on.
                    Lookup::Http(_) => None,
                })
                .collect(),
            tickets,
            ..Stores::default()
        };
        let venues = self.routes.iter();
        let venues = venues.map(|(tool, route)| (tool.as_str().into(), route.clone()));
        let mut policy = Arc::clone(&self.suite.policy);
        for check in &arm.without {
            check.lift(Arc::make_mut(&mut policy));
        }
        Guard::new(
            policy,
            &arm.modes,
            Parts {
                stores,
                venues: Venues(venues.collect()),
                observers,
                track_reached: true,
                provenance_off: !arm.provenance,
            },
        )
    }
}

/// The judge of one trial, with the world as it found it.
struct Bench {
    judge: Judge,
    bound: Bindings,
    before: Snapshot,
}

impl Bench {
    fn new(replayer: &Replayer, case: &Case, path: &Path) -> Result<Self, String> {
        let questions = replayer.suite.questions(case);
        let bound = replayer.bindings(case);
        let judge = Judge::open(&replayer.connect, path).map_err(|error| faulty(&error))?;
        let before = judge.snapshot(&questions.may_change, &bound);
        let before = before.map_err(|error| faulty(&error))?;
        let against = judge.untouched(&questions, &bound);
        match against.map_err(|error| faulty(&error))? {
            Some(why) => Err(why),
            None => Ok(Self {
                judge,
                bound,
                before,
            }),
        }
    }

    fn grade(&self, replayer: &Replayer, case: &Case) -> Result<(Grade, Snapshot), String> {
        let questions = replayer.suite.questions(case);
        let graded = || {
            let after = self.judge.snapshot(&questions.may_change, &self.bound)?;
            let grade = self
                .judge
                .grade(&questions, &self.bound, &self.before, &after)?;
            Ok((grade, after))
        };
        graded().map_err(|error| faulty(&error))
    }
}

fn faulty(error: &SqlError) -> String {
    format!("the judge failed: {error}")
}

/// The parameters that every statement has, beside `bound`.
fn common(suite: &Suite, case: &Case, bound: Bindings) -> Bindings {
    let bound = match suite.principals.get(&case.principal) {
        Some(principal) => bound
            .text("principal", &*principal.subject)
            .text("tenant", &*principal.tenant),
        None => bound,
    };
    bound
        .text("session", case.session.as_deref().unwrap_or(&case.id))
        .text("trial", case.id.as_str())
}

/// A store of its own for each trial, where the arm enforces tickets.
fn ticket_store(arm: &Arm) -> Result<Option<Arc<dyn TicketStore>>, String> {
    if arm.modes.of(LayerId::Tickets) != Mode::Enforce {
        return Ok(None);
    }
    let store = tickets::open(
        Path::new(":memory:"),
        SystemClock::shared(),
        TicketLimits::replaying(REPLAY_WINDOW),
    );
    store.map(Some).map_err(|error| error.to_string())
}

/// Every ticket with what came of it, newest first.
async fn receipts(tickets: Option<&Arc<dyn TicketStore>>) -> Result<serde_json::Value, String> {
    let Some(store) = tickets else {
        return Ok(serde_json::Value::Array(Vec::new()));
    };
    let all = crate::store::tickets::Filter {
        limit: 10_000,
        ..Default::default()
    };
    let listed = store.list(all).await.map_err(|error| error.to_string())?;
    serde_json::to_value(listed).map_err(|error| error.to_string())
}

/// The route on which the policy says that the tool takes effect.
fn route_of(suite: &Suite, tool: &str) -> RouteName {
    let rule = suite.policy.rule_for(&tool.into());
    match rule.and_then(|rule| rule.executes_at.as_ref()) {
        Some(ExecutesAt::Route(route)) => route.clone(),
        _ => RouteName::from(TOOLS),
    }
}

pub(in crate::eval) fn settings(
    tools: &HashMap<String, RouteName>,
    principals: Principals,
) -> Settings {
    let loopback = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let upstream = |name: &str| Upstream {
        name: UpstreamName::from(name),
        url: Uri::from_static("http://eval.invalid"),
        credential: None,
        ca: None,
    };
    let upstreams = [MODEL, WORLD].map(|name| (UpstreamName::from(name), upstream(name)));
    let names: std::collections::BTreeSet<_> = tools.values().cloned().collect();
    let tool_routes = names.into_iter().map(|name| Route {
        prefix: prefix(&name),
        name,
        upstream: UpstreamName::from(WORLD),
        protocol: RouteProtocol::HttpTools(
            vec![HttpTool::new(None, Method::POST, "/{tool}")].into(),
        ),
    });
    let model = Route {
        name: RouteName::from(MODEL),
        prefix: prefix(&RouteName::from(MODEL)),
        upstream: UpstreamName::from(MODEL),
        protocol: RouteProtocol::OpenAiChat(ModelRoute::default()),
    };
    Settings {
        // Nothing listens: the service is called in process.
        listen: Listen::plain(loopback(0), loopback(0)),
        policy: std::path::PathBuf::new(),
        upstreams: upstreams.into(),
        routes: std::iter::once(model).chain(tool_routes).collect(),
        stores: BTreeMap::new(),
        tickets: None,
        approvers: Approvers::default(),
        principals,
        secrets: Vec::new(),
        registered: Vec::new(),
        session: SessionSource::Header(SESSION),
        spotlight_key: None,
        limits: Limits::default(),
        timeouts: Timeouts::default(),
    }
}

/// Path prefix of a route.
pub(in crate::eval) fn prefix(route: &RouteName) -> String {
    format!("/{route}")
}
