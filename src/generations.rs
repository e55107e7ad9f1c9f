//! What came lately, bounded, in two generations: what is used moves to the young one, and the old one goes as a whole.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key.
#[derive(Debug)]
pub struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, V: Clone> Generations<K, V> {
    /// The value, which is used now. `room`: entries that are kept at most.
    pub fn get(&mut self, key: &K, room: usize) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.keep(*key, value.clone(), room);
        Some(value)
    }

    /// Keeps a value.
    pub fn keep(&mut self, key: K, value: V, room: usize) {
        if self.young.len() >= room / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}
