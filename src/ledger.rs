//! What calls come to together: counts and sums that rules limit, bounded in memory.
//!
//! A call is charged once, when it executes; whether it fits is asked and written in one step, so that two calls at once cannot
//! both take the last place.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use rust_decimal::Decimal;

use crate::names::{RuleId, SessionKey};
use crate::principal::Who;

/// Whose account is charged: an end user's, or one of a session of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The end user.
    pub who: Who,
    /// The session; `None`: the user's, in whatever session.
    pub session: Option<SessionKey>,
}

/// One account: what one limit remembers of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Account {
    /// The limit.
    pub rule: RuleId,
    /// Which of the limit's accounts, where it keeps several of one owner: the host of a budget.
    pub of: Option<Arc<str>>,
    /// Whose.
    pub owner: Owner,
}

/// What a call adds to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which account.
    pub account: Account,
    /// How much: not negative.
    pub amount: Decimal,
    /// How long it counts; `None`: as long as the account is remembered.
    pub window: Option<Duration>,
    /// What the account may reach and not pass; `None`: a person has allowed more.
    pub at_most: Option<Decimal>,
}

/// Why a call cannot be charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncharged {
    /// The account of this rule would pass its limit.
    #[error("`{0}`: the limit is reached")]
    Exceeded(RuleId),
    /// No further account of this user can be remembered.
    #[error("too many accounts of this user, of this tenant, or in all are remembered")]
    Full,
    /// The ledger failed.
    #[error("{0}")]
    Failed(String),
}

/// What was charged, so that it can be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charged(pub Vec<(Account, i64, Decimal)>);

/// Remembers what calls came to. Implementations are shared by all requests and bound their memory.
pub trait Ledger: Send + Sync {
    /// Whether all entries fit now; nothing is written.
    ///
    /// # Errors
    /// The first that does not.
    fn check(&self, entries: Vec<Entry>, now: Timestamp) -> BoxFuture<'_, Result<(), Uncharged>>;

    /// Writes all entries, or none where one does not fit.
    ///
    /// # Errors
    /// The first that does not fit.
    fn charge(
        &self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Charged, Uncharged>>;

    /// Takes back what was charged for a call that was not sent.
    fn give_back(&self, charged: Charged) -> BoxFuture<'_, ()>;
}

/// A window is remembered in so many parts: what was charged counts for the window and up to one part longer.
const PARTS: i64 = 60;

/// An account without a window is forgotten when nothing was charged for so long.
const IDLE: Duration = Duration::from_hours(24);

/// So many users at their limit fill a ledger in memory, and half as many a tenant's part of it.
const USERS: usize = 6;

/// A ledger in memory. A new account beyond what there is room for is refused unless one has run out: to forget a live one
/// would lift its limit. Room is shared out, so that a user whose agent invents sessions leaves no other without.
#[derive(Debug)]
pub struct MemoryLedger {
    /// Most accounts of one user.
    each: usize,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    accounts: HashMap<Account, Book>,
    /// How many of them are a user's, and a tenant's.
    users: HashMap<Who, usize>,
    tenants: HashMap<Arc<str>, usize>,
}

impl Books {
    /// Forgets what has run out.
    fn prune(&mut self, now: i64) {
        self.accounts.retain(|_, book| book.until > now);
        self.users.clear();
        self.tenants.clear();
        for account in self.accounts.keys() {
            let who = &account.owner.who;
            *self.users.entry(who.clone()).or_default() += 1;
            *self.tenants.entry(Arc::clone(&who.tenant)).or_default() += 1;
        }
    }

    fn open(&mut self, entry: &Entry) -> &mut Book {
        if !self.accounts.contains_key(&entry.account) {
            let who = &entry.account.owner.who;
            *self.users.entry(who.clone()).or_default() += 1;
            *self.tenants.entry(Arc::clone(&who.tenant)).or_default() += 1;
        }
        self.accounts
            .entry(entry.account.clone())
            .or_insert_with(|| Book::of(entry.window))
    }

    /// Whether there is room for these further accounts, each of one user.
    fn has_room<'a>(&self, new: impl Iterator<Item = &'a Account>, each: usize) -> bool {
        let (all, tenant) = (each.saturating_mul(USERS), each.saturating_mul(USERS / 2));
        let mut users: HashMap<&Who, usize> = HashMap::new();
        let mut tenants: HashMap<&str, usize> = HashMap::new();
        for account in new {
            let who = &account.owner.who;
            *users.entry(who).or_default() += 1;
            *tenants.entry(&who.tenant).or_default() += 1;
        }
        let added: usize = users.values().sum();
        let fits = |held: Option<&usize>, more: usize, most: usize| {
            more == 0 || held.copied().unwrap_or(0).saturating_add(more) <= most
        };
        users
            .into_iter()
            .all(|(who, more)| fits(self.users.get(who), more, each))
            && tenants
                .into_iter()
                .all(|(name, more)| fits(self.tenants.get(name), more, tenant))
            && fits(Some(&self.accounts.len()), added, all)
    }
}

/// Amounts by part of the window.
#[derive(Debug, Default)]
struct Book {
    parts: BTreeMap<i64, Decimal>,
    window: Window,
    /// When it can be forgotten, in milliseconds.
    until: i64,
}

impl MemoryLedger {
    /// A ledger for at most `each` accounts of one user, three times as many of one tenant, and six times in all.
    pub fn new(each: usize) -> Self {
        Self {
            each: each.max(1),
            books: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all entries fit, and whether there is room for their accounts.
    fn fits(&self, books: &Books, entries: &[Entry], now: i64) -> Result<(), Uncharged> {
        let mut added: HashMap<&Account, Decimal> = HashMap::new();
        for entry in entries {
            let exceeded = || Uncharged::Exceeded(entry.account.rule.clone());
            let own = added.entry(&entry.account).or_default();
            *own = own.checked_add(entry.amount).ok_or_else(exceeded)?;
            let book = books.accounts.get(&entry.account);
            let known = book.map_or(Some(Decimal::ZERO), |book| book.total(now));
            let total = known.and_then(|known| known.checked_add(*own));
            let fits = match (total, entry.at_most) {
                (Some(total), Some(at_most)) => total <= at_most,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if !fits {
                return Err(exceeded());
            }
        }
        let new = added.keys().copied();
        let new = new.filter(|account| !books.accounts.contains_key(account));
        if !books.has_room(new, self.each) {
            return Err(Uncharged::Full);
        }
        Ok(())
    }
}

/// A window, cut into parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Length of a part in milliseconds; 0 without a window.
    part: i64,
}

impl Window {
    pub(crate) fn of(window: Option<Duration>) -> Self {
        Self {
            part: window.map_or(0, |window| (millis(window) / PARTS).max(1)),
        }
    }

    /// Which part of the window a moment is in, in milliseconds since 1970.
    pub(crate) fn index(self, now: i64) -> i64 {
        if self.part == 0 {
            0
        } else {
            now.div_euclid(self.part)
        }
    }

    /// The oldest part that counts: the one in which the window begins counts whole.
    pub(crate) fn first(self, now: i64) -> i64 {
        if self.part == 0 {
            0
        } else {
            self.index(now) - PARTS
        }
    }

    /// When what is charged now can be forgotten.
    pub(crate) fn until(self, now: i64) -> i64 {
        let lasts = if self.part == 0 {
            millis(IDLE)
        } else {
            self.part.saturating_mul(PARTS + 1)
        };
        now.saturating_add(lasts)
    }
}

impl Book {
    fn of(window: Option<Duration>) -> Self {
        Self {
            window: Window::of(window),
            ..Self::default()
        }
    }

    /// What counts now; `None` where no number holds it. A clock that steps back forgets nothing.
    fn total(&self, now: i64) -> Option<Decimal> {
        let mut amounts = self.parts.range(self.window.first(now)..);
        amounts.try_fold(Decimal::ZERO, |sum, (_, amount)| sum.checked_add(*amount))
    }

    fn add(&mut self, now: i64, amount: Decimal) -> i64 {
        let (index, first) = (self.window.index(now), self.window.first(now));
        self.parts.retain(|part, _| *part >= first);
        let sum = self.parts.entry(index).or_default();
        *sum = sum.checked_add(amount).unwrap_or(Decimal::MAX);
        self.until = self.until.max(self.window.until(now));
        index
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

impl Ledger for MemoryLedger {
    fn check(&self, entries: Vec<Entry>, now: Timestamp) -> BoxFuture<'_, Result<(), Uncharged>> {
        Box::pin(ready(self.check_now(&entries, now)))
    }

    fn charge(
        &self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Charged, Uncharged>> {
        Box::pin(ready(self.charge_now(&entries, now)))
    }

    fn give_back(&self, charged: Charged) -> BoxFuture<'_, ()> {
        self.give_back_now(&charged);
        Box::pin(ready(()))
    }
}

impl MemoryLedger {
    fn check_now(&self, entries: &[Entry], now: Timestamp) -> Result<(), Uncharged> {
        let mut books = self.lock();
        let now = now.as_millisecond();
        match self.fits(&books, entries, now) {
            Err(Uncharged::Full) => {
                books.prune(now);
                self.fits(&books, entries, now)
            }
            said => said,
        }
    }

    fn charge_now(&self, entries: &[Entry], now: Timestamp) -> Result<Charged, Uncharged> {
        let mut books = self.lock();
        let now = now.as_millisecond();
        if self.fits(&books, entries, now) == Err(Uncharged::Full) {
            books.prune(now);
        }
        self.fits(&books, entries, now)?;
        let charged = entries.iter().map(|entry| {
            let index = books.open(entry).add(now, entry.amount);
            (entry.account.clone(), index, entry.amount)
        });
        Ok(Charged(charged.collect()))
    }

    fn give_back_now(&self, charged: &Charged) {
        let mut books = self.lock();
        for (account, index, amount) in &charged.0 {
            let part = books
                .accounts
                .get_mut(account)
                .and_then(|book| book.parts.get_mut(index));
            if let Some(sum) = part {
                let left = sum.checked_sub(*amount).unwrap_or_default();
                *sum = left.max(Decimal::ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn who(tenant: &str, subject: &str) -> Who {
        Who {
            tenant: tenant.into(),
            issuer: "config".into(),
            subject: subject.into(),
        }
    }

    fn entry(whose: &str, amount: i64, window: Option<Duration>, at_most: i64) -> Entry {
        Entry {
            account: Account {
                rule: RuleId::from("tools[0].when[0]"),
                of: None,
                owner: Owner {
                    who: who("t", "ann"),
                    session: Some(SessionKey::from(whose)),
                },
            },
            amount: Decimal::from(amount),
            window,
            at_most: Some(Decimal::from(at_most)),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_limit_is_reached_and_never_passed() {
        let ledger = MemoryLedger::new(10);
        let pay = |amount| ledger.charge_now(&[entry("a", amount, None, 100)], at(0));
        pay(60).unwrap();
        assert!(matches!(pay(41), Err(Uncharged::Exceeded(_))));
        pay(40).unwrap();
        assert!(pay(1).is_err());
        pay(0).unwrap();
        // Somebody else has an account of their own.
        ledger
            .charge_now(&[entry("b", 100, None, 100)], at(0))
            .unwrap();
        // A person has allowed more, and it counts.
        let mut more = entry("a", 50, None, 100);
        more.at_most = None;
        ledger.charge_now(&[more], at(0)).unwrap();
        assert!(pay(0).is_err());
    }

    #[test]
    fn one_entry_that_does_not_fit_charges_nothing() {
        let ledger = MemoryLedger::new(10);
        let both = [entry("a", 5, None, 10), entry("b", 11, None, 10)];
        assert!(ledger.charge_now(&both, at(0)).is_err());
        assert!(ledger.check_now(&[entry("a", 10, None, 10)], at(0)).is_ok());
        // Two entries of one account count together.
        let twice = [entry("a", 6, None, 10), entry("a", 6, None, 10)];
        assert!(ledger.charge_now(&twice, at(0)).is_err());
    }

    #[test]
    fn a_window_moves_and_never_forgets_early() {
        let ledger = MemoryLedger::new(10);
        let pay = |second| ledger.charge_now(&[entry("a", 1, Some(HOUR), 1)], at(second));
        pay(30).unwrap();
        assert!(pay(31).is_err());
        assert!(pay(3630).is_err());
        // A clock that steps back gives nothing back.
        assert!(pay(-7200).is_err());
        pay(3600 + 30 + 60).unwrap();
    }

    #[test]
    fn what_was_not_sent_is_given_back() {
        let ledger = MemoryLedger::new(10);
        let one = [entry("a", 7, Some(HOUR), 10)];
        let charged = ledger.charge_now(&one, at(0)).unwrap();
        assert!(ledger.check_now(&one, at(1)).is_err());
        ledger.give_back_now(&charged);
        ledger.charge_now(&one, at(1)).unwrap();
    }

    #[test]
    fn a_full_ledger_forgets_only_what_has_run_out() {
        let ledger = MemoryLedger::new(2);
        ledger
            .charge_now(&[entry("a", 1, Some(HOUR), 1)], at(0))
            .unwrap();
        ledger.charge_now(&[entry("b", 1, None, 1)], at(0)).unwrap();
        let third = [entry("c", 1, None, 1)];
        assert_eq!(ledger.check_now(&third, at(60)), Err(Uncharged::Full));
        assert_eq!(ledger.charge_now(&third, at(60)), Err(Uncharged::Full));
        ledger.charge_now(&third, at(2 * 3600)).unwrap();
        assert!(
            ledger
                .check_now(&[entry("b", 1, None, 1)], at(2 * 3600))
                .is_err()
        );
    }

    #[test]
    fn whoever_invents_sessions_leaves_room_for_others() {
        let ledger = MemoryLedger::new(10);
        let pay = |tenant: &str, subject: &str, session: usize| {
            let mut one = entry(&session.to_string(), 1, None, 9);
            one.account.owner.who = who(tenant, subject);
            ledger.charge_now(&[one], at(0))
        };
        let opened = |tenant: &str, subject: &str| {
            let sessions = 0..1000;
            sessions
                .filter(|n| pay(tenant, subject, *n).is_ok())
                .count()
        };
        assert_eq!(opened("t", "mallory"), 10);
        // Known accounts are charged as before, and others have room.
        assert!(pay("t", "mallory", 0).is_ok());
        assert_eq!(pay("t", "mallory", 999), Err(Uncharged::Full));
        assert!(pay("t", "ann", 0).is_ok());
        // Many users of one tenant fill that tenant's part alone.
        let all: usize = (0..9).map(|n| opened("t", &format!("m{n}"))).sum();
        assert_eq!(all, 30 - 11);
        assert!(pay("t", "ann", 0).is_ok());
        assert_eq!(pay("t", "bob", 0), Err(Uncharged::Full));
        assert_eq!(opened("u", "ann"), 10);
        // What has run out makes room again.
        let mut late = entry("late", 1, None, 9);
        late.account.owner.who = who("t", "bob");
        ledger.charge_now(&[late], at(25 * 3600)).unwrap();
    }

    #[test]
    fn of_many_at_once_only_so_many_pass() {
        let ledger = MemoryLedger::new(10);
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let one = [entry("a", 1, None, 5)];
                        (0..10)
                            .filter(|_| ledger.charge_now(&one, at(0)).is_ok())
                            .count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(passed, 5);
    }

    proptest! {
        #[test]
        fn within_any_window_the_sum_stays_at_most_the_limit(
            calls in proptest::collection::vec((0_i64..7200, 0_i64..40), 1..40)
        ) {
            let ledger = MemoryLedger::new(4);
            let mut calls = calls;
            calls.sort_unstable();
            let mut passed: Vec<(i64, i64)> = Vec::new();
            for (second, amount) in calls {
                let one = [entry("a", amount, Some(HOUR), 100)];
                let checked = ledger.check_now(&one, at(second));
                let charged = ledger.charge_now(&one, at(second));
                prop_assert_eq!(checked.is_ok(), charged.is_ok());
                if charged.is_ok() {
                    passed.push((second, amount));
                }
                let sum: i64 = passed.iter().filter(|(then, _)| *then > second - 3600).map(|(_, amount)| amount).sum();
                prop_assert!(sum <= 100);
            }
        }
    }
}
