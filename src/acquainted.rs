//! Whom and what a user's calls have reached before: a recipient, payee or host that is known from one that is met for the first
//! time.
//!
//! Remembered is only what was reached by a call that was carried out; kept is a hash, so that the memory holds no address.
//! What is forgotten is met for the first time again, which is the strict side.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;

use crate::names::ToolName;
pub use crate::principal::Who;

/// What kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// A mailbox.
    Email,
    /// An account or IBAN.
    Account,
    /// A telephone.
    Phone,
    /// A host of a URL.
    Host,
    /// Any other value, such as a channel; of one tool.
    Text,
}

impl TargetKind {
    /// The name under which it is remembered: never changes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Account => "account",
            Self::Phone => "phone",
            Self::Host => "host",
            Self::Text => "text",
        }
    }
}

/// SHA-256 of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// Whom or what a call reaches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// What it is.
    pub kind: TargetKind,
    /// For which tool alone it is remembered; `None` for all.
    pub tool: Option<ToolName>,
    /// Its canonical form.
    pub key: String,
}

impl Target {
    /// One that is the same for every tool.
    pub const fn new(kind: TargetKind, key: String) -> Self {
        Self {
            kind,
            tool: None,
            key,
        }
    }

    /// A text, for the tool alone: a channel of one is no file of another.
    pub fn text(tool: &ToolName, key: String) -> Self {
        Self {
            kind: TargetKind::Text,
            tool: Some(tool.clone()),
            key,
        }
    }

    /// What is kept of it.
    pub fn digest(&self) -> Digest {
        let mut context = Context::new(&SHA256);
        let tool = self.tool.as_ref().map_or("", ToolName::as_str);
        for part in ["holdpoint-target-v1", self.kind.as_str(), tool, &self.key] {
            context.update(&part.len().to_be_bytes());
            context.update(part.as_bytes());
        }
        let mut digest = [0; 32];
        for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
            *to = *from;
        }
        Digest(digest)
    }
}

/// Remembers whom users have reached. Implementations are shared by all requests and bound their memory.
pub trait Acquainted: Send + Sync {
    /// Which of the targets the user has reached before, in the same order.
    ///
    /// # Errors
    /// A store that failed: the call is refused.
    fn known<'a>(
        &'a self,
        who: &'a Who,
        targets: &'a [Digest],
    ) -> BoxFuture<'a, Result<Vec<bool>, String>>;

    /// Remembers the targets of a call that was carried out.
    ///
    /// # Errors
    /// A store that failed: the targets stay unknown.
    fn record<'a>(
        &'a self,
        who: &'a Who,
        targets: &'a [Digest],
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Most users, and most targets of each, that are remembered by default.
const USERS: usize = 4096;
pub(crate) const EACH: usize = 512;

/// Acquaintances in memory: of too many the longest unused goes.
#[derive(Debug)]
pub struct MemoryAcquainted {
    users: usize,
    each: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    users: HashMap<Who, Circle>,
    clock: u64,
}

/// What one user has reached, with when it was last used.
#[derive(Debug, Default)]
struct Circle {
    targets: HashMap<Digest, u64>,
    used: u64,
}

impl Default for MemoryAcquainted {
    fn default() -> Self {
        Self::new(USERS, EACH)
    }
}

impl MemoryAcquainted {
    /// For so many users, and so many targets of each.
    pub fn new(users: usize, each: usize) -> Self {
        Self {
            users: users.max(1),
            each: each.max(1),
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, who: &Who, targets: &[Digest]) {
        let mut inner = self.inner();
        inner.clock += 1;
        let now = inner.clock;
        if !inner.users.contains_key(who) && inner.users.len() >= self.users {
            let oldest = inner.users.iter().min_by_key(|(_, circle)| circle.used);
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                inner.users.remove(&oldest);
            }
        }
        let circle = inner.users.entry(who.clone()).or_default();
        circle.used = now;
        for target in targets {
            if !circle.targets.contains_key(target) && circle.targets.len() >= self.each {
                let oldest = circle.targets.iter().min_by_key(|(_, used)| **used);
                if let Some(oldest) = oldest.map(|(target, _)| *target) {
                    circle.targets.remove(&oldest);
                }
            }
            circle.targets.insert(*target, now);
        }
    }
}

impl Acquainted for MemoryAcquainted {
    fn known<'a>(
        &'a self,
        who: &'a Who,
        targets: &'a [Digest],
    ) -> BoxFuture<'a, Result<Vec<bool>, String>> {
        let inner = self.inner();
        let circle = inner.users.get(who);
        let known = |target| circle.is_some_and(|circle| circle.targets.contains_key(target));
        Box::pin(ready(Ok(targets.iter().map(known).collect())))
    }

    fn record<'a>(
        &'a self,
        who: &'a Who,
        targets: &'a [Digest],
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.remember(who, targets);
        Box::pin(ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(subject: &str) -> Who {
        Who {
            tenant: "t".into(),
            issuer: "config".into(),
            subject: subject.into(),
        }
    }

    fn mail(key: &str) -> Digest {
        Target::new(TargetKind::Email, key.to_owned()).digest()
    }

    async fn known(memory: &MemoryAcquainted, subject: &str, key: &str) -> bool {
        let known = memory.known(&who(subject), &[mail(key)]).await.unwrap();
        known == [true]
    }

    #[tokio::test]
    async fn an_acquaintance_is_of_one_user_and_of_one_kind() {
        let memory = MemoryAcquainted::default();
        let now = Timestamp::UNIX_EPOCH;
        memory.record(&who("ann"), &[mail("x")], now).await.unwrap();
        assert!(known(&memory, "ann", "x").await);
        assert!(!known(&memory, "bob", "x").await);
        assert!(!known(&memory, "ann", "y").await);
        let account = Target::new(TargetKind::Account, "x".to_owned());
        let post = Target::text(&"post".into(), "x".to_owned());
        let pay = Target::text(&"pay".into(), "x".to_owned());
        let all = [account.digest(), post.digest(), pay.digest(), mail("x")];
        assert_eq!(
            memory.known(&who("ann"), &all).await.unwrap(),
            [false, false, false, true]
        );
        memory
            .record(&who("ann"), &[post.digest()], now)
            .await
            .unwrap();
        assert_eq!(
            memory.known(&who("ann"), &all).await.unwrap(),
            [false, true, false, true]
        );
    }

    #[tokio::test]
    async fn what_does_not_fit_is_met_for_the_first_time_again() {
        let memory = MemoryAcquainted::new(2, 2);
        let now = Timestamp::UNIX_EPOCH;
        for key in ["a", "b", "a", "c"] {
            memory.record(&who("ann"), &[mail(key)], now).await.unwrap();
        }
        assert!(known(&memory, "ann", "a").await);
        assert!(!known(&memory, "ann", "b").await);
        for subject in ["bob", "cid"] {
            memory
                .record(&who(subject), &[mail("a")], now)
                .await
                .unwrap();
        }
        assert!(!known(&memory, "ann", "a").await);
        assert!(known(&memory, "cid", "a").await);
    }
}
