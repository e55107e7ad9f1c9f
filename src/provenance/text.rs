//! A text with what was found in it so far: each kind of value is looked for once, when it is first asked for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::ValueKind;
use super::leaves::{Leaf, leaves};
use super::likeness::names;
use super::pasted::{Given, Word, words};
use super::urls::Urls;
use super::values::{Folded, Squeezed, comparable, emails, phones, whole};

/// A text of a conversation.
#[derive(Debug)]
pub(super) struct Text {
    words: Arc<str>,
    emails: OnceLock<HashSet<String>>,
    urls: OnceLock<Urls>,
    phones: OnceLock<HashSet<String>>,
    squeezed: OnceLock<Squeezed>,
    folded: OnceLock<Folded>,
    leaves: OnceLock<Vec<Leaf>>,
    wholes: [OnceLock<Wholes>; 5],
    names: OnceLock<HashSet<String>>,
    flagged: OnceLock<f64>,
    given: OnceLock<Given>,
    hashed: OnceLock<Vec<Word>>,
}

/// The values of a kind that are whole leaves, and which leaves.
type Wholes = HashMap<String, Vec<usize>>;

impl Text {
    pub(super) fn new(text: Arc<str>) -> Self {
        Self {
            words: text,
            emails: OnceLock::new(),
            urls: OnceLock::new(),
            phones: OnceLock::new(),
            squeezed: OnceLock::new(),
            folded: OnceLock::new(),
            leaves: OnceLock::new(),
            wholes: Default::default(),
            names: OnceLock::new(),
            flagged: OnceLock::new(),
            given: OnceLock::new(),
            hashed: OnceLock::new(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.words
    }

    /// Whether the value stands anywhere in the text.
    pub(super) fn holds(&self, kind: ValueKind, key: &str) -> bool {
        match kind {
            ValueKind::Email => self.emails().contains(key),
            ValueKind::Phone => self.phones().contains(key),
            ValueKind::Url => self.urls().has(key),
            ValueKind::Account => {
                let squeezed = self.squeezed.get_or_init(|| Squeezed::new(&self.words));
                squeezed.has(key)
            }
            ValueKind::Text => {
                let folded = self.folded.get_or_init(|| Folded::new(&self.words));
                folded.has(key)
            }
        }
    }

    /// Whether somebody who says this text means the value: a host that is named means all of it.
    pub(super) fn means(&self, kind: ValueKind, key: &str) -> bool {
        match kind {
            ValueKind::Url => self.urls().covers(key),
            _ => self.holds(kind, key),
        }
    }

    /// Whether a URL on the host of this one stands in the text.
    pub(super) fn names_site(&self, url: &str) -> bool {
        self.urls().has_host_of(url)
    }

    /// The words that are written as names.
    pub(super) fn names(&self) -> &HashSet<String> {
        self.names.get_or_init(|| names(&self.words))
    }

    /// The values of structured output, each with the keys that lead to it. A text without structure is one value.
    pub(super) fn leaves(&self) -> &[Leaf] {
        self.leaves.get_or_init(|| leaves(&self.words))
    }

    /// The leaves in which the value stands, and whether it is the whole of the leaf.
    pub(super) fn places(&self, kind: ValueKind, key: &str) -> Vec<(&Leaf, bool)> {
        let place = self.wholes.get(kind as usize);
        let wholes = place.map(|wholes| wholes.get_or_init(|| self.read_leaves(kind)));
        let found = wholes.and_then(|wholes| wholes.get(&comparable(kind, key)));
        let whole = found.map(Vec::as_slice).unwrap_or_default();
        let leaves = self.leaves().iter().enumerate();
        let places = leaves.filter_map(|(at, leaf)| {
            let is_whole = whole.contains(&at);
            (is_whole || leaf.text.holds(kind, key)).then_some((leaf, is_whole))
        });
        places.collect()
    }

    fn read_leaves(&self, kind: ValueKind) -> Wholes {
        let mut wholes = Wholes::new();
        for (at, leaf) in self.leaves().iter().enumerate() {
            for key in whole(kind, leaf.text.as_str()) {
                wholes.entry(key).or_default().push(at);
            }
        }
        wholes.remove("");
        wholes
    }

    /// How sure the scanner of the layer `injection` is that an instruction stands here: 0 to 1.
    pub(super) fn flagged(&self, scan: impl FnOnce(&str) -> f64) -> f64 {
        *self.flagged.get_or_init(|| scan(&self.words))
    }

    /// Its rows of words, where a tool has given it.
    pub(super) fn given(&self) -> &Given {
        self.given.get_or_init(|| Given::of(&self.words))
    }

    /// Its words, where somebody else says it.
    pub(super) fn words(&self) -> &[Word] {
        self.hashed.get_or_init(|| words(&self.words).collect())
    }

    pub(super) fn phones(&self) -> &HashSet<String> {
        self.phones.get_or_init(|| phones(&self.words))
    }

    pub(super) fn emails(&self) -> &HashSet<String> {
        self.emails.get_or_init(|| emails(&self.words))
    }

    pub(super) fn urls(&self) -> &Urls {
        self.urls.get_or_init(|| Urls::new(&self.words))
    }
}
