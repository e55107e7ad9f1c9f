//! Finds out what became of calls whose outcome is unknown: asks the upstream's own books, by the rule's recipe and with the
//! guard's own read credential. A call is never sent again to find out.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::guard::Receipt;
use crate::layers::catalog::number;
use crate::layers::ownership::resources::resource_id;
use crate::layers::reading::{Reading, Row};
use crate::names::{RuleId, TicketId};
use crate::policy::{Policy, Reconcile, Scalar, Sign};
use crate::source::Problems;
use crate::store::Stores;
use crate::store::sql::SqlValue;
use crate::store::tickets::{
    AnswerError, Resolution, Resolver, Ticket, TicketError, TicketState, TicketStore,
};

/// Between two rounds over everything that is unknown.
const EVERY: Duration = Duration::from_secs(5);

/// Longest time until a call is asked about again.
const SLOWEST: Duration = Duration::from_mins(10);

/// Calls that one round looks at, oldest first.
const ROUND: u32 = 1_000;

/// What the upstream's books say of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// It took effect.
    Done,
    /// It did not, and never will.
    NotDone,
    /// Neither, or it may still be on its way: it stays unknown.
    Open,
}

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum Unreconciled {
    /// There is no such ticket.
    #[error("there is no ticket {0}")]
    NoSuchTicket(TicketId),
    /// Its outcome is known, or it was not sent.
    #[error("ticket {ticket} is {state}: there is nothing to find out")]
    NotUnknown {
        /// Which.
        ticket: TicketId,
        /// Where it stands.
        state: TicketState,
    },
    /// Its rule has no recipe.
    #[error(
        "the rule of ticket {0} has no `reconcile`: a person must look and say what became of it"
    )]
    NoRecipe(TicketId),
    /// The books could not be read.
    #[error("the books could not be read: {0}")]
    Unread(String),
    /// The ticket store failed.
    #[error(transparent)]
    Store(#[from] TicketError),
    /// What was found does not count.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

struct Recipe {
    rule: Reconcile,
    reading: Reading,
}

/// Every recipe of the policy, ready to run.
pub struct Reconciler {
    policy: Arc<Policy>,
    store: Arc<dyn TicketStore>,
    clock: Arc<dyn Clock>,
    recipes: HashMap<RuleId, Recipe>,
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciler")
            .field("recipes", &self.recipes.keys())
            .finish_non_exhaustive()
    }
}

impl Reconciler {
    /// `None`: there is no ticket store.
    ///
    /// # Errors
    /// Recipes whose look-up cannot run.
    pub fn new(policy: &Arc<Policy>, stores: &Stores) -> Result<Option<Self>, Problems> {
        let Some(store) = &stores.tickets else {
            return Ok(None);
        };
        let mut recipes = HashMap::new();
        let mut problems = Vec::new();
        for ticket in policy.tools.iter().filter_map(|rule| rule.ticket.as_ref()) {
            let Some(rule) = &ticket.reconcile else {
                continue;
            };
            let parameters = (&["ticket"][..], &rule.binds()[..]);
            let reading = Reading::new(
                (policy, stores),
                &rule.lookup,
                &rule.id,
                parameters,
                &rule.columns(),
            );
            match reading {
                Ok(reading) => {
                    let rule = rule.clone();
                    recipes.insert(ticket.id.clone(), Recipe { rule, reading });
                }
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        Ok(Some(Self {
            policy: Arc::clone(policy),
            store: Arc::clone(store),
            clock: Arc::clone(&stores.clock),
            recipes,
        }))
    }

    /// Whether any rule has a recipe.
    pub fn has_recipes(&self) -> bool {
        !self.recipes.is_empty()
    }

    /// Asks about one call, and stores what was found out.
    ///
    /// # Errors
    /// Why nothing was.
    pub async fn once(&self, ticket: TicketId) -> Result<Reconciled, Unreconciled> {
        let found = self.store.get(ticket.clone()).await?;
        let found = found.ok_or(Unreconciled::NoSuchTicket(ticket))?;
        self.reconcile(&found).await
    }

    async fn reconcile(&self, ticket: &Ticket) -> Result<Reconciled, Unreconciled> {
        if ticket.state != TicketState::Unknown {
            return Err(Unreconciled::NotUnknown {
                ticket: ticket.id.clone(),
                state: ticket.state,
            });
        }
        let Some(recipe) = self.recipe(ticket) else {
            return Err(Unreconciled::NoRecipe(ticket.id.clone()));
        };
        let rows = recipe.rows(ticket).await.map_err(Unreconciled::Unread)?;
        let now = self.clock.now();
        let said = recipe.judge(&rows, sent(ticket), now);
        let done = match said {
            Reconciled::Done => true,
            Reconciled::NotDone => false,
            Reconciled::Open => return Ok(said),
        };
        let resolution = Resolution {
            ticket: ticket.id.clone(),
            done,
            by: Resolver::Recipe(recipe.rule.id.clone()),
            note: Some(format!(
                "look-up `{}` gave {} row(s)",
                recipe.reading.name(),
                rows.len()
            )),
            receipt: done.then(|| receipt(ticket, &rows, now)),
        };
        self.store.resolve(resolution).await?;
        Ok(said)
    }

    /// Today's recipe of the call's tool.
    fn recipe(&self, ticket: &Ticket) -> Option<&Recipe> {
        let rule = self.policy.rule_for(&ticket.tool)?.ticket.as_ref()?;
        self.recipes.get(&rule.id)
    }

    /// Asks about everything that is unknown, again and again, each call at growing intervals. Never returns.
    pub async fn run(self) {
        let mut due: HashMap<TicketId, (Instant, Duration)> = HashMap::new();
        let mut rounds = tokio::time::interval(EVERY);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            let unknown = match self.store.unknown(ROUND).await {
                Ok(unknown) => unknown,
                Err(error) => {
                    tracing::warn!(%error, "calls of unknown outcome cannot be read");
                    continue;
                }
            };
            due.retain(|ticket, _| unknown.iter().any(|one| one.id == *ticket));
            for ticket in unknown {
                let now = Instant::now();
                let (next, pause) = *due.entry(ticket.id.clone()).or_insert((now, EVERY));
                if next > now || self.recipe(&ticket).is_none() {
                    continue;
                }
                let longer = pause.saturating_mul(2).min(SLOWEST);
                due.insert(ticket.id.clone(), (now + pause, longer));
                self.report(&ticket, self.reconcile(&ticket).await);
            }
        }
    }

    #[expect(clippy::unused_self, reason = "reads as what the round says")]
    fn report(&self, ticket: &Ticket, said: Result<Reconciled, Unreconciled>) {
        let ticket = &ticket.id;
        match said {
            // Nothing yet, or somebody else was faster.
            Ok(Reconciled::Open)
            | Err(Unreconciled::NotUnknown { .. } | Unreconciled::Answer(_)) => {}
            Ok(found) => tracing::info!(%ticket, ?found, "an unknown outcome was found out"),
            Err(error) => tracing::warn!(%ticket, %error, "an unknown outcome stays unknown"),
        }
    }
}

fn sent(ticket: &Ticket) -> Timestamp {
    ticket.claimed_at.unwrap_or(ticket.created_at)
}

impl Recipe {
    async fn rows(&self, ticket: &Ticket) -> Result<Vec<Row>, String> {
        let arguments: Value = serde_json::from_str(ticket.arguments.get())
            .map_err(|_| "the stored arguments are no JSON".to_owned())?;
        let mut binds = vec![(
            "ticket".to_owned(),
            SqlValue::Text(ticket.id.as_str().to_owned()),
        )];
        for (name, selector) in &self.rule.with {
            let mut named = selector.select(&arguments).into_iter();
            let value = match (named.next(), named.next()) {
                (Some((_, value)), None) => resource_id(value),
                _ => None,
            };
            let value = value.ok_or_else(|| {
                format!("the stored arguments have no single id at `{selector}` for `:{name}`")
            })?;
            binds.push((name.clone(), value));
        }
        self.reading.rows(&ticket.principal, binds).await
    }

    fn judge(&self, rows: &[Row], sent: Timestamp, now: Timestamp) -> Reconciled {
        if says(&self.rule.done, rows) {
            return Reconciled::Done;
        }
        let landed = SignedDuration::try_from(self.rule.after)
            .ok()
            .and_then(|after| sent.checked_add(after).ok())
            .is_some_and(|landed| landed <= now);
        if landed && says(&self.rule.not_done, rows) {
            Reconciled::NotDone
        } else {
            Reconciled::Open
        }
    }
}

fn says(sign: &Sign, rows: &[Row]) -> bool {
    match sign {
        Sign::Row => !rows.is_empty(),
        Sign::NoRow => rows.is_empty(),
        Sign::Column { column, one_of } => {
            let is_one = |row: &Row| {
                let text = row.get(column).and_then(Option::as_deref);
                text.is_some_and(|text| one_of.iter().any(|scalar| is(scalar, text)))
            };
            !rows.is_empty() && rows.iter().all(is_one)
        }
    }
}

fn is(scalar: &Scalar, text: &str) -> bool {
    match scalar {
        Scalar::Text(wanted) => wanted == text,
        Scalar::Number(wanted) => number(text).is_ok_and(|found| found == *wanted),
        Scalar::Bool(wanted) => text == wanted.to_string() || text == u8::from(*wanted).to_string(),
    }
}

/// What repeats of the call get: what the books say, not what the upstream answered.
fn receipt(ticket: &Ticket, rows: &[Row], now: Timestamp) -> Receipt {
    let body = json!({
        "holdpoint_receipt": ticket.id,
        "reconciled": true,
        "found": rows,
    });
    Receipt {
        ticket: ticket.id.clone(),
        status: 200,
        content_type: Some("application/json".to_owned()),
        body: body.to_string().into(),
        completed_at: now,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn row(status: &str) -> Row {
        Row::from([("status".to_owned(), Some(status.to_owned()))])
    }

    fn column(values: &[Scalar]) -> Sign {
        Sign::Column {
            column: "status".to_owned(),
            one_of: values.iter().cloned().collect::<BTreeSet<_>>(),
        }
    }

    #[test]
    fn every_row_must_say_so() {
        let done = column(&[Scalar::Text("settled".to_owned())]);
        assert!(says(&done, &[row("settled"), row("settled")]));
        assert!(!says(&done, &[row("settled"), row("pending")]));
        assert!(!says(&done, &[]));
        assert!(says(&Sign::Row, &[row("x")]) && !says(&Sign::Row, &[]));
        assert!(says(&Sign::NoRow, &[]) && !says(&Sign::NoRow, &[row("x")]));
        let number = column(&[Scalar::Number("1".parse().unwrap())]);
        assert!(says(&number, &[row("1.0")]) && !says(&number, &[row("x")]));
        let truth = column(&[Scalar::Bool(true)]);
        assert!(says(&truth, &[row("1")]) && says(&truth, &[row("true")]));
    }
}
