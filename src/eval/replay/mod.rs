//! Replay: one recorded case through the proxy's own service in process, in a world of its own, graded by the judge.

mod agent;
mod approver;
pub(in crate::eval) mod chat;
mod site;
mod stage;
mod tally;
mod trial;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use approver::Approver;
use arc_swap::ArcSwap;
use http::{HeaderName, Method, Uri};
pub use site::{Site, SiteError, Spent};
pub use trial::{CallResult, Fate, Graded, Kept, Reading, Trial};

use super::arms::Arm;
use super::case::Case;
use super::judge::{Connect, Questions};
use super::snapshot::Snapshot;
use super::sql::Bindings;
use super::suite::Suite;
use super::tokens::{self, Bearer, Check};
use super::world::Fault;
use crate::clock::{Clock, SystemClock};
use crate::guard::{Guard, Observer, Parts, Venues};
use crate::metrics::Metrics;
use crate::names::{RouteName, UpstreamName};
use crate::policy::{ExecutesAt, Lookup, Policy};
use crate::principal::Principal;
use crate::proxy::{self, ProxyService, Setup};
use crate::settings::{
    Approvers, HttpTool, Limits, Listen, ModelRoute, Principals, Route, RouteProtocol,
    SessionSource, Settings, Timeouts, Upstream,
};
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::store::sql::{ReadOnlySql, SqlError};
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
    /// The tools' definitions, as JSON.
    definitions: Arc<str>,
    /// What each arm makes of the suite's policy.
    policies: Mutex<HashMap<String, Arc<Policy>>>,
    metrics: Arc<Metrics>,
    connect: Connect,
    stream: bool,
    keep: bool,
}

/// How a run replays.
#[derive(Clone)]
pub struct Manner {
    /// How the judge connects.
    pub connect: Connect,
    /// Whether the model's answers come as a stream.
    pub stream: bool,
    /// Whether snapshots and transcripts are kept.
    pub keep: bool,
}

/// One trial to run.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The layers.
    pub arm: &'a Arm,
    /// What the model does whose injection was withheld.
    pub reading: Reading,
    /// Who answers held calls.
    pub approver: Approver,
    /// The recording.
    pub case: &'a Arc<Case>,
}

impl Replayer {
    /// Routes and settings for the suite.
    pub fn new(suite: Arc<Suite>, manner: Manner) -> Self {
        let routes: HashMap<String, RouteName> = suite
            .tools
            .keys()
            .map(|tool| (tool.clone(), route_of(&suite, tool)))
            .collect();
        let definitions = if suite.tools.is_empty() {
            String::new()
        } else {
            chat::definitions(&suite).to_string()
        };
        Self {
            suite,
            routes,
            definitions: definitions.into(),
            policies: Mutex::default(),
            metrics: Metrics::new(),
            connect: manner.connect,
            stream: manner.stream,
            keep: manner.keep,
        }
    }

    /// A place for trials, with a world and a judge of its own.
    ///
    /// # Errors
    /// The world cannot be made, or its judge can write.
    pub async fn site(&self, path: PathBuf) -> Result<Site, SiteError> {
        Site::open(&self.suite, &self.connect, path).await
    }

    /// Runs one case in one arm.
    ///
    /// # Errors
    /// The database is gone: there is no trial, and no other would fare better.
    pub async fn trial(&self, site: &mut Site, ask: Ask<'_>) -> Result<Trial, Fault> {
        let (result, kept) = match self.replay(site, ask).await {
            Ok((graded, kept)) => (Ok(graded), kept),
            Err(fault) if fault.gone => return Err(fault),
            Err(fault) => (Err(fault.cause), None),
        };
        Ok(Trial {
            arm: ask.arm.name.clone(),
            reading: ask.reading,
            approver: ask.approver,
            case: Arc::clone(ask.case),
            result,
            kept,
        })
    }

    async fn replay(&self, site: &mut Site, ask: Ask<'_>) -> Result<(Graded, Option<Kept>), Fault> {
        let questions = self.suite.questions(ask.case);
        let bound = self.bindings(ask.case);
        let changes = &questions.may_change;
        let (world, before) = site
            .begin(&self.suite, &self.connect, changes, &bound)
            .await?;
        let stage = stage::Stage::new(
            Arc::clone(&self.suite),
            Arc::clone(ask.case),
            ask.reading,
            self.stream,
            world,
        );
        let done = self
            .graded(site, ask, &stage, &before, &questions, &bound)
            .await;
        site.spent.trials += 1;
        site.spent.sandbox += stage.spent();
        site.world = stage.world();
        let fault = stage.fault();
        fault.map_or(done, Err).map_err(|fault| Fault {
            gone: fault.gone || site.judge.is_gone(),
            ..fault
        })
    }

    /// What happens between the judge's first look and its verdict.
    async fn graded(
        &self,
        site: &mut Site,
        ask: Ask<'_>,
        stage: &stage::Stage,
        before: &Snapshot,
        questions: &Questions<'_>,
        bound: &Bindings,
    ) -> Result<(Graded, Option<Kept>), Fault> {
        let started = Instant::now();
        let against = site.judge.untouched(questions, bound).await;
        if let Some(why) = against.map_err(|error| faulty(&error))? {
            return Err(Fault::here(why));
        }
        site.spent.judge += started.elapsed();

        let started = Instant::now();
        let played = self.play(site, ask, stage).await.map_err(Fault::here)?;
        site.spent.replay += started.elapsed();

        let after = site.seen(&questions.may_change, bound).await?;
        let started = Instant::now();
        let grade = site.judge.grade(questions, bound, before, &after).await;
        let grade = grade.map_err(|error| faulty(&error))?;
        site.spent.judge += started.elapsed();
        let graded = Graded {
            grade,
            lost: stage.lost(),
            reached: played.reached,
            calls: played.calls,
            approvals: played.approvals,
            asked: played.asked,
        };
        let kept = match played.transcript {
            None => None,
            Some(transcript) => Some(Kept {
                before: before.to_json(),
                after: after.to_json(),
                transcript,
                receipts: receipts(played.tickets.as_ref())
                    .await
                    .map_err(Fault::here)?,
            }),
        };
        Ok((graded, kept))
    }

    /// The conversation, through a proxy that is new: nothing that it remembers is from another trial.
    async fn play(
        &self,
        site: &mut Site,
        ask: Ask<'_>,
        stage: &stage::Stage,
    ) -> Result<Played, String> {
        let Ask { arm, case, .. } = ask;
        let started = Instant::now();
        let tickets = ticket_store(arm)?;
        let tally = Arc::new(tally::Tally::new(stage.clone(), self.keep));
        let world = Arc::clone(&site.lookups);
        let service = self
            .service(arm, case, &world, stage, &tally, tickets.clone())
            .map_err(|problems| problems.to_string())?;
        service
            .load()
            .await
            .map_err(|problems| problems.to_string())?;
        site.spent.guard += started.elapsed();
        let mut agent = agent::Agent {
            token: self.token(case)?,
            service,
            stage: stage.clone(),
            tally: Arc::clone(&tally),
            tickets: tickets.clone(),
            approver: ask.approver,
            case,
            routes: &self.routes,
            session: case.session.as_deref().unwrap_or(&case.id),
            stream: self.stream,
            conversation: agent::Conversation::new(
                self.suite.system.as_deref(),
                Arc::clone(&self.definitions),
            ),
            transcript: agent::Transcript::new(self.keep),
            calls: Vec::new(),
            approvals: 0,
            asked: false,
        };
        agent.play(case).await?;
        site.spent.judging += tally.elapsed();
        Ok(Played {
            reached: tally.reached(),
            calls: agent.calls,
            approvals: agent.approvals,
            asked: agent.asked,
            transcript: agent.transcript.into_lines(),
            tickets,
        })
    }

    /// Whether the arm's guard can be built over the suite's world.
    ///
    /// # Errors
    /// Why not: a layer that this build lacks, a look-up that the world cannot answer.
    pub fn ready(&self, arm: &Arm, site: &Site) -> Result<(), Problems> {
        let tickets = ticket_store(arm).map_err(Problem::new)?;
        let world = Arc::clone(&site.lookups);
        self.guard(arm, &world, tickets, Vec::new()).map(drop)
    }

    /// The policy with the arm's modes, without the checks that it leaves out.
    fn policy(&self, arm: &Arm) -> Arc<Policy> {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = policies.get(&arm.name) {
            return Arc::clone(known);
        }
        let mut policy = Policy::clone(&self.suite.policy);
        policy.modes.clone_from(&arm.modes);
        for check in &arm.without {
            check.lift(&mut policy);
        }
        if let Some(strictness) = arm.strictness {
            strictness.apply(&mut policy);
        }
        let policy = Arc::new(policy);
        policies.insert(arm.name.clone(), Arc::clone(&policy));
        policy
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
        world: &Arc<dyn ReadOnlySql>,
        stage: &stage::Stage,
        tally: &Arc<tally::Tally>,
        tickets: Option<Arc<dyn TicketStore>>,
    ) -> Result<ProxyService<stage::Stage>, Problems> {
        let guard = self.guard(arm, world, tickets, vec![Arc::clone(tally) as _])?;
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
        world: &Arc<dyn ReadOnlySql>,
        tickets: Option<Arc<dyn TicketStore>>,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Result<Guard, Problems> {
        let lookups = self.suite.policy.lookups.values();
        let stores = Stores {
            sql: lookups
                .filter_map(|lookup| match lookup {
                    Lookup::Sql(lookup) => Some((lookup.store.clone(), Arc::clone(world))),
                    // A suite has no backend to ask: the layer says so where it is on.
                    Lookup::Http(_) => None,
                })
                .collect(),
            tickets,
            ..Stores::default()
        };
        let venues = self.routes.iter();
        let venues = venues.map(|(tool, route)| (tool.as_str().into(), route.clone()));
        let policy = self.policy(arm);
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

/// What came of the conversation.
struct Played {
    reached: BTreeSet<LayerId>,
    calls: Vec<CallResult>,
    approvals: usize,
    asked: bool,
    transcript: Option<Vec<serde_json::Value>>,
    tickets: Option<Arc<dyn TicketStore>>,
}

fn faulty(error: &SqlError) -> Fault {
    Fault::here(format!("the judge failed: {error}"))
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
        record: None,
    }
}

/// Path prefix of a route.
pub(in crate::eval) fn prefix(route: &RouteName) -> String {
    format!("/{route}")
}
