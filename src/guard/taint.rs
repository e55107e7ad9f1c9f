//! What came into a session that looks like an instruction: calls that follow it may need a person.
//!
//! On a model's route the conversation itself tells, so that the answer is the same each time. On a tool's route it is what
//! the ledger keeps of the session, which all processes of a deployment share where they share their tickets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rust_decimal::Decimal;

use super::Guard;
use crate::item::{Exchange, Item, Leg, Located, RouteKind};
use crate::layers::{Memo, injection};
use crate::ledger::{Account, Entry, Owner, Uncharged};
use crate::names::{RuleId, SessionKey};
use crate::policy::{Claim, Policy};
use crate::principal::Who;
use crate::verdict::{LayerId, Mode, Reason, Ruling, Undecided};

/// How long a session is tainted after the last finding.
const LASTS: Duration = Duration::from_hours(24);

/// The account of the ledger in which it stands.
const ACCOUNT: &str = "injection.taint";

/// Whether a text that looks like an instruction has come with one request or its answer.
#[derive(Debug, Default)]
pub struct Taint(AtomicBool);

impl Taint {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Policy {
    /// Whether a condition asks what has come into the session.
    pub fn asks_taint(&self) -> bool {
        self.tools.iter().any(|tool| {
            let unless = tool.ticket.iter().flat_map(|ticket| &ticket.unless);
            let mut conditions = tool.when.iter().chain(unless);
            conditions.any(|condition| matches!(condition.claim, Claim::Untainted))
        })
    }
}

impl Guard {
    /// What the judging of an exchange begins with: on a tool's route, what earlier answers of the session said.
    pub(super) fn memo(&self, exchange: &Exchange) -> Memo {
        if remembers(exchange) && self.mode(LayerId::Injection) != Mode::Off {
            Memo::after(&self.recalls, &exchange.session)
        } else {
            Memo::default()
        }
    }

    /// Whether something had come before this exchange; `None`: nothing ties it to a session, so that nobody can know.
    pub(super) async fn tainted_before(
        &self,
        exchange: &Exchange,
        taint: &Taint,
    ) -> Result<Option<bool>, Undecided> {
        let is_call = |located: &Located| matches!(located.item, Item::ToolCall(_));
        if !self.asks_taint || taint.is_set() || !exchange.items.iter().any(is_call) {
            return Ok(Some(false));
        }
        if exchange.kind == RouteKind::Model {
            return Ok(Some(false));
        }
        match &exchange.session.key {
            None => Ok(None),
            Some(key) => self.is_tainted(exchange, key).await.map(Some),
        }
    }

    async fn is_tainted(&self, exchange: &Exchange, key: &SessionKey) -> Result<bool, Undecided> {
        // It fits only where nothing stands there yet.
        let one = entry(exchange, key, Some(Decimal::ONE));
        match self.ledger.check(vec![one], self.clock.now()).await {
            Ok(()) => Ok(false),
            Err(Uncharged::Exceeded(_)) => Ok(true),
            Err(error) => Err(undecided(&error)),
        }
    }

    /// Whether the text tells that an instruction has come in: the layer has found one here, or its note stands there from
    /// another route.
    pub(super) fn taints(&self, located: &Located, ruling: &Ruling) -> bool {
        let Item::ToolOutput(output) = &located.item else {
            return false;
        };
        if !self.asks_taint || self.mode(LayerId::Injection) != Mode::Enforce {
            return false;
        }
        let found = ruling.opinions.iter().any(|opinion| {
            let reason = opinion.verdict.finding().map(|finding| finding.reason);
            opinion.layer == LayerId::Injection && reason == Some(Reason::InjectionDetected)
        });
        found || injection::tells_of_finding(&output.text)
    }

    /// Keeps what the outputs of an exchange said. `came`: one of them taints the session.
    pub(super) async fn remember(
        &self,
        exchange: &Exchange,
        memo: Memo,
        came: bool,
    ) -> Result<(), Undecided> {
        if remembers(exchange) {
            memo.hand_over(&self.recalls, exchange);
        }
        let Some(key) = exchange.session.key.as_ref().filter(|_| came) else {
            return Ok(());
        };
        let charged = self
            .ledger
            .charge(vec![entry(exchange, key, None)], self.clock.now());
        charged.await.map(|_| ()).map_err(|error| undecided(&error))
    }

    /// What a model is told of texts that are marked.
    pub(super) fn preface(&self, exchange: &Exchange) -> Option<String> {
        let to_model = exchange.kind == RouteKind::Model && exchange.leg == Leg::ToUpstream;
        let has_outputs =
            |located: &Located| matches!(located.item, Item::ToolOutput(_) | Item::Definition(_));
        if !to_model
            || self.mode(LayerId::Injection) != Mode::Enforce
            || !exchange.items.iter().any(has_outputs)
        {
            return None;
        }
        injection::preface(&self.policy, &self.marker_key, &exchange.session)
    }

    fn mode(&self, layer: LayerId) -> Mode {
        self.policy.modes.of(layer)
    }
}

/// A model's conversation comes whole with each request; a tool's route brings one answer at a time.
fn remembers(exchange: &Exchange) -> bool {
    exchange.leg == Leg::ToAgent && matches!(exchange.kind, RouteKind::Mcp | RouteKind::Http)
}

fn entry(exchange: &Exchange, key: &SessionKey, at_most: Option<Decimal>) -> Entry {
    Entry {
        account: Account {
            rule: RuleId::from(ACCOUNT),
            of: None,
            owner: Owner {
                who: Who::of(&exchange.session.principal),
                session: Some(key.clone()),
            },
        },
        amount: Decimal::ONE,
        window: Some(LASTS),
        at_most,
    }
}

fn undecided(error: &Uncharged) -> Undecided {
    Undecided {
        layer: LayerId::Injection,
        cause: format!("what came into the session: {error}"),
    }
}
