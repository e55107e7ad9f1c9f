//! A guard with the tickets layer alone, a store in a folder of its own, and a clock that stands still.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdpoint::guard::{Claim, Guard, Outcome, Parts, Receipt, Venues};
use holdpoint::item::{Arguments, Exchange, Item, Leg, Located, Place, RouteKind, ToolCall};
use holdpoint::names::{RouteName, RuleId, SessionKey, TicketId, ToolName, UpstreamName};
use holdpoint::policy::{ExecutesAt, Gate, Policy, PolicyHash, TicketRule, ToolMatcher, ToolRule};
use holdpoint::principal::{Principal, Session};
use holdpoint::store::Stores;
use holdpoint::store::tickets::{
    Answer, AnswerError, Authority, Channel, Decider, Directory, Filter, Person, Ticket,
    TicketLimits, TicketState, TicketStore, Verdict, Voter, sqlite,
};
use holdpoint::verdict::{self, Finding, Hold, LayerId, Mode, Reason};
use holdpoint::wire::json::Document;
use tempfile::TempDir;

pub use crate::conformance::clock::StillClock;

/// The usual limits.
pub fn limits() -> TicketLimits {
    TicketLimits::default()
}

fn rule(index: usize, tool: &str, ticket: Option<TicketRule>) -> ToolRule {
    ToolRule {
        ticket,
        ..ToolRule::new(
            RuleId::new(format!("tools[{index}]")),
            ToolMatcher::Exact(ToolName::from(tool)),
        )
    }
}

/// What the rule of `refund` asks for.
pub fn refund_ticket() -> TicketRule {
    let ttl = Duration::from_mins(15);
    TicketRule {
        roles: vec!["finance".to_owned()],
        summary: Some("Refund {/amount} on order {/order}".to_owned()),
        ..TicketRule::new("tools[0].ticket", Gate::Approve, ttl)
    }
}

/// `refund` needs an approval, `subscribe` a confirmation, `get_order` nothing, `elsewhere` runs on another route; nobody
/// has described anything else.
pub fn policy() -> Policy {
    let confirm = TicketRule {
        id: RuleId::from("tools[1].ticket"),
        gate: Gate::Confirm,
        roles: Vec::new(),
        summary: None,
        ..refund_ticket()
    };
    let elsewhere = ToolRule {
        executes_at: Some(ExecutesAt::Route(RouteName::from("other"))),
        ..rule(3, "elsewhere", Some(refund_ticket()))
    };
    let mut policy = Policy::new("test", PolicyHash("5f".repeat(32).into()));
    policy.modes = policy.modes.with(LayerId::Tickets, Mode::Enforce);
    policy.tools = vec![
        rule(0, "refund", Some(refund_ticket())),
        rule(1, "subscribe", Some(confirm)),
        rule(2, "get_order", None),
        elsewhere,
    ];
    policy
}

/// Everybody may still do what they could when they voted.
#[derive(Debug)]
pub struct AsVoted;

impl Directory for AsVoted {
    fn authority(&self, _issuer: &str, _subject: &str, voted: &[String]) -> Option<Authority> {
        Some(Authority {
            roles: voted.to_vec(),
            tenants: None,
        })
    }
}

pub fn guard(policy: Policy, store: Option<Arc<dyn TicketStore>>) -> Guard {
    let stores = Stores {
        tickets: store,
        directory: Arc::new(AsVoted),
        ..Stores::default()
    };
    guard_over(policy, stores)
}

pub fn guard_over(policy: Policy, stores: Stores) -> Guard {
    let policy = Arc::new(policy);
    let modes = policy.modes.clone();
    let parts = Parts {
        stores,
        venues: Venues::default(),
        ..Parts::default()
    };
    Guard::new(policy, &modes, parts).unwrap()
}

/// One call and who makes it.
#[derive(Clone)]
pub struct Call {
    pub tool: String,
    pub args: String,
    pub tenant: String,
    pub issuer: String,
    pub subject: String,
    pub agent: String,
    pub session: Option<String>,
    pub upstream: String,
    pub again: bool,
    pub hint: Option<String>,
}

/// Ann asks for a refund in session `s1`.
pub fn refund() -> Call {
    Call {
        tool: "refund".to_owned(),
        args: r#"{"order":"A-1","amount":19.9,"lines":[1,2]}"#.to_owned(),
        tenant: "acme".to_owned(),
        issuer: "config".to_owned(),
        subject: "ann".to_owned(),
        agent: "bot".to_owned(),
        session: Some("s1".to_owned()),
        upstream: "shop".to_owned(),
        again: false,
        hint: None,
    }
}

impl Call {
    pub fn exchange(&self) -> Exchange {
        let document = Document::read(Bytes::from(self.args.clone()), 256).unwrap();
        let (value, exact) = document.value(document.root()).unwrap();
        let call = ToolCall {
            tool: ToolName::from(self.tool.as_str()),
            args: Arguments {
                raw: document.bytes().clone(),
                value,
                exact,
            },
            call_id: None,
            again: self.again,
            hint: self.hint.as_deref().map(Into::into),
        };
        let principal = Principal {
            tenant: self.tenant.as_str().into(),
            issuer: self.issuer.as_str().into(),
            subject: self.subject.as_str().into(),
            agent: self.agent.as_str().into(),
            actors: Vec::new(),
            scopes: BTreeSet::new(),
        };
        Exchange {
            leg: Leg::ToUpstream,
            route: RouteName::from("tools"),
            kind: RouteKind::Http,
            upstream: UpstreamName::from(self.upstream.as_str()),
            session: Arc::new(Session {
                key: self.session.as_deref().map(SessionKey::from),
                principal: Arc::new(principal),
                grant: None,
            }),
            items: vec![Located {
                place: Place::default(),
                item: Item::ToolCall(call),
            }],
            evidence: None,
            headers: None,
        }
    }
}

/// What becomes of one call.
pub enum Said {
    Sent(Box<dyn Claim>),
    Replayed(Receipt),
    Passed,
    Held(Hold),
    Refused(Finding),
}

impl Said {
    /// `sent`, `replayed`, `passed`, or the reason code.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sent(_) => "sent",
            Self::Replayed(_) => "replayed",
            Self::Passed => "passed",
            Self::Held(hold) => hold.finding.reason.as_str(),
            Self::Refused(finding) => finding.reason.as_str(),
        }
    }

    pub fn claim(self) -> Box<dyn Claim> {
        match self {
            Self::Sent(claim) => claim,
            other => panic!("not sent: {}", other.word()),
        }
    }

    pub fn receipt(self) -> Receipt {
        match self {
            Self::Replayed(receipt) => receipt,
            other => panic!("not replayed: {}", other.word()),
        }
    }

    pub fn hold(self) -> Hold {
        match self {
            Self::Held(hold) => hold,
            other => panic!("not held: {}", other.word()),
        }
    }

    pub fn ticket(self) -> TicketId {
        self.hold().ticket.unwrap()
    }
}

pub async fn send(guard: &Guard, call: &Call) -> Said {
    let mut decision = guard.decide(&call.exchange()).await.unwrap();
    if let Some((_, claim)) = decision.claims.pop() {
        return Said::Sent(claim);
    }
    if let Some((_, receipt)) = decision.receipts.pop() {
        return Said::Replayed(receipt);
    }
    match decision.rulings.pop().unwrap().verdict {
        verdict::Verdict::Allow => Said::Passed,
        verdict::Verdict::Hold(hold) => Said::Held(hold),
        verdict::Verdict::Deny(finding) => Said::Refused(finding),
        verdict::Verdict::Rewrite(_) => panic!("a call is never rewritten"),
    }
}

/// Stored outcome of a call that went well.
pub fn answered(ticket: &TicketId, status: u16, body: &str) -> Outcome {
    Outcome::Answered(Receipt {
        ticket: ticket.clone(),
        status,
        content_type: Some("application/json".to_owned()),
        body: Bytes::from(body.to_owned()),
        completed_at: "2026-11-30T12:00:00Z".parse().unwrap(),
    })
}

pub struct World {
    pub clock: Arc<StillClock>,
    pub store: Arc<dyn TicketStore>,
    pub guard: Guard,
    pub folder: TempDir,
}

impl World {
    pub fn new() -> Self {
        Self::with(policy())
    }

    pub fn with(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = StillClock::new();
        let path = folder.path().join("tickets.db");
        let store = sqlite::open_serving(&path, clock.clone(), limits()).unwrap();
        Self {
            guard: guard(policy, Some(store.clone())),
            clock,
            store,
            folder,
        }
    }

    fn put(&mut self, store: Arc<dyn TicketStore>) {
        self.guard = guard(policy(), Some(store.clone()));
        self.store = store;
    }

    /// Lets go of the store's file.
    pub fn close(&mut self) {
        let nothing = sqlite::open(Path::new(":memory:"), self.clock.clone(), limits());
        self.put(nothing.unwrap());
    }

    /// Opens the file as the command line does.
    pub fn open_beside(&mut self) {
        self.put(sqlite::open_existing(&self.path(), self.clock.clone(), limits()).unwrap());
    }

    /// Opens the file as a new serving process does.
    pub fn reopen(&mut self) {
        self.close();
        self.put(sqlite::open_serving(&self.path(), self.clock.clone(), limits()).unwrap());
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("tickets.db")
    }

    pub async fn send(&self, call: &Call) -> Said {
        send(&self.guard, call).await
    }

    pub async fn approve(&self, ticket: &TicketId) -> Ticket {
        self.answer(ticket, Verdict::Approve, local())
            .await
            .unwrap()
    }

    pub async fn deny(&self, ticket: &TicketId) -> Ticket {
        self.answer(ticket, Verdict::Deny, local()).await.unwrap()
    }

    pub async fn answer(
        &self,
        ticket: &TicketId,
        verdict: Verdict,
        by: Decider,
    ) -> Result<Ticket, AnswerError> {
        let shown = self.store.get(ticket.clone()).await.unwrap().unwrap();
        let prefix = shown.digest.to_string()[..8].to_owned();
        let answer = Answer {
            ticket: ticket.clone(),
            verdict,
            by,
            digest_prefix: Some(prefix),
            comment: None,
        };
        self.store.answer(answer).await
    }

    /// Asks for the call and approves it.
    pub async fn approved(&self, call: &Call) -> TicketId {
        let ticket = self.send(call).await.ticket();
        self.approve(&ticket).await;
        ticket
    }

    /// Asks, approves, sends, and stores the outcome.
    pub async fn done(&self, call: &Call, status: u16) -> TicketId {
        let ticket = self.approved(call).await;
        let claim = self.send(call).await.claim();
        claim
            .finish(answered(&ticket, status, r#"{"refund":"R-7"}"#))
            .await
            .unwrap();
        ticket
    }

    pub async fn state(&self, ticket: &TicketId) -> TicketState {
        self.store.get(ticket.clone()).await.unwrap().unwrap().state
    }

    pub async fn all(&self) -> Vec<Ticket> {
        let filter = Filter {
            limit: 1000,
            ..Filter::default()
        };
        self.store.list(filter).await.unwrap()
    }

    /// Tickets by state, without the empty states.
    pub async fn counts(&self) -> BTreeMap<TicketState, u64> {
        let mut counts = self.store.counts().await.unwrap();
        counts.retain(|_, count| *count > 0);
        counts
    }
}

pub fn local() -> Decider {
    Decider::Local("root".to_owned())
}

pub fn person(subject: &str, roles: &[&str]) -> Decider {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Decider::Person(Voter::new(
        Person::new("config", subject),
        roles,
        Channel::Api,
    ))
}

/// A finding of the layer `recipients`, which asks for a ticket by itself.
pub fn recipient_hold() -> Hold {
    Hold::new(Finding {
        layer: LayerId::Recipients,
        rule: RuleId::from("tools[2].recipients[0]"),
        reason: Reason::RecipientNotAllowed,
        argument: Some("/to".to_owned()),
        detail: "not on a list".into(),
    })
}
