//! The rules made ready: dictionary, patterns, and the automaton of the words at which a place is looked at.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::derived;
use super::dictionary::{Class, Dictionary, Entries};
use super::pattern::{Classes, Pattern, Patterns};
use super::rules::words::CLASSES;
use super::rules::{Family, Rule, rules};
use super::tokens::Special;

/// Classes whose words also count with their inner letters in another order.
const TYPOS: [&str; 3] = ["OVERRIDE", "PREVIOUS", "INSTRUCTION"];

/// Words of everyday texts: a pattern is not looked for at one of them if it has a rarer step.
const EVERYDAY: &str = "please dev policy want wants follow like section enable given now turn really exact null configuration server done part always agent important \
    rules purpose closed anything link notes save debug rather hide give cannot needs ask asked told given being been become under id report code throw command document header security environment instructions information tools required function read void \
    account process language warning session content free point root document case find details access agent mode url api end full better \
    url password parameter keys key systems users a about above add after again all also always an and any are as ask at be because before being but by call can change click \
    come complete could create current data date day description did do does done email enter every example false file files first \
    following for format from get give go has have he help here his how i id if in include information input instead into is it its key \
    last let line list make may me message more most must my name need never new next no not now number of on one only open or order \
    original other our out output over page please previous print provide put question read remove reply request required response \
    return run say section see send service set shall she should show so some start state string such support system task tasks text than \
    that the their them then there these they this time title to true type until up update us use user users using value version very was \
    way we were what when where whether which while who will with without work would write you your e o la le de du den der die das et en y \
    un une el los las il lo gli os as em na no per por para pour mit von zu und ist nie ne bez sin su to do na i w z na ai system";

/// Sequences of letters that betray a swapped or reversed text, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Rot13,
    Atbash,
    Reversed,
}

/// Words that are looked for in those forms.
const TURNED: [&str; 16] = [
    "ignore",
    "previous",
    "instructions",
    "instruction",
    "disregard",
    "system",
    "prompt",
    "forget",
    "override",
    "reveal",
    "assistant",
    "password",
    "execute",
    "transfer",
    "forward",
    "important",
];

/// What a pattern of the automaton stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// A word of the rules: whole, or the beginning of one.
    Word { whole: bool },
    /// A turned word.
    Turned(Turn),
}

/// Compiled rules.
#[derive(Debug)]
pub(super) struct Compiled {
    pub dictionary: Dictionary,
    pub patterns: Patterns,
    pub special: Special,
    pub automaton: AhoCorasick,
    pub anchors: Vec<Anchor>,
    pub rules: Vec<&'static Rule>,
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
        let mut words = anchors(&patterns, &entries, |rule| {
            all.get(rule).is_some_and(|rule| !rule.family.is_weak())
        });
        for word in TURNED {
            let turned = |letter: fn(u8) -> u8| {
                word.bytes()
                    .map(|byte| char::from(letter(byte)))
                    .collect::<String>()
            };
            words.insert(turned(derived::rot13), Anchor::Turned(Turn::Rot13));
            words.insert(turned(derived::atbash), Anchor::Turned(Turn::Atbash));
            words.insert(word.chars().rev().collect(), Anchor::Turned(Turn::Reversed));
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
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words.keys())
            .map_err(|error| format!("the words of the injection rules do not compile: {error}"))?;
        Ok(Self {
            patterns: Patterns::new(patterns, &dictionary, classes.len()),
            dictionary,
            special,
            automaton,
            anchors: words.into_values().collect(),
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

    /// Family of a rule.
    pub(super) fn family(&self, rule: usize) -> Option<Family> {
        self.rules.get(rule).map(|rule| rule.family)
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

/// The words at which a strong rule is looked for: those of the step of each pattern that is met least.
fn anchors(
    patterns: &[Pattern],
    entries: &Entries,
    is_strong: impl Fn(usize) -> bool,
) -> BTreeMap<String, Anchor> {
    let everyday: BTreeSet<&str> = EVERYDAY.split_whitespace().collect();
    let classes: BTreeSet<Class> = patterns
        .iter()
        .filter(|pattern| is_strong(pattern.rule))
        .filter_map(|pattern| pattern.anchor(|class| cost(entries, class, &everyday)))
        .collect();
    let mut words = BTreeMap::new();
    let found = classes.into_iter().flat_map(|class| entries.of(class));
    for entry in found.filter(|entry| !entry.starts_with('\0')) {
        // A phrase is looked for at its rarest word; one of everyday words at its first two.
        let rare = entry
            .split(' ')
            .filter(|word| !everyday.contains(word) && !word.ends_with('*'))
            .max_by_key(|word| word.len());
        let mut first = entry.split(' ');
        if let (None, Some(one), Some(two)) = (rare, first.next(), first.next()) {
            for gap in [" ", "  ", "\n", "\r\n", "_", "-"] {
                let both = format!("{one}{gap}{}", two.trim_end_matches('*'));
                words.insert(both, Anchor::Word { whole: false });
            }
            continue;
        }
        let word = rare.unwrap_or(entry);
        if let Some(beginning) = word.strip_suffix('*') {
            words.insert(beginning.to_owned(), Anchor::Word { whole: false });
        } else {
            words
                .entry(word.to_owned())
                .or_insert(Anchor::Word { whole: true });
        }
    }
    words
}

/// Words that every sentence has.
const FUNCTION: &str = "the to of and a in is you that it for on with as this be are or your can if by from an at not will all no do but we he de la le en y e o \
    un die der das und van el los in w z na i si ver es im als wenn nicht";

/// How often words of a class are met in ordinary texts.
fn cost(entries: &Entries, class: Class, everyday: &BTreeSet<&str>) -> u64 {
    entries
        .of(class)
        .map(|entry| {
            let words = entry.split(' ');
            let rare = words.clone().any(|word| !everyday.contains(word));
            let filling = words
                .clone()
                .all(|word| FUNCTION.split_whitespace().any(|filling| filling == word));
            match (rare && !filling, entry.len()) {
                (false, _) if filling => 30_000,
                (false, _) => 1_000,
                (true, 0..=3) => 20,
                (true, _) => 1,
            }
        })
        .sum()
}
