//! All patterns over one piece of a text: which may begin at a word, and which do.

use super::dictionary::{Class, Dictionary};
use super::pattern::{Match, Must, Pattern, SPAN};
use super::tokens::Token;

/// All patterns, by the entry that they begin with.
#[derive(Debug)]
pub(super) struct Patterns {
    all: Vec<Pattern>,
    /// What each must have behind its first step.
    musts: Vec<Vec<Must>>,
    starts: Vec<Vec<usize>>,
    /// Classes of each entry that any pattern must have.
    asked: Vec<Vec<Class>>,
    classes: usize,
}

impl Patterns {
    /// `longest` says of how many words the longest entry of a class is.
    pub(super) fn new(patterns: Vec<Pattern>, dictionary: &Dictionary, longest: &[usize]) -> Self {
        let mut by_class = vec![Vec::new(); longest.len()];
        let mut asked_for = vec![false; longest.len()];
        let mut musts = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            if let Some(list) = pattern
                .first()
                .and_then(|class| by_class.get_mut(usize::from(class)))
            {
                list.push(index);
            }
            let must = pattern.musts(longest);
            for step in &must {
                if let Some(asked) = asked_for.get_mut(usize::from(step.class)) {
                    *asked = true;
                }
            }
            musts.push(must);
        }
        let entries = 0..u16::try_from(dictionary.len()).unwrap_or(u16::MAX);
        let starts = entries.clone().map(|entry| {
            let classes = dictionary.classes(entry).iter();
            let mut all: Vec<usize> = classes
                .filter_map(|class| by_class.get(usize::from(*class)))
                .flatten()
                .copied()
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        });
        let asked = entries.map(|entry| {
            let classes = dictionary.classes(entry).iter().copied();
            classes
                .filter(|class| asked_for.get(usize::from(*class)) == Some(&true))
                .collect()
        });
        Self {
            starts: starts.collect(),
            asked: asked.collect(),
            all: patterns,
            musts,
            classes: longest.len(),
        }
    }

    /// Every match in `tokens` of the rules that are asked for: for each word and pattern that begins there, the shortest.
    pub(super) fn matches(
        &self,
        tokens: &[Token],
        dictionary: &Dictionary,
        is_asked: impl Fn(usize) -> bool,
        found: &mut Vec<Match>,
    ) {
        // From the end, so that the next word of each class is known.
        let mut next = vec![usize::MAX; self.classes];
        for (at, token) in tokens.iter().enumerate().rev() {
            let near = tokens
                .get(at..(at + SPAN).min(tokens.len()))
                .unwrap_or_default();
            let words = token.entries.iter().map(|entry| (*entry, 0));
            let entries = words.chain(token.phrases).filter(|(entry, _)| *entry != 0);
            for (entry, words) in entries.clone() {
                for index in self.starts.get(usize::from(entry)).into_iter().flatten() {
                    if !self.may_match(*index, at + usize::from(words), &next) {
                        continue;
                    }
                    let Some(pattern) = self.all.get(*index) else {
                        continue;
                    };
                    if is_asked(pattern.rule)
                        && let Some(last) = pattern.ends(near, words, dictionary)
                    {
                        found.push(pattern.matched(near, last));
                    }
                }
            }
            for (entry, _) in entries {
                for class in self.asked.get(usize::from(entry)).into_iter().flatten() {
                    if let Some(next) = next.get_mut(usize::from(*class)) {
                        *next = at;
                    }
                }
            }
        }
    }

    /// Whether all that a pattern must have stands close enough behind its first step.
    #[inline]
    fn may_match(&self, pattern: usize, end: usize, next: &[usize]) -> bool {
        self.musts.get(pattern).is_some_and(|musts| {
            musts.iter().all(|must| {
                next.get(usize::from(must.class))
                    .is_some_and(|next| *next <= end + must.within)
            })
        })
    }
}
