//! What the injection layer does with texts that tools give back, and the catalog with definitions.

use super::ToolMatcher;
use crate::names::ToolName;

/// Which texts are marked as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spotlight {
    /// None.
    #[default]
    Never,
    /// Prose: neither code nor structured data.
    Prose,
    /// Every text.
    All,
}

/// What `block` withholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Withhold {
    /// The text in which it stands.
    #[default]
    Text,
    /// Every text of the same result.
    Result,
}

/// Actions for one set of tools. A score is in 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// From here the matched spans are marked as data; `None`: never.
    pub annotate: Option<f64>,
    /// From here the matched spans are replaced; `None`: never.
    pub redact: Option<f64>,
    /// From here the whole text is withheld; `None`: never.
    pub block: Option<f64>,
    /// How much that is.
    pub withhold: Withhold,
    /// Whether texts are marked as data, whatever their score.
    pub spotlight: Spotlight,
    /// Whether characters go that nobody sees.
    pub strip: bool,
    /// Whether tokens of chat templates and forged boundaries are made harmless.
    pub neutralise: bool,
}

/// What the injection layer does.
#[derive(Clone, Debug)]
pub struct InjectionPolicy {
    /// For tools without an entry of their own.
    pub default: Thresholds,
    /// First match wins.
    pub tools: Vec<(ToolMatcher, Thresholds)>,
}

impl Thresholds {
    /// Changes nothing.
    pub const fn never() -> Self {
        Self {
            annotate: None,
            redact: None,
            block: None,
            withhold: Withhold::Text,
            spotlight: Spotlight::Never,
            strip: false,
            neutralise: false,
        }
    }

    /// From which score on the layer finds an instruction.
    pub fn lowest(&self) -> Option<f64> {
        let all = [self.annotate, self.redact, self.block];
        all.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Whether a text can be changed.
    pub fn acts(&self) -> bool {
        *self
            != Self {
                withhold: self.withhold,
                ..Self::never()
            }
    }
}

impl InjectionPolicy {
    /// Changes nothing.
    pub const fn never() -> Self {
        Self {
            default: Thresholds::never(),
            tools: Vec::new(),
        }
    }

    /// The actions for a text of this tool.
    pub fn for_tool(&self, tool: Option<&ToolName>) -> Thresholds {
        tool.and_then(|tool| self.tools.iter().find(|(matcher, _)| matcher.matches(tool)))
            .map_or(self.default, |(_, thresholds)| *thresholds)
    }

    /// All of them: the default, then those of single tools.
    pub fn all(&self) -> impl Iterator<Item = &Thresholds> {
        std::iter::once(&self.default).chain(self.tools.iter().map(|(_, thresholds)| thresholds))
    }

    /// From which score on some text is found to hold an instruction; `None`: none ever is.
    pub fn finds(&self) -> bool {
        self.all().any(|thresholds| thresholds.lowest().is_some())
    }

    /// Whether some text is spotlighted.
    pub fn spotlights(&self) -> bool {
        self.all().any(|t| t.spotlight != Spotlight::Never)
    }
}

/// What becomes of definitions that tell the model more than what a tool is for. A score is in 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DefinitionsPolicy {
    /// From here a definition is taken out of what is offered; `None`: never.
    pub remove: Option<f64>,
    /// From here the whole list is; `None`: never.
    pub refuse: Option<f64>,
}

impl Default for DefinitionsPolicy {
    fn default() -> Self {
        Self {
            remove: Some(0.6),
            refuse: None,
        }
    }
}

impl DefinitionsPolicy {
    /// Nothing becomes of them.
    pub const fn never() -> Self {
        Self {
            remove: None,
            refuse: None,
        }
    }

    /// From which score on a definition is flagged.
    pub fn lowest(&self) -> Option<f64> {
        let all = [self.remove, self.refuse];
        all.into_iter().flatten().min_by(f64::total_cmp)
    }
}
