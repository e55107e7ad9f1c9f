//! Accounts of Holdpoint's own: slow hashes, few at once, and so many failures in a while.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::approvals::password;
use crate::approvals::people::{People, Person};
use crate::approvals::throttle::Throttle;

/// Failures of one account from one address in [`WHILE`], of one account from all, and of one address for all.
const OF_BOTH: u32 = 5;
const OF_ACCOUNT: u32 = 50;
const OF_ADDRESS: u32 = 50;
const WHILE: Duration = Duration::from_mins(15);

/// Hashes that are computed at once: each takes its memory.
const AT_ONCE: usize = 2;

/// Longest name that is looked at, in bytes.
const LONGEST_NAME: usize = 256;

/// What came of a try.
pub(super) enum Outcome {
    Known(Person),
    Wrong,
    TooMany(Duration),
}

pub(super) struct Accounts {
    /// The hash of a password that nobody knows: who has no account takes as long as who has one.
    nobody: Arc<str>,
    both: Throttle<(String, Option<IpAddr>)>,
    account: Throttle<String>,
    address: Throttle<Option<IpAddr>>,
    at_once: Semaphore,
}

impl Accounts {
    pub(super) fn new() -> Result<Self, String> {
        let unknown = super::super::sessions::random().map_err(|_| "no randomness".to_owned())?;
        Ok(Self {
            nobody: password::hash(&unknown)?.into(),
            both: Throttle::new(OF_BOTH, WHILE),
            account: Throttle::new(OF_ACCOUNT, WHILE),
            address: Throttle::new(OF_ADDRESS, WHILE),
            at_once: Semaphore::new(AT_ONCE),
        })
    }

    pub(super) async fn check(
        &self,
        people: &People,
        name: &str,
        password: &str,
        from: Option<SocketAddr>,
        now: Timestamp,
    ) -> Outcome {
        if name.len() > LONGEST_NAME {
            return Outcome::Wrong;
        }
        let from = from.map(|from| network(from.ip()));
        let both = (name.to_owned(), from);
        let waits = [
            self.both.wait(&both, now),
            self.account.wait(&both.0, now),
            self.address.wait(&from, now),
        ];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Outcome::TooMany(wait);
        }
        // Counted before the hash, which takes a while: many tries at once are many tries.
        self.both.count(both.clone(), now);
        self.account.count(both.0.clone(), now);
        self.address.count(from, now);
        let account = people.account(name);
        let hash = account.map_or_else(
            || Arc::clone(&self.nobody),
            |account| Arc::clone(&account.hash.0),
        );
        let Ok(_turn) = self.at_once.acquire().await else {
            return Outcome::Wrong;
        };
        let password = password.to_owned();
        let verified =
            tokio::task::spawn_blocking(move || password::verify(&password, &hash)).await;
        match account {
            Some(account) if verified.is_ok_and(|right| right) => {
                self.both.forget(&both);
                self.account.uncount(&both.0);
                self.address.uncount(&from);
                Outcome::Known(people.person(&account.who, Some(&account.name)))
            }
            _ => Outcome::Wrong,
        }
    }
}

/// Of an IPv6 address its network of 64 bits: one customer has all of it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}
