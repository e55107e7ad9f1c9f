//! What an instruction to the model looks like in a text that should be data.
//!
//! A rule is a set of patterns over classes of words with a weight: how sure one is of an injection if nothing else is lit.
//! Rules of several families close together make it surer. Weights are by judgement and held by measurements on benign texts,
//! since an alarm on an ordinary mail costs more than a miss.

mod actions;
mod address;
mod reference;
mod structure;
mod takeover;
pub(super) mod words;

pub use reference::reference;

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
    /// Text in characters that nobody sees.
    Invisible,
    /// An instruction found behind an encoding.
    Encoded,
    /// Asks to keep something in memory, or claims rights for later.
    Memory,
    /// Dictates the wording of the answer.
    Force,
    /// Sends something to an address.
    Sink,
    /// Names a tool or command to run.
    Tool,
    /// Claims authority or urgency.
    Authority,
    /// What the linear model says of the place.
    Model,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 18] = [
        Self::Override,
        Self::Hijack,
        Self::Address,
        Self::Structure,
        Self::Secrecy,
        Self::Leak,
        Self::Persona,
        Self::Header,
        Self::Completion,
        Self::Exfiltration,
        Self::Invisible,
        Self::Encoded,
        Self::Memory,
        Self::Force,
        Self::Sink,
        Self::Tool,
        Self::Authority,
        Self::Model,
    ];

    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Ordinary mail and documents are full of these: they only add to others, and together at most [`WEAK_CAP`].
    pub const fn is_weak(self) -> bool {
        matches!(
            self,
            Self::Force | Self::Sink | Self::Tool | Self::Authority | Self::Model
        )
    }

    /// The name in findings and in the reference.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Override => "override",
            Self::Hijack => "hijack",
            Self::Address => "address",
            Self::Structure => "structure",
            Self::Secrecy => "secrecy",
            Self::Leak => "leak",
            Self::Persona => "persona",
            Self::Header => "header",
            Self::Completion => "completion",
            Self::Exfiltration => "exfiltration",
            Self::Invisible => "invisible",
            Self::Encoded => "encoded",
            Self::Memory => "memory",
            Self::Force => "force",
            Self::Sink => "sink",
            Self::Tool => "tool",
            Self::Authority => "authority",
            Self::Model => "model",
        }
    }
}

/// The most that weak families add up to.
pub const WEAK_CAP: f64 = 0.42;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// `family.name`, stable: it stands in findings.
    pub id: &'static str,
    /// Its family.
    pub family: Family,
    /// Score of the phrase alone, in 0..1.
    pub weight: f64,
    /// Patterns over classes of words, any of which is a match; none where the scanner itself sees it.
    pub patterns: &'static [&'static str],
    /// What it catches, and why.
    pub doc: &'static str,
    /// A text it finds.
    pub example: &'static str,
    /// A text close to it that it leaves alone.
    pub near_miss: &'static str,
    /// What it is known to take for an instruction.
    pub false_alarm: &'static str,
}

/// Every rule.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        takeover::OVERRIDE,
        takeover::HIJACK,
        takeover::PERSONA,
        address::ADDRESS,
        structure::STRUCTURE,
        structure::SEEN,
        actions::STRONG,
        actions::WEAK,
    ]
    .into_iter()
    .flatten()
}
