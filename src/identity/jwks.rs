//! The issuer's keys over time: read at start, again now and then, and once more when a token names a key that nobody knows.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::Mutex;

use super::KeySet;
use crate::clock::Clock;

/// Largest set of keys, in bytes.
pub const LARGEST_JWKS: usize = 256 << 10;

/// Gets the bytes of a set, at most [`LARGEST_JWKS`] of them, in bounded time.
pub trait Fetch: Send + Sync {
    /// The bytes, or why there are none.
    fn fetch(&self) -> BoxFuture<'_, Result<Bytes, String>>;
}

/// How often keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After so long they are read again, beside the requests that go on with the old ones.
    pub refresh: Duration,
    /// Least time between two tries, whatever tokens ask for.
    pub floor: Duration,
    /// Keys that could not be read again for so long are no longer used.
    pub max_age: Duration,
}

struct Loaded {
    set: KeySet,
    at: Timestamp,
}

/// The keys of one issuer.
pub struct Jwks {
    from: Box<dyn Fetch>,
    timing: Timing,
    clock: Arc<dyn Clock>,
    loaded: ArcSwapOption<Loaded>,
    /// When keys were last asked for. Held while they are, so that one request asks for all.
    tried: Mutex<Option<Timestamp>>,
}

impl std::fmt::Debug for Jwks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jwks")
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

impl Jwks {
    /// Without keys until [`Jwks::load`].
    pub fn new(from: Box<dyn Fetch>, timing: Timing, clock: Arc<dyn Clock>) -> Self {
        Self {
            from,
            timing,
            clock,
            loaded: ArcSwapOption::empty(),
            tried: Mutex::new(None),
        }
    }

    /// Reads the keys for the first time.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn load(&self) -> Result<(), String> {
        let mut tried = self.tried.lock().await;
        *tried = Some(self.clock.now());
        self.read().await
    }

    /// What `judge` finds among the keys. Where they do not know `kid` they are read again once, but not before the floor.
    ///
    /// `None`: there are no keys, or they are too old.
    pub(super) async fn with<T>(
        self: &Arc<Self>,
        kid: Option<&str>,
        judge: impl FnOnce(&KeySet) -> T,
    ) -> Option<T> {
        let loaded = match self.loaded.load_full() {
            Some(loaded) if self.is_usable(&loaded) && loaded.set.knows(kid) => {
                if self.age(&loaded) > self.timing.refresh {
                    self.refresh_beside(&loaded);
                }
                loaded
            }
            known => {
                self.refresh(known.map(|known| known.at)).await;
                let newest = self.loaded.load_full();
                newest.filter(|loaded| self.is_usable(loaded))?
            }
        };
        Some(judge(&loaded.set))
    }

    fn is_usable(&self, loaded: &Loaded) -> bool {
        self.age(loaded) <= self.timing.max_age
    }

    fn age(&self, loaded: &Loaded) -> Duration {
        since(loaded.at, self.clock.now())
    }

    fn refresh_beside(self: &Arc<Self>, loaded: &Loaded) {
        // Somebody asks already, or asked just before.
        let Ok(tried) = self.tried.try_lock() else {
            return;
        };
        if self.is_early(*tried) {
            return;
        }
        drop(tried);
        let (keys, at) = (Arc::clone(self), loaded.at);
        tokio::spawn(async move { keys.refresh(Some(at)).await });
    }

    /// Reads the keys, unless they are newer than `known` by now or were asked for just before.
    async fn refresh(&self, known: Option<Timestamp>) {
        let mut tried = self.tried.lock().await;
        let newer = self.loaded.load().as_ref().map(|loaded| loaded.at) > known;
        if newer || self.is_early(*tried) {
            return;
        }
        *tried = Some(self.clock.now());
        if let Err(cause) = self.read().await {
            tracing::warn!(%cause, "the keys for tokens could not be read again");
        }
    }

    fn is_early(&self, tried: Option<Timestamp>) -> bool {
        tried.is_some_and(|tried| since(tried, self.clock.now()) < self.timing.floor)
    }

    async fn read(&self) -> Result<(), String> {
        let set = KeySet::read(self.from.fetch().await?)?;
        let at = self.clock.now();
        tracing::info!(keys = set.len(), "read the keys for tokens");
        self.loaded.store(Some(Arc::new(Loaded { set, at })));
        Ok(())
    }
}

/// None for a clock that was set back.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
