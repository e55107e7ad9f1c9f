//! A text with what was found in it so far: each kind of value is looked for once, when it is first asked for.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::ValueKind;
use super::leaves::{Leaf, leaves};
use super::urls::Urls;
use super::values::{Folded, Squeezed, emails, phones};

/// A text of a conversation.
#[derive(Debug)]
pub(super) struct Text {
    text: Arc<str>,
    emails: OnceLock<HashSet<String>>,
    urls: OnceLock<Urls>,
    phones: OnceLock<HashSet<String>>,
    squeezed: OnceLock<Squeezed>,
    folded: OnceLock<Folded>,
    leaves: OnceLock<Vec<Leaf>>,
}

impl Text {
    pub(super) fn new(text: Arc<str>) -> Self {
        Self {
            text,
            emails: OnceLock::new(),
            urls: OnceLock::new(),
            phones: OnceLock::new(),
            squeezed: OnceLock::new(),
            folded: OnceLock::new(),
            leaves: OnceLock::new(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the value stands anywhere in the text.
    pub(super) fn holds(&self, kind: ValueKind, key: &str) -> bool {
        match kind {
            ValueKind::Email => self.emails().contains(key),
            ValueKind::Phone => self.phones.get_or_init(|| phones(&self.text)).contains(key),
            ValueKind::Url => self.urls().has(key),
            ValueKind::Account => {
                let squeezed = self.squeezed.get_or_init(|| Squeezed::new(&self.text));
                squeezed.has(key)
            }
            ValueKind::Text => {
                let folded = self.folded.get_or_init(|| Folded::new(&self.text));
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

    /// The values of structured output, each with the keys that lead to it. A text without structure is one value.
    pub(super) fn leaves(&self) -> &[Leaf] {
        self.leaves.get_or_init(|| leaves(&self.text))
    }

    fn emails(&self) -> &HashSet<String> {
        self.emails.get_or_init(|| emails(&self.text))
    }

    fn urls(&self) -> &Urls {
        self.urls.get_or_init(|| Urls::new(&self.text))
    }
}
