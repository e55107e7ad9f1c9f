//! What an instruction to the model looks like in a text that should be data.
//!
//! A rule is a phrase pattern with a weight: how sure one is of an injection if nothing else is lit. Phrases of several
//! families close together make it surer. Weights are by judgement and held by measurements on benign texts, since an alarm
//! on an ordinary mail costs more than a miss.

mod actions;
mod structure;
mod takeover;

/// Kinds of phrases that count once each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Sets former instructions aside.
    Override,
    /// Puts another task before or in place of the user's.
    Hijack,
    /// Speaks to a model or assistant.
    Address,
    /// Imitates the markup of conversations, prompts and tool results.
    Structure,
    /// Asks to hide something from the user.
    Secrecy,
    /// Asks for the system prompt or the instructions.
    Leak,
    /// Gives the model another role or lifts its limits.
    Persona,
    /// A heading that announces instructions.
    Header,
    /// Claims that the task is over.
    Completion,
    /// Asks to send secrets or to smuggle data out.
    Exfiltration,
    /// Dictates the wording of the answer.
    Force,
    /// Sends something to an address.
    Sink,
    /// Names a tool or command to run.
    Tool,
    /// Claims authority or urgency.
    Authority,
    /// An instruction found behind an encoding.
    Encoded,
}

impl Family {
    /// How many there are.
    pub const COUNT: usize = 15;

    /// Ordinary mail and documents are full of these: they only add to others, and together at most [`WEAK_CAP`].
    pub const fn is_weak(self) -> bool {
        matches!(
            self,
            Self::Force | Self::Sink | Self::Tool | Self::Authority
        )
    }
}

/// The most that weak families add up to.
pub const WEAK_CAP: f64 = 0.42;

/// One phrase pattern.
#[derive(Debug)]
pub struct Rule {
    /// `family.name`, stable: it stands in findings.
    pub id: &'static str,
    /// Its family.
    pub family: Family,
    /// Score of the phrase alone, in 0..1.
    pub weight: f64,
    /// Substrings, lower case, one of which is in every match; none for a weak rule, which is only looked for near others.
    pub anchors: &'static [&'static str],
    /// An ASCII regular expression over lower-case text. A space stands for anything between two words, `~`
    /// for that or nothing, `@3` for up to three words of the same sentence in between.
    pub pattern: &'static str,
    /// What it finds.
    pub doc: &'static str,
    /// A text it finds.
    pub example: &'static str,
}

/// Every rule.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        takeover::OVERRIDE,
        takeover::HIJACK,
        takeover::ADDRESS,
        takeover::PERSONA,
        structure::RULES,
        actions::STRONG,
        actions::WEAK,
    ]
    .into_iter()
    .flatten()
}

/// The pattern with its shorthands written out, for `regex::bytes` without Unicode. A phrase begins at a word.
pub fn expand(pattern: &str) -> String {
    let mut full = String::with_capacity(pattern.len() * 4);
    let first = pattern.trim_start_matches("(?:").chars().next();
    if first.is_some_and(|c| c.is_ascii_alphabetic()) {
        full.push_str("\\b");
    }
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ' ' => full.push_str("[^a-z0-9]+"),
            '~' => full.push_str("[^a-z0-9]*"),
            '@' => match rest.next_if(char::is_ascii_digit) {
                Some(count) => {
                    full.push_str("(?:[a-z0-9']+(?:[^a-z0-9.!?]+|[.!?])){0,");
                    full.push(count);
                    // As few as possible: the phrase ends where its last word is.
                    full.push_str("}?");
                }
                None => full.push('@'),
            },
            '\\' => {
                full.push(c);
                full.extend(rest.next());
            }
            _ => full.push(c),
        }
    }
    full
}
