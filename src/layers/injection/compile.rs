//! The rules made ready: dictionary, patterns, and the words at which a place is looked at.

use super::dictionary::{Class, Dictionary, Entries};
use super::frequency::Frequencies;
use super::pattern::{Classes, Pattern};
use super::patterns::Patterns;
use super::rules::words::CLASSES;
use super::rules::{Rule, rules};
use super::tokens::Special;
use super::triggers::Triggers;
use super::turned::Turned;

/// Classes whose words also count with their inner letters in another order.
const TYPOS: [&str; 3] = ["OVERRIDE", "PREVIOUS", "INSTRUCTION"];

/// Compiled rules.
#[derive(Debug)]
pub(super) struct Compiled {
    pub dictionary: Dictionary,
    pub patterns: Patterns,
    pub special: Special,
    pub triggers: Triggers,
    pub turned: Turned,
    pub rules: Vec<&'static Rule>,
    /// The place of each rule in the order of their names.
    pub ranks: Vec<u16>,
}

impl Compiled {
    /// Compiles the rules.
    ///
    /// # Errors
    /// A rule that does not compile, which a test rules out.
    pub(super) fn new() -> Result<Self, String> {
        let mut classes = Classes::default();
        let mut entries = Entries::default();
        collect(&mut classes, &mut entries)?;
        let all: Vec<&'static Rule> = rules().collect();
        let mut patterns = Vec::new();
        for (index, rule) in all.iter().enumerate() {
            for text in rule.patterns {
                let pattern = Pattern::parse(index, text, &mut classes, &mut entries)
                    .map_err(|error| format!("injection rule {}: {error}", rule.id))?;
                patterns.push(pattern);
            }
        }
        let frequencies = Frequencies::new();
        let longest = longest(&entries, classes.len());
        let mut triggers = Vec::new();
        for pattern in &patterns {
            if all
                .get(pattern.rule)
                .is_none_or(|rule| rule.family.is_weak())
            {
                continue;
            }
            let trigger = pattern.trigger(
                |class, marks| frequencies.of(&entries, class, marks),
                &longest,
            );
            let rule = all.get(pattern.rule).map_or("", |rule| rule.id);
            triggers.push(trigger.ok_or_else(|| {
                format!("injection rule {rule}: no word of the dictionary points to a pattern")
            })?);
        }
        let typos: Vec<Class> = TYPOS.iter().map(|name| classes.number(name)).collect();
        let dictionary = entries.build(&typos)?;
        let of = |name: &str| dictionary.named(&format!("\u{0}{name}").to_lowercase());
        let special = Special {
            url: of("URL"),
            mail: of("MAIL"),
            name: of("NAME"),
            number: of("NUMBER"),
            tool: of("TOOL"),
        };
        Ok(Self {
            patterns: Patterns::new(patterns, &dictionary, &longest),
            triggers: Triggers::new(&triggers, &dictionary),
            turned: Turned::new(),
            dictionary,
            special,
            ranks: ranks(&all),
            rules: all,
        })
    }

    /// Whether a rule counts alone.
    pub(super) fn is_strong(&self, rule: usize) -> bool {
        self.rules
            .get(rule)
            .is_some_and(|rule| !rule.family.is_weak())
    }

    /// A rule by name.
    pub(super) fn rule(&self, id: &str) -> Option<&'static Rule> {
        self.rules.iter().find(|rule| rule.id == id).copied()
    }
}

/// Names the classes and collects their words.
fn collect(classes: &mut Classes, entries: &mut Entries) -> Result<(), String> {
    for class in CLASSES {
        classes.number(class.name);
    }
    for class in CLASSES {
        let number = classes.number(class.name);
        for entry in class.entries() {
            let Some(other) = entry.strip_prefix('@') else {
                entries.add(entry, number);
                continue;
            };
            let other = CLASSES
                .iter()
                .find(|class| class.name == other)
                .ok_or_else(|| format!("`@{other}` is no class of words"))?;
            for word in other.entries().filter(|word| !word.starts_with('@')) {
                entries.add(word, number);
            }
        }
    }
    // What only the bytes tell: entries that no text spells.
    for special in ["URL", "MAIL", "NAME", "NUMBER", "TOOL"] {
        let class = classes.number(special);
        entries.add(&format!("\u{0}{special}"), class);
    }
    Ok(())
}

/// Words of the longest entry of each class.
fn longest(entries: &Entries, classes: usize) -> Vec<usize> {
    let mut longest = vec![1; classes];
    for (entry, of) in entries.all() {
        let words = entry.split(' ').count();
        for class in of {
            if let Some(longest) = longest.get_mut(usize::from(*class)) {
                *longest = words.max(*longest);
            }
        }
    }
    longest
}

fn ranks(rules: &[&'static Rule]) -> Vec<u16> {
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|rule| rules.get(*rule).map(|rule| rule.id));
    let mut ranks = vec![0; rules.len()];
    for (rank, rule) in (0..).zip(order) {
        if let Some(of) = ranks.get_mut(rule) {
            *of = rank;
        }
    }
    ranks
}
