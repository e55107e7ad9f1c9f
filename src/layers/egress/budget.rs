//! Budgets: how much a session may send to one host.
//!
//! A call counts whole for every host that it names. It is charged once, where it is carried out; before that it is only asked
//! whether it would fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use rust_decimal::Decimal;

use super::Ready;
use super::secrets::entropy;
use crate::clock::Clock;
use crate::item::ToolCall;
use crate::layers::Context;
use crate::layers::support::{Objections, finding};
use crate::ledger::{Account, Entry, Ledger, Owner, Uncharged};
use crate::names::RuleId;
use crate::policy::Otherwise;
use crate::principal::Session;
use crate::store::Stores;
use crate::verdict::{LayerId, Reason, Undecided};

/// Most hosts of one call that are counted; a call with more is undecided.
const MOST_HOSTS: usize = 256;

/// Where budgets are kept.
pub(super) struct Budgets {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

impl Budgets {
    pub(super) fn new(stores: &Stores) -> Self {
        Self {
            ledger: Arc::clone(&stores.ledger),
            clock: Arc::clone(&stores.clock),
        }
    }

    /// Objects where the call does not fit any more.
    pub(super) async fn ask(
        &self,
        ready: &Ready,
        call: &ToolCall,
        (names, context): (bool, &Context<'_>),
        objections: &mut Objections,
    ) -> Result<(), Undecided> {
        let entries = entries(ready, call, names, context)?;
        match self.ledger.check(entries, self.clock.now()).await {
            Ok(()) => Ok(()),
            Err(Uncharged::Exceeded(_)) => {
                let detail =
                    "the call would bring what this session sent to a host over its budget";
                let reason = Reason::BudgetExceeded;
                objections.add(
                    ready.otherwise,
                    finding(LayerId::Egress, &ready.id, reason, None, detail),
                );
                Ok(())
            }
            Err(error) => Err(undecided(format!("the ledger of budgets: {error}"))),
        }
    }
}

fn undecided(cause: String) -> Undecided {
    Undecided {
        layer: LayerId::Egress,
        cause,
    }
}

/// What the call is charged with by the rule: for each host that it names, its bytes and what they tell.
pub(super) fn charges(
    ready: &Ready,
    call: &ToolCall,
    names: bool,
    context: &Context<'_>,
) -> Result<Vec<(Entry, Otherwise)>, Undecided> {
    let entries = entries(ready, call, names, context)?;
    Ok(entries
        .into_iter()
        .map(|entry| (entry, ready.otherwise))
        .collect())
}

fn entries(
    ready: &Ready,
    call: &ToolCall,
    names: bool,
    context: &Context<'_>,
) -> Result<Vec<Entry>, Undecided> {
    let Some(budget) = &ready.budget else {
        return Ok(Vec::new());
    };
    let mut hosts = BTreeSet::new();
    ready.each_url(call, names, &mut |_, found| {
        if let Ok(url) = found.url {
            hosts.insert(url.target.host.to_string());
        }
    });
    if hosts.len() > MOST_HOSTS {
        return Err(undecided(format!(
            "a call names more than {MOST_HOSTS} hosts"
        )));
    }
    let owner = owner(&context.exchange.session);
    let raw = &call.args.raw;
    let bytes = u64::try_from(raw.len()).unwrap_or(u64::MAX);
    let told = told(raw);
    let mut entries = Vec::new();
    for host in hosts {
        for (what, amount, most) in [
            ("bytes", bytes, budget.bytes),
            ("entropy", told, budget.entropy),
        ] {
            let Some(most) = most else { continue };
            entries.push(Entry {
                account: Account {
                    rule: RuleId::from(format!("{}.budget.{what} {host}", ready.id)),
                    owner: owner.clone(),
                },
                amount: Decimal::from(amount),
                window: budget.window,
                at_most: Some(Decimal::from(most)),
            });
        }
    }
    Ok(entries)
}

/// A session's, or where there is none the user's.
fn owner(session: &Session) -> Owner {
    if let Some(key) = &session.key {
        return Owner::Session(key.clone());
    }
    let principal = &session.principal;
    Owner::Principal(
        Arc::clone(&principal.tenant),
        Arc::clone(&principal.issuer),
        Arc::clone(&principal.subject),
    )
}

/// What bytes tell at most by how often each stands there, in bytes: of a text about half of its length, of a key nearly all.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a size that is estimated anyway, never negative"
)]
fn told(bytes: &[u8]) -> u64 {
    (entropy(bytes) * bytes.len() as f64 / 8.0).ceil() as u64
}
