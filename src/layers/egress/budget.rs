//! Budgets: how much a session may send to one host.
//!
//! A call counts whole for every host that it names. It is charged once, where it is carried out; before that it is only asked
//! whether it would fit. What leaves through the forward proxy is charged piece by piece, each before it leaves.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::HeaderMap;
use rust_decimal::Decimal;
use serde_json::Value;

use super::Ready;
use super::target::Host;
use crate::clock::Clock;
use crate::item::ToolCall;
use crate::layers::Context;
use crate::layers::support::{Objections, finding};
use crate::ledger::{Account, Charged, Entry, Ledger, Owner, Uncharged};
use crate::names::RuleId;
use crate::policy::{Budget, Otherwise, Per};
use crate::principal::{Session, Who};
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
    let mut places = BTreeSet::new();
    ready.each_url(call, names, &mut |_, found| {
        if let Ok(url) = found.url {
            places.insert(ready.matcher.place(&url.target.host));
        }
    });
    if places.len() > MOST_HOSTS {
        return Err(undecided(format!(
            "a call names more than {MOST_HOSTS} hosts"
        )));
    }
    let owner = owner(&context.exchange.session, budget.per);
    let mut amount = Amount::of(&call.args.raw).and(Amount::sealed(files(&call.args.value)));
    if let Some(headers) = &context.exchange.headers {
        amount = amount.and(Amount::of_headers(headers));
    }
    let places = places.into_iter();
    Ok(places
        .flat_map(|place| limits(&ready.id, budget, &owner, place.into(), amount))
        .collect())
}

/// Bytes of files that stand in arguments without their text: of these a call names only the size.
fn files(value: &Value) -> u64 {
    match value {
        Value::Array(elements) => elements.iter().map(files).fold(0, u64::saturating_add),
        Value::Object(members) => {
            let sealed = members.contains_key("sha256") && !members.contains_key("text");
            match members.get("size").and_then(Value::as_u64) {
                Some(size) if sealed && members.contains_key("filename") => size,
                _ => members.values().map(files).fold(0, u64::saturating_add),
            }
        }
        _ => 0,
    }
}

/// What is about to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    bytes: u64,
    told: u64,
}

impl Amount {
    /// Of bytes that can be read.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            told: told(bytes),
        }
    }

    /// Of header fields, as they are written.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let mut written = Vec::new();
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                written.extend_from_slice(part);
            }
        }
        Self::of(&written)
    }

    /// Of so many bytes that nobody here can read, such as a tunnel's: each may tell something.
    pub const fn sealed(bytes: u64) -> Self {
        Self { bytes, told: bytes }
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            told: self.told.saturating_add(other.told),
        }
    }
}

/// What one budget is charged with for one place.
fn limits(
    rule: &RuleId,
    budget: &Budget,
    owner: &Owner,
    place: Arc<str>,
    amount: Amount,
) -> impl Iterator<Item = Entry> {
    let limits = [
        ("bytes", amount.bytes, budget.bytes),
        ("entropy", amount.told, budget.entropy),
    ];
    limits.into_iter().filter_map(move |(what, amount, most)| {
        Some(Entry {
            account: Account {
                rule: RuleId::from(format!("{rule}.budget.{what}")),
                of: Some(Arc::clone(&place)),
                owner: owner.clone(),
            },
            amount: Decimal::from(amount),
            window: budget.window,
            at_most: Some(Decimal::from(most?)),
        })
    })
}

/// A session's, or where there is none, or the budget says so, the user's.
fn owner(session: &Session, per: Per) -> Owner {
    let key = session.key.as_ref().filter(|_| per == Per::Session);
    Owner {
        who: Who::of(&session.principal),
        session: key.cloned(),
    }
}

/// What one session sends to one place past the layer: each piece is charged before it leaves.
#[derive(Clone)]
pub struct Spending {
    rule: RuleId,
    budget: Budget,
    owner: Owner,
    place: Arc<str>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

impl Spending {
    /// Of this budget, for the place that the rule counts the host under.
    pub fn new(
        (rule, budget): (&RuleId, &Budget),
        (matcher, host): (&super::Rule, &Host),
        session: &Session,
        (ledger, clock): (&Arc<dyn Ledger>, &Arc<dyn Clock>),
    ) -> Self {
        Self {
            rule: rule.clone(),
            budget: budget.clone(),
            owner: owner(session, budget.per),
            place: matcher.place(host).into(),
            ledger: Arc::clone(ledger),
            clock: Arc::clone(clock),
        }
    }

    fn entries(&self, amount: Amount) -> Vec<Entry> {
        limits(
            &self.rule,
            &self.budget,
            &self.owner,
            Arc::clone(&self.place),
            amount,
        )
        .collect()
    }

    /// Whether so much may leave now; nothing is charged.
    ///
    /// # Errors
    /// It does not fit, or the ledger failed.
    pub async fn fits(&self, amount: Amount) -> Result<(), Uncharged> {
        let entries = self.entries(amount);
        self.ledger.check(entries, self.clock.now()).await
    }

    /// Charges it.
    ///
    /// # Errors
    /// As [`Self::fits`]: it must not leave.
    pub async fn spend(&self, amount: Amount) -> Result<Charged, Uncharged> {
        let entries = self.entries(amount);
        self.ledger.charge(entries, self.clock.now()).await
    }

    /// It has provably not left.
    pub async fn give_back(&self, charged: Charged) {
        self.ledger.give_back(charged).await;
    }
}

/// What bytes tell at most, in bytes, by how often each stands there: the length of a code that first says how often, then in
/// which order (two-part code for types: Cover and Thomas, Elements of Information Theory, section 13.2). Of a long text about
/// half of its length, of a key nearly all; never more than the bytes themselves.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a size that is estimated anyway, never negative"
)]
fn told(bytes: &[u8]) -> u64 {
    let length = bytes.len() as f64;
    let mut seen = [false; 256];
    for byte in bytes {
        if let Some(seen) = seen.get_mut(usize::from(*byte)) {
            *seen = true;
        }
    }
    let different = seen.iter().filter(|seen| **seen).count() as f64;
    let counts = different * (length + 1.0).log2();
    let bits = super::secrets::entropy(bytes).mul_add(length, counts);
    ((bits / 8.0).ceil() as u64).min(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn random_text_tells_nearly_all_of_itself_and_prose_about_half() {
        let prose =
            "The parcel left the depot this morning and should be with you tomorrow. ".repeat(40);
        let share = |text: &[u8]| told(text) * 100 / text.len() as u64;
        assert!((45..65).contains(&share(prose.as_bytes())));
        let random: Vec<u8> = (0..4096_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
            .take(4096)
            .collect();
        assert!(share(&random) > 95);
        assert!(share(&[b'a'; 4096]) < 3);
        // However small the pieces, none is free.
        assert_eq!(told(b"x"), 1);
        assert_eq!(told(b""), 0);
    }

    #[test]
    fn a_file_without_its_text_counts_by_its_size() {
        let file = json!({"filename": "a", "size": 9_000_000, "sha256": "00"});
        assert_eq!(files(&json!({"doc": [file, file]})), 18_000_000);
        let read = json!({"filename": "a", "size": 5, "sha256": "00", "text": "hello"});
        assert_eq!(files(&json!({"doc": read, "size": 7})), 0);
    }
}
