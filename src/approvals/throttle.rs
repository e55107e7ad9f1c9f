//! So many failures in a while, counted by whatever they have in common.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// Things that are counted at once; when there are more, those whose while is over are forgotten, then the oldest.
const MOST: usize = 10_000;

/// Counts by `K` within a while that begins with the first.
#[derive(Debug)]
pub(crate) struct Throttle<K> {
    most: u32,
    within: Duration,
    counts: Mutex<HashMap<K, (u32, Timestamp)>>,
}

impl<K: Eq + Hash + Clone> Throttle<K> {
    pub(crate) fn new(most: u32, within: Duration) -> Self {
        Self {
            most,
            within,
            counts: Mutex::default(),
        }
    }

    /// How long to wait, where there were too many.
    pub(crate) fn wait(&self, key: &K, now: Timestamp) -> Option<Duration> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, since) = counts.get(key)?;
        let left = self.within.checked_sub(elapsed(*since, now))?;
        (*count >= self.most && !left.is_zero()).then_some(left)
    }

    /// One more.
    pub(crate) fn count(&self, key: K, now: Timestamp) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST && !counts.contains_key(&key) {
            counts.retain(|_, (_, since)| elapsed(*since, now) < self.within);
            if counts.len() >= MOST
                && let Some(oldest) = counts
                    .iter()
                    .min_by_key(|(_, (_, since))| *since)
                    .map(|(key, _)| key.clone())
            {
                counts.remove(&oldest);
            }
        }
        let entry = counts.entry(key).or_insert((0, now));
        if elapsed(entry.1, now) >= self.within {
            *entry = (0, now);
        }
        entry.0 = entry.0.saturating_add(1);
    }

    /// One less: what was counted was none.
    pub(crate) fn uncount(&self, key: &K) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = counts.get_mut(key) {
            *count = count.saturating_sub(1);
        }
    }

    /// Forgets what was counted.
    pub(crate) fn forget(&self, key: &K) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.remove(key);
    }
}

fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_wait_until_the_while_is_over() {
        let start: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let after = |seconds| start + jiff::SignedDuration::from_secs(seconds);
        let throttle = Throttle::new(2, Duration::from_mins(1));
        throttle.count("a", after(0));
        assert_eq!(throttle.wait(&"a", after(0)), None);
        throttle.count("a", after(10));
        assert_eq!(
            throttle.wait(&"a", after(20)),
            Some(Duration::from_secs(40))
        );
        assert_eq!(throttle.wait(&"b", after(20)), None);
        assert_eq!(throttle.wait(&"a", after(60)), None);
        throttle.count("a", after(61));
        assert_eq!(throttle.wait(&"a", after(61)), None);
        throttle.count("a", after(61));
        throttle.uncount(&"a");
        assert_eq!(throttle.wait(&"a", after(61)), None);
        throttle.count("a", after(61));
        assert!(throttle.wait(&"a", after(61)).is_some());
        throttle.forget(&"a");
        assert_eq!(throttle.wait(&"a", after(61)), None);
    }
}
