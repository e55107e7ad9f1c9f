//! What the injection layer does.

use super::ToolMatcher;
use crate::names::ToolName;

/// Thresholds for one set of tools. A score is in 0..=1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// From here the matched spans are replaced; `None`: never.
    pub redact: Option<f64>,
    /// From here the whole text is withheld; `None`: never.
    pub block: Option<f64>,
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
    /// From which score on the layer says something.
    pub const fn lowest(&self) -> Option<f64> {
        match (self.redact, self.block) {
            (Some(redact), Some(block)) => Some(redact.min(block)),
            (Some(one), None) | (None, Some(one)) => Some(one),
            (None, None) => None,
        }
    }
}

impl InjectionPolicy {
    /// Changes nothing.
    pub const fn never() -> Self {
        Self {
            default: Thresholds {
                redact: None,
                block: None,
            },
            tools: Vec::new(),
        }
    }

    /// The thresholds for a text of this tool.
    pub fn for_tool(&self, tool: Option<&ToolName>) -> Thresholds {
        tool.and_then(|tool| self.tools.iter().find(|(matcher, _)| matcher.matches(tool)))
            .map_or(self.default, |(_, thresholds)| *thresholds)
    }
}
