//! Patterns over classes of words: which classes follow each other with how many words between them.
//!
//! `OVERRIDE ..4 PREVIOUS ..3 INSTRUCTION` is three steps; `..4` lets up to four words stand between two. A step is a class in
//! capitals, a word (`ahead`, `instruct*`), or a choice of both, `{OVERRIDE|set aside}`; `?` behind it makes it optional. Signs
//! before a step ask for punctuation: `^` a heading, `[` an opening bracket of any kind, `<` an angle bracket, `</` a closing tag,
//! `|` one with a bar, `.` the start of a sentence, `_` an underscore before, `!` capitals; signs behind it: `:` what ends a heading, `::` a colon, `,` a pause, `>` a closing bracket. All that can be reached
//! is followed at once, as bits, so that no text makes it slow.

use std::collections::HashMap;
use std::ops::Range;

use super::dictionary::{Class, Dictionary, Entries};
use super::marks::mark;
use super::tokens::Token;
use super::triggers::{Place, Trigger};

/// What it costs to read a piece of text, and to look whether a word stood before another.
const READING: f64 = 1_500.0;
const LOOKING: f64 = 30.0;

/// Words that one match spans at most.
pub(super) const SPAN: usize = 64;

/// One step.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    class: Class,
    /// Words that may stand before it.
    gap: usize,
    marks: u16,
    optional: bool,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The rule, by index.
    pub rule: usize,
    steps: Vec<Step>,
}

/// Names of classes on the way to numbers.
#[derive(Debug, Default)]
pub(super) struct Classes {
    numbers: HashMap<String, Class>,
    count: usize,
}

impl Classes {
    /// The number of a class, which is made if there is none of that name.
    pub(super) fn number(&mut self, name: &str) -> Class {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = Class::try_from(self.count).unwrap_or(Class::MAX);
        self.numbers.insert(name.to_owned(), number);
        self.count += 1;
        number
    }

    fn known(&self, name: &str) -> Option<Class> {
        self.numbers.get(name).copied()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

impl Pattern {
    /// Reads a pattern, and puts its words into `entries`.
    ///
    /// # Errors
    /// An unknown class, or no step.
    pub(super) fn parse(
        rule: usize,
        text: &str,
        classes: &mut Classes,
        entries: &mut Entries,
    ) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut gap = 0;
        for part in parts(text) {
            if let Some(count) = part.strip_prefix("..") {
                gap = count
                    .parse()
                    .map_err(|_| format!("`{part}` is no number of words"))?;
                continue;
            }
            let mut step = step(part, classes, entries)?;
            step.gap = gap;
            gap = 0;
            steps.push(step);
        }
        if steps.first().is_none_or(|first| first.optional) {
            return Err(format!("`{text}` does not begin with a step"));
        }
        Ok(Self { rule, steps })
    }

    /// The class that a match begins with.
    pub(super) fn first(&self) -> Option<Class> {
        self.steps.first().map(|step| step.class)
    }

    /// What the pattern is looked for at: the step, or the two that follow each other, that `cost` says is met least.
    pub(super) fn trigger(
        &self,
        frequency: impl Fn(Class, u16) -> Option<f64>,
        longest: &[usize],
    ) -> Option<Trigger> {
        let reach = |steps: &[Step]| -> usize {
            steps
                .iter()
                .map(|step| step.gap + longest.get(usize::from(step.class)).copied().unwrap_or(1))
                .sum()
        };
        let must: Vec<(usize, &Step)> = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| !step.optional)
            .collect();
        let mut best: Option<(f64, Trigger)> = None;
        for (index, (at, then)) in must.iter().enumerate() {
            let Some(of_then) = frequency(then.class, then.marks) else {
                continue;
            };
            let place = |step: &Step| Place {
                class: step.class,
                marks: step.marks,
            };
            let alone = Trigger {
                first: None,
                then: place(then),
                within: 0,
                before: reach(self.steps.get(..=*at)?).min(SPAN),
                after: reach(self.steps.get(at + 1..)?).min(SPAN),
            };
            let mut offer = |cost: f64, trigger: Trigger| {
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, trigger));
                }
            };
            offer(of_then * (READING + LOOKING), alone.clone());
            for (from, first) in must.iter().take(index) {
                let Some(of_first) = frequency(first.class, first.marks) else {
                    continue;
                };
                let within = reach(self.steps.get(from + 1..=*at)?);
                #[expect(clippy::cast_precision_loss, reason = "a few words")]
                let both = of_then * (of_first * within as f64).min(1.0);
                let pair = Trigger {
                    first: Some(place(first)),
                    within,
                    ..alone.clone()
                };
                offer(both * READING + (of_first + of_then) * LOOKING, pair);
            }
        }
        best.map(|(_, trigger)| trigger)
    }

    /// The steps behind the first that are not optional.
    pub(super) fn musts(&self, longest: &[usize]) -> Vec<Must> {
        let mut within = 0;
        let mut musts = Vec::new();
        for step in self.steps.iter().skip(1) {
            within += step.gap + longest.get(usize::from(step.class)).copied().unwrap_or(1);
            if !step.optional {
                musts.push(Must {
                    class: step.class,
                    within,
                });
            }
        }
        musts
    }

    /// A match whose last word is `last`.
    pub(super) fn matched(&self, near: &[Token], last: usize) -> Match {
        let words = near.get(..=last).unwrap_or_default();
        let start = words.first().map_or(0, |first| first.start);
        let first_end = words.first().map_or(0, |first| first.end);
        let end = words.last().map_or(0, |last| last.end);
        Match {
            rule: self.rule,
            span: start..end.max(first_end),
            odd: words.iter().any(|token| token.marks & mark::ODD != 0),
        }
    }

    /// The last token of a match that begins with the first of `tokens`, whose first step is `words` longer than one word.
    pub(super) fn ends(
        &self,
        tokens: &[Token],
        words: u8,
        dictionary: &Dictionary,
    ) -> Option<usize> {
        let first = self.steps.first()?;
        let (start, end) = (tokens.first()?, tokens.get(usize::from(words))?);
        if !fits(
            &Token {
                marks: (start.marks & BEFORE) | (end.marks & !BEFORE),
                ..Token::default()
            },
            first.marks,
        ) {
            return None;
        }
        let mut last = usize::from(words);
        let mut reached: u64 = 1_u64.checked_shl(u32::from(words))?;
        for step in self.steps.iter().skip(1) {
            let mut next = if step.optional { reached } else { 0 };
            let mut candidates = 0_u64;
            for distance in 1..=step.gap + 1 {
                candidates |= reached
                    .checked_shl(u32::try_from(distance).unwrap_or(64))
                    .unwrap_or(0);
            }
            while candidates != 0 {
                let at = candidates.trailing_zeros();
                candidates &= candidates - 1;
                let Some(token) = tokens.get(at as usize) else {
                    break;
                };
                if token.marks & step.marks & BEFORE == step.marks & BEFORE {
                    next |= Self::reaches(tokens, token, at, step, dictionary);
                }
            }
            if next == 0 {
                return None;
            }
            reached = next;
            // As few words as possible.
            last = reached.trailing_zeros() as usize;
        }
        Some(last)
    }

    /// Where a step ends that is taken at `token`: at it, or at the last word of a phrase.
    #[inline]
    fn reaches(
        tokens: &[Token],
        token: &Token,
        at: u32,
        step: &Step,
        dictionary: &Dictionary,
    ) -> u64 {
        let mut ends = 0;
        if fits(token, step.marks)
            && token
                .entries
                .iter()
                .any(|entry| *entry != 0 && dictionary.is_of(*entry, step.class))
        {
            ends |= 1_u64.checked_shl(at).unwrap_or(0);
        }
        for (entry, words) in token.phrases {
            if entry != 0 && dictionary.is_of(entry, step.class) {
                let end = at + u32::from(words);
                let last = tokens.get(end as usize);
                if last
                    .is_some_and(|last| last.marks & step.marks & !BEFORE == step.marks & !BEFORE)
                {
                    ends |= 1_u64.checked_shl(end).unwrap_or(0);
                }
            }
        }
        ends
    }
}

/// Marks that say what stands before a word, which of a phrase the first one has.
const BEFORE: u16 = mark::HEAD
    | mark::OPEN
    | mark::UNDER
    | mark::START
    | mark::SLASH
    | mark::ANGLE
    | mark::PIPE
    | mark::UPPER;

#[inline]
fn fits(token: &Token, marks: u16) -> bool {
    token.marks & marks == marks
}

/// Splits at spaces outside braces.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ' ' && depth == 0
    })
    .filter(|part| !part.is_empty())
}

fn step(part: &str, classes: &mut Classes, entries: &mut Entries) -> Result<Step, String> {
    let mut rest = part;
    let mut marks = 0;
    loop {
        let (sign, bits) = match rest {
            _ if rest.starts_with("</") => (2, mark::ANGLE | mark::SLASH),
            _ if rest.starts_with("[/") => (2, mark::OPEN | mark::SLASH),
            _ if rest.starts_with('<') => (1, mark::ANGLE),
            _ if rest.starts_with('[') => (1, mark::OPEN),
            _ if rest.starts_with('|') => (1, mark::PIPE),
            _ if rest.starts_with('!') => (1, mark::UPPER),
            _ if rest.starts_with('^') => (1, mark::HEAD),
            _ if rest.starts_with('.') => (1, mark::START),
            _ if rest.starts_with('_') => (1, mark::UNDER),
            _ => break,
        };
        marks |= bits;
        rest = rest.get(sign..).unwrap_or_default();
    }
    let mut optional = false;
    loop {
        if let Some(cut) = rest.strip_suffix("::") {
            marks |= mark::COLON;
            rest = cut;
        } else if let Some(cut) = rest.strip_suffix(':') {
            marks |= mark::TAIL;
            rest = cut;
        } else if let Some(cut) = rest.strip_suffix(',') {
            marks |= mark::PAUSE;
            rest = cut;
        } else if let Some(cut) = rest.strip_suffix('>') {
            marks |= mark::CLOSE;
            rest = cut;
        } else if let Some(cut) = rest.strip_suffix('?') {
            optional = true;
            rest = cut;
        } else {
            break;
        }
    }
    let choices: Vec<&str> = match rest
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'))
    {
        Some(inner) => inner.split('|').collect(),
        None => vec![rest],
    };
    let class = match choices.as_slice() {
        [one] if is_class(one) => classes
            .known(one)
            .ok_or_else(|| format!("`{one}` is no class of words"))?,
        _ => choice(&choices, rest, classes, entries)?,
    };
    Ok(Step {
        class,
        gap: 0,
        marks,
        optional,
    })
}

fn is_class(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// A class of its own for a choice.
fn choice(
    choices: &[&str],
    name: &str,
    classes: &mut Classes,
    entries: &mut Entries,
) -> Result<Class, String> {
    let members: Vec<Class> = choices
        .iter()
        .filter(|choice| is_class(choice))
        .map(|choice| {
            classes
                .known(choice)
                .ok_or_else(|| format!("`{choice}` is no class of words"))
        })
        .collect::<Result<_, _>>()?;
    let words = choices.iter().filter(|choice| !is_class(choice));
    let class = classes.number(name);
    for word in words {
        entries.add(word, class);
    }
    for member in members {
        let copied: Vec<String> = entries.of(member).map(str::to_owned).collect();
        for entry in copied {
            entries.add(&entry, class);
        }
    }
    Ok(class)
}

/// A step that a match must have, and how many words behind its first one it is found at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Must {
    pub class: Class,
    pub within: usize,
}

/// A match of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Match {
    /// The rule, by index.
    pub rule: usize,
    /// Bytes of the view.
    pub span: Range<usize>,
    /// Whether a word of it was read as what it is only because letters were replaced or put in order.
    pub odd: bool,
}
