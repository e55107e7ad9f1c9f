//! What an approval relies on beside the arguments, read anew for each call: whose the named resources are and how they stand,
//! the tool's definition, and where values of the arguments come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::item::ToolCall;
use crate::layers::lookup::{Binds, ReadyLookup};
use crate::layers::ownership::resources::{Naming, resources};
use crate::layers::reading::{Reading, Row};
use crate::layers::support::{ByRule, applying};
use crate::layers::{Context, Reached};
use crate::policy::{OwnershipRule, Policy, Selector, StateRule, ToolRule};
use crate::provenance::{Evidence, Trace, ValueKind};
use crate::source::Problems;
use crate::store::Stores;
use crate::store::definitions::Definitions;
use crate::store::sql::SqlValue;
use crate::store::tickets::{Bound, Origin, Resource};
use crate::verdict::LayerId;
use crate::wire::offload::offload;

/// Texts of arguments whose origin is told.
const TRACED: usize = 64;

/// Longest text, in bytes, whose origin is told.
const TRACED_BYTES: usize = 512;

/// Why the facts of a call cannot be bound.
pub(super) enum Unbound {
    /// They could not be read.
    Unread(String),
    /// The call does not name what the rule asks about.
    Objection {
        /// Where.
        at: String,
        /// Fixed words.
        detail: &'static str,
    },
}

struct Owners {
    rule: OwnershipRule,
    lookup: ReadyLookup,
}

struct States {
    rule: StateRule,
    reading: Reading,
}

/// What tells the facts, ready to run.
pub(super) struct Facts {
    owners: ByRule<Owners>,
    states: ByRule<States>,
    definitions: Arc<Definitions>,
    reached: Reached,
}

impl Facts {
    /// Look-ups of every rule whose calls may be held. A look-up of ownership that cannot run is a fault of its own layer where
    /// that is on, and tells nothing here.
    ///
    /// # Errors
    /// Look-ups of states that cannot run.
    pub(super) fn new(policy: &Arc<Policy>, stores: &Stores) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let (mut owners, mut states) = (ByRule::new(), ByRule::new());
        for tool in &policy.tools {
            let ready = tool.ownership.iter().filter_map(|rule| {
                let binds = rule.binds();
                let lookup =
                    ReadyLookup::new(policy, stores, &rule.owner, &rule.id, Some(&binds)).ok()?;
                let rule = rule.clone();
                Some(Owners { rule, lookup })
            });
            owners.insert(tool.id.clone(), ready.collect());
            let mut ready = Vec::new();
            for rule in tool.ticket.iter().flat_map(|ticket| &ticket.state) {
                let columns: Vec<_> = rule.columns.iter().map(String::as_str).collect();
                let parameters = (&[][..], &rule.binds()[..]);
                match Reading::new(
                    (policy, stores),
                    &rule.lookup,
                    &rule.id,
                    parameters,
                    &columns,
                ) {
                    Ok(reading) => ready.push(States {
                        rule: rule.clone(),
                        reading,
                    }),
                    Err(problem) => problems.push(problem),
                }
            }
            states.insert(tool.id.clone(), ready);
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        Ok(Self {
            owners,
            states,
            definitions: Arc::clone(&stores.definitions),
            reached: Reached::new(policy, stores),
        })
    }

    /// The facts of this call now.
    ///
    /// # Errors
    /// What cannot be read, or is not named.
    pub(super) async fn of(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Bound, Unbound> {
        let exchange = context.exchange;
        let session = &exchange.session;
        let definition = self.definitions.of(&exchange.route, session, &call.tool);
        let mut found = self.owned(call, context).await?;
        found.extend(self.standing(call, context).await?);
        let first_time = self.reached.first_time(call, context).await;
        let first_time = first_time.map_err(|undecided| Unbound::Unread(undecided.cause))?;
        let evidence = exchange.evidence.as_deref();
        let length = evidence.map_or(0, Evidence::bytes);
        let origins = evidence.map_or_else(Vec::new, |evidence| {
            offload(length, || origins(evidence, &call.args.value))
        });
        Ok(Bound {
            definition: definition.map(|hash| hash.to_string()),
            resources: found,
            first_time,
            origins,
            key: context.rule.map(|rule| key(rule, call)).unwrap_or_default(),
        })
    }

    async fn owned(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Vec<Resource>, Unbound> {
        let mut found = Vec::new();
        for ready in applying(&self.owners, context) {
            // What is not named is for the layer of ownership to judge.
            let Ok(named) = resources(&Naming::from(&ready.rule), &call.args.value) else {
                continue;
            };
            for resource in named {
                let session = &context.exchange.session;
                let asked = ready.lookup.ask(
                    LayerId::Tickets,
                    session,
                    Some(context.memo),
                    &resource.binds,
                );
                let answer = asked
                    .await
                    .map_err(|undecided| Unbound::Unread(undecided.cause))?;
                let mut owners: Vec<_> = answer.iter().filter_map(|row| text(&row.owner)).collect();
                owners.sort();
                owners.dedup();
                found.push(Resource {
                    at: resource.at,
                    id: id(&resource.binds),
                    lookup: ready.rule.owner.to_string(),
                    owner: (!owners.is_empty()).then(|| owners.join(", ")),
                    state: BTreeMap::new(),
                });
            }
        }
        Ok(found)
    }

    async fn standing(
        &self,
        call: &ToolCall,
        context: &Context<'_>,
    ) -> Result<Vec<Resource>, Unbound> {
        let principal = &context.exchange.session.principal;
        let mut found = Vec::new();
        for ready in applying(&self.states, context) {
            let named = resources(&Naming::from(&ready.rule), &call.args.value);
            let named = named.map_err(|objection| Unbound::Objection {
                at: objection.at,
                detail: objection.detail,
            })?;
            for resource in named {
                let rows = ready.reading.rows(principal, resource.binds.clone()).await;
                found.push(Resource {
                    at: resource.at,
                    id: id(&resource.binds),
                    lookup: ready.rule.lookup.to_string(),
                    owner: None,
                    state: state(&ready.rule.columns, rows.map_err(Unbound::Unread)?),
                });
            }
        }
        Ok(found)
    }
}

/// One state from the rows of a resource: of several every value counts, in an order of its own.
fn state(columns: &[String], mut rows: Vec<Row>) -> BTreeMap<String, Option<String>> {
    if rows.len() < 2 {
        return rows.pop().unwrap_or_default();
    }
    rows.sort();
    let column = |name: &String| {
        let values: Vec<_> = rows.iter().map(|row| row.get(name).cloned()).collect();
        (name.clone(), serde_json::to_string(&values).ok())
    };
    columns.iter().map(column).collect()
}

/// How a resource is named: its id, or each parameter with its value.
fn id(binds: &Binds) -> String {
    let mut named = binds
        .iter()
        .map(|(name, value)| (name, text(value).unwrap_or_default()));
    if let (Some((_, only)), None) = (named.next(), named.next()) {
        return only;
    }
    let all = binds
        .iter()
        .map(|(name, value)| format!("{name}={}", text(value).unwrap_or_default()));
    all.collect::<Vec<_>>().join(", ")
}

fn text(value: &SqlValue) -> Option<String> {
    match value {
        SqlValue::Text(text) => Some(text.clone()),
        SqlValue::Integer(number) => Some(number.to_string()),
        SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => None,
    }
}

/// Where each short text of the arguments comes from, as far as that is known.
fn origins(evidence: &Evidence, arguments: &serde_json::Value) -> Vec<Origin> {
    let texts = super::show::texts(arguments);
    let short = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty() && text.len() <= TRACED_BYTES);
    let traced = short.take(TRACED).map(|(at, text)| {
        let standing = evidence.standing(ValueKind::Text, text);
        let (from, source) = match (standing.user, standing.operator, standing.outputs.first()) {
            (true, ..) => ("user".to_owned(), "user"),
            (_, true, _) => ("operator".to_owned(), "operator"),
            (_, _, Some(trace)) => (Trace::words(trace), "tool_output"),
            (_, _, None) => ("nobody".to_owned(), "unseen"),
        };
        Origin {
            at,
            from,
            source: source.to_owned(),
        }
    });
    traced.collect()
}

/// Where the arguments stand that matter most: amounts, recipients, then resources.
fn key(rule: &ToolRule, call: &ToolCall) -> Vec<String> {
    let mandate = rule
        .ticket
        .iter()
        .filter_map(|ticket| ticket.mandate.as_ref());
    let mut key: Vec<String> = mandate
        .flat_map(|mandate| [&mandate.amount, &mandate.currency])
        .flatten()
        .cloned()
        .collect();
    let limits = rule.when.iter().flat_map(|condition| condition.places());
    let recipients = rule.recipients.iter().flat_map(|rule| &rule.at);
    let owned = rule.ownership.iter().map(|rule| &rule.resource);
    let states = rule.ticket.iter().flat_map(|ticket| &ticket.state);
    let states = states.map(|rule| &rule.resource);
    let selectors: Vec<&Selector> = limits
        .chain(recipients)
        .chain(owned)
        .chain(states)
        .collect();
    for selector in selectors {
        for (at, _) in selector.select(&call.args.value) {
            if !key.contains(&at) {
                key.push(at);
            }
        }
    }
    key
}
