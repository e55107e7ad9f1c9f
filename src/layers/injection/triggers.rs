//! Which words a piece of text must have before it is read: two of a pattern that follow each other, or a rare one.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::dictionary::{Class, Dictionary, Entry, Further, Letters};
use super::lexicon::{Known, Lexicon, Word};

/// What a pattern is looked for at.
#[derive(Clone, Debug)]
pub(super) struct Trigger {
    /// The step before, if one is asked for.
    pub first: Option<Place>,
    pub then: Place,
    /// Words from one to the other, at most.
    pub within: usize,
    /// Words of a match up to the place, and behind it.
    pub before: usize,
    pub after: usize,
}

/// Words of a class, and punctuation around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub class: Class,
    pub marks: u16,
}

/// A word that another is looked for behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub slot: u16,
    pub marks: u16,
}

/// A word at which a piece is read, if another stands close enough before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub slot: u16,
    pub marks: u16,
    pub within: u32,
    pub before: u8,
    pub after: u8,
}

/// The slot of checks that ask for nothing before.
const ANYWHERE: u16 = 0;

/// A phrase at its last word: the words before it, the nearest first.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub before: Vec<Word>,
    pub entry: Entry,
}

/// All triggers, by entry.
#[derive(Debug)]
pub(super) struct Triggers {
    seen: Vec<Seen>,
    checks: Vec<Check>,
    roles: Vec<(Range<u32>, Range<u32>)>,
    slots: usize,
    endings: Vec<Vec<Ending>>,
    endings_by_beginning: Vec<Vec<Ending>>,
    /// The words that any of this asks for.
    pub lexicon: Lexicon,
}

impl Triggers {
    pub(super) fn new(triggers: &[Trigger], dictionary: &Dictionary) -> Self {
        let mut all = Self {
            seen: Vec::new(),
            checks: Vec::new(),
            roles: Vec::new(),
            slots: 0,
            endings: Vec::new(),
            endings_by_beginning: vec![Vec::new(); dictionary.len()],
            lexicon: Lexicon::new(0),
        };
        let mut slots: HashMap<Place, u16> = HashMap::new();
        for first in triggers.iter().filter_map(|trigger| trigger.first) {
            let next = u16::try_from(slots.len() + 1).unwrap_or(u16::MAX);
            slots.entry(first).or_insert(next);
        }
        all.slots = slots.len() + 1;
        for entry in 0..dictionary.len() {
            let classes = dictionary.classes(Entry::try_from(entry).unwrap_or(0));
            let (seen, checks) = (all.seen.len(), all.checks.len());
            let of = slots
                .iter()
                .filter(|(place, _)| classes.contains(&place.class));
            all.seen.extend(of.map(|(place, slot)| Seen {
                slot: *slot,
                marks: place.marks,
            }));
            for trigger in triggers {
                if classes.contains(&trigger.then.class) {
                    let slot = trigger.first.map_or(ANYWHERE, |first| {
                        slots.get(&first).copied().unwrap_or(ANYWHERE)
                    });
                    all.check(checks, trigger, slot);
                }
            }
            let number = |length: usize| u32::try_from(length).unwrap_or(0);
            all.roles.push((
                number(seen)..number(all.seen.len()),
                number(checks)..number(all.checks.len()),
            ));
        }
        all.endings(dictionary);
        all
    }

    /// Adds a check to those of an entry, which begin at `from`; one of the same places is widened.
    fn check(&mut self, from: usize, trigger: &Trigger, slot: u16) {
        let short = |words: usize| u8::try_from(words).unwrap_or(u8::MAX);
        let new = Check {
            slot,
            marks: trigger.then.marks,
            within: match slot {
                ANYWHERE => u32::MAX,
                _ => u32::try_from(trigger.within).unwrap_or(u32::MAX),
            },
            before: short(trigger.before),
            after: short(trigger.after),
        };
        let same = self.checks.iter_mut().skip(from);
        for old in same {
            if old.slot == new.slot && old.marks == new.marks {
                old.within = old.within.max(new.within);
                old.before = old.before.max(new.before);
                old.after = old.after.max(new.after);
                return;
            }
        }
        self.checks.push(new);
    }

    fn endings(&mut self, dictionary: &Dictionary) {
        let mut needed: HashSet<Word> = HashSet::new();
        for phrase in dictionary.words(Letters::Plain).all_phrases() {
            if !self.has_role(phrase.entry) {
                continue;
            }
            let Some((last, middle)) = phrase.rest.split_last() else {
                continue;
            };
            // Only the last word of a phrase may be a beginning.
            let mut before: Vec<Word> = middle
                .iter()
                .rev()
                .filter_map(|word| match word {
                    Further::Whole(word) => Some(*word),
                    Further::Beginning(_) => None,
                })
                .collect();
            before.push(phrase.first);
            needed.extend(&before);
            if let Further::Whole(word) = last {
                needed.insert(*word);
            }
            let ending = Ending {
                before,
                entry: phrase.entry,
            };
            let endings = match last {
                Further::Whole(word) => {
                    let word = usize::from(*word);
                    if self.endings.len() <= word {
                        self.endings.resize(word + 1, Vec::new());
                    }
                    self.endings.get_mut(word)
                }
                Further::Beginning(entry) => self.endings_by_beginning.get_mut(usize::from(*entry)),
            };
            if let Some(endings) = endings {
                endings.push(ending);
            }
        }
        let keep = |known: Known| Known {
            whole: if self.has_role(known.whole) {
                known.whole
            } else {
                0
            },
            beginning: if self.has_role(known.beginning)
                || !self.ending_with(known.beginning).is_empty()
            {
                known.beginning
            } else {
                0
            },
            word: if needed.contains(&known.word) {
                known.word
            } else {
                0
            },
        };
        self.lexicon = dictionary.words(Letters::Plain).filtered(keep);
    }

    fn has_role(&self, entry: Entry) -> bool {
        self.roles
            .get(usize::from(entry))
            .is_some_and(|(seen, checks)| !seen.is_empty() || !checks.is_empty())
    }

    /// How many places are remembered.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// What an entry is looked for behind, and what is looked for before it.
    #[inline]
    pub(super) fn of(&self, entry: Entry) -> (&[Seen], &[Check]) {
        let Some((seen, checks)) = self.roles.get(usize::from(entry)) else {
            return (&[], &[]);
        };
        let seen = self.seen.get(seen.start as usize..seen.end as usize);
        let checks = self.checks.get(checks.start as usize..checks.end as usize);
        (seen.unwrap_or_default(), checks.unwrap_or_default())
    }

    /// Phrases that end with a word.
    #[inline]
    pub(super) fn ending(&self, word: Word) -> &[Ending] {
        self.endings
            .get(usize::from(word))
            .map_or(&[], Vec::as_slice)
    }

    /// Phrases that end with a beginning.
    #[inline]
    pub(super) fn ending_with(&self, beginning: Entry) -> &[Ending] {
        self.endings_by_beginning
            .get(usize::from(beginning))
            .map_or(&[], Vec::as_slice)
    }
}
