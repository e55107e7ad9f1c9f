//! What several layers need: named lists, look-ups with their parameters, and one verdict from many findings.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::Context;
use crate::names::{ListName, LookupName, RuleId};
use crate::policy::{List, Otherwise, Policy};
use crate::principal::Session;
use crate::source::Problem;
use crate::store::Stores;
use crate::store::sql::{ReadOnlySql, Rows, SqlError, SqlValue};
use crate::verdict::{Finding, Hold, LayerId, Reason, Undecided, Verdict};

/// Parameters that every look-up may use.
const ALWAYS: [&str; 2] = ["principal", "tenant"];

/// The list of that name, or a problem for the rule that asks for it.
pub(super) fn list<'p>(
    policy: &'p Policy,
    name: &ListName,
    rule: &RuleId,
) -> Result<&'p List, Problem> {
    policy.lists.get(name).ok_or_else(|| {
        Problem::new(format!("{rule}: there is no list `{name}`")).help(format!(
            "add `{name}` under `lists`, or name one of: {}",
            names(policy.lists.keys())
        ))
    })
}

fn names(given: impl Iterator<Item = impl std::fmt::Display>) -> String {
    let mut sorted: Vec<String> = given.map(|name| name.to_string()).collect();
    sorted.sort();
    if sorted.is_empty() {
        "(none)".to_owned()
    } else {
        sorted.join(", ")
    }
}

/// A look-up whose database is open and whose SQL is checked.
#[derive(Clone)]
pub(super) struct ReadyLookup {
    name: LookupName,
    sql: String,
    store: Arc<dyn ReadOnlySql>,
}

impl ReadyLookup {
    /// Finds the look-up, its database, and checks the SQL. `bind` is the parameter that the rule fills besides the
    /// principal's: the SQL must use it.
    pub(super) fn new(
        policy: &Policy,
        stores: &Stores,
        name: &LookupName,
        rule: &RuleId,
        bind: Option<&str>,
    ) -> Result<Self, Problem> {
        let Some(lookup) = policy.lookups.get(name) else {
            return Err(
                Problem::new(format!("{rule}: there is no look-up `{name}`")).help(format!(
                    "add `{name}` under `lookups`, or name one of: {}",
                    names(policy.lookups.keys())
                )),
            );
        };
        let Some(store) = stores.sql.get(&lookup.store) else {
            return Err(Problem::new(format!(
                "look-up `{name}` asks the store `{}`, which is not configured",
                lookup.store
            ))
            .help(format!("add `stores.{}` to the config", lookup.store)));
        };
        let used = store.check(&lookup.sql).map_err(|error| {
            Problem::new(format!("look-up `{name}`: {error}"))
                .help("a look-up is one SELECT with named parameters such as :principal")
        })?;
        if bind.is_some_and(|bind| ALWAYS.contains(&bind)) {
            return Err(Problem::new(format!(
                "{rule}: :principal and :tenant are given by the session, not by an argument"
            ))
            .help("set `as` to another name and use it in the SQL"));
        }
        if let Some(bind) = bind
            && !used.iter().any(|name| name == bind)
        {
            return Err(Problem::new(format!(
                "{rule}: the SQL of look-up `{name}` does not use :{bind}, so it would not depend on the resource"
            ))
            .help(format!("use :{bind} in the SQL, or set `as` to the parameter it uses")));
        }
        let mut unknown = String::new();
        for name in &used {
            if !ALWAYS.contains(&name.as_str()) && bind != Some(name.as_str()) {
                let _ = write!(unknown, " :{name}");
            }
        }
        if !unknown.is_empty() {
            return Err(Problem::new(format!(
                "{rule}: nothing gives a value to{unknown} of look-up `{name}`"
            ))
            .help("the parameters are :principal, :tenant and the one that the rule binds"));
        }
        Ok(Self {
            name: name.clone(),
            sql: lookup.sql.clone(),
            store: Arc::clone(store),
        })
    }

    /// Runs it for the session's principal; the answer has one column.
    pub(super) async fn values(
        &self,
        layer: LayerId,
        session: &Session,
        bind: Option<(&str, SqlValue)>,
    ) -> Result<Vec<SqlValue>, Undecided> {
        let text = |value: &Arc<str>| SqlValue::Text(value.to_string());
        let mut params = Vec::with_capacity(3);
        params.extend(bind.map(|(name, value)| (name.to_owned(), value)));
        params.push(("principal".to_owned(), text(&session.principal.subject)));
        params.push(("tenant".to_owned(), text(&session.principal.tenant)));
        let failed = |cause: String| Undecided {
            layer,
            cause: format!("look-up `{}`: {cause}", self.name),
        };
        let answer: Result<Rows, SqlError> = self.store.query(&self.sql, params).await;
        let rows = answer.map_err(|error| failed(error.to_string()))?;
        if rows.columns.len() != 1 {
            return Err(failed(format!(
                "it returns {} columns, not one",
                rows.columns.len()
            )));
        }
        Ok(rows.rows.into_iter().flatten().collect())
    }
}

/// A layer's rules, ready to run, by the tool rule of the policy that they stand in.
pub(super) type ByRule<R> = HashMap<RuleId, Vec<R>>;

/// The rules for the call that is judged; none for a tool that nobody described.
pub(super) fn applying<'r, R>(rules: &'r ByRule<R>, context: &Context<'_>) -> &'r [R] {
    context
        .rule
        .and_then(|rule| rules.get(&rule.id))
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// One objection of a layer.
pub(super) fn finding(
    layer: LayerId,
    rule: &RuleId,
    reason: Reason,
    argument: Option<String>,
    detail: impl Into<Cow<'static, str>>,
) -> Finding {
    Finding {
        layer,
        rule: rule.clone(),
        reason,
        argument,
        detail: detail.into(),
    }
}

/// Collects objections; the first denial stands, else the first that waits for a ticket.
#[derive(Default)]
pub(super) struct Objections {
    deny: Option<Finding>,
    hold: Option<Finding>,
}

impl Objections {
    /// Adds one.
    pub(super) fn add(&mut self, otherwise: Otherwise, finding: Finding) {
        let place = match otherwise {
            Otherwise::Deny => &mut self.deny,
            Otherwise::Hold => &mut self.hold,
        };
        place.get_or_insert(finding);
    }

    /// Whether nothing can change the verdict any more.
    pub(super) const fn is_denied(&self) -> bool {
        self.deny.is_some()
    }

    /// What they come to.
    pub(super) fn verdict(self) -> Verdict {
        match (self.deny, self.hold) {
            (Some(finding), _) => Verdict::Deny(finding),
            (None, Some(finding)) => Verdict::Hold(Hold {
                ticket: None,
                summary: None,
                expires_at: None,
                finding,
            }),
            (None, None) => Verdict::Allow,
        }
    }
}
