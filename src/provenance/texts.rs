//! Texts that came before: a conversation comes again with every turn, and what was found in its texts once is not looked for
//! again.
//!
//! Two generations, each of half the room: what is used moves to the young one, and the old one goes as a whole.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::text::Text;

/// Bytes of text that are remembered, over all conversations. What is found in them takes about as much again for each kind
/// of value that was looked for.
const ROOM: usize = 32 << 20;

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Arc<str>, Arc<Text>>,
    old: HashMap<Arc<str>, Arc<Text>>,
    /// Bytes in the young one.
    bytes: usize,
}

/// The texts of many conversations. The same text is one, whoever says it: what is found in it depends on nothing else.
#[derive(Debug)]
pub(super) struct Texts {
    room: usize,
    inner: Mutex<Generations>,
}

impl Default for Texts {
    fn default() -> Self {
        Self::new(ROOM)
    }
}

static TEXTS: LazyLock<Texts> = LazyLock::new(Texts::default);

impl Texts {
    /// Those of every conversation of this process: eval makes a proxy for each trial.
    pub(super) fn of_process() -> &'static Self {
        &TEXTS
    }

    fn new(room: usize) -> Self {
        Self {
            room,
            inner: Mutex::default(),
        }
    }

    /// The text, with what was found in it before.
    pub(super) fn get(&self, text: Arc<str>) -> Arc<Text> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.young.get(&text) {
            return Arc::clone(known);
        }
        let known = inner.old.remove(&text);
        let known = known.unwrap_or_else(|| Arc::new(Text::new(Arc::clone(&text))));
        if text.len() > self.room / 2 {
            return known;
        }
        if inner.bytes + text.len() > self.room / 2 {
            inner.old = std::mem::take(&mut inner.young);
            inner.bytes = 0;
        }
        inner.bytes += text.len();
        inner.young.insert(text, Arc::clone(&known));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_comes_again_is_the_same_until_there_is_no_room() {
        let texts = Texts::new(20);
        let first = texts.get("aaaa".into());
        assert!(Arc::ptr_eq(&first, &texts.get("aaaa".into())));
        for text in ["bbbb", "cccc", "dddd"] {
            texts.get(text.into());
            assert!(Arc::ptr_eq(&first, &texts.get("aaaa".into())), "{text}");
        }
        for text in ["eeee", "ffff", "gggg", "hhhh"] {
            texts.get(text.into());
        }
        assert!(!Arc::ptr_eq(&first, &texts.get("aaaa".into())));
        let inner = texts.inner.lock().unwrap();
        assert!(inner.young.len() + inner.old.len() <= 5);
    }
}
