//! Values beside instructions: what the layer `injection` finds in an output is evidence against what stands near it.
//!
//! A pure function of the policy and the text, as the layer's own verdict is.

use super::text::Text;
use crate::layers::injection;
use crate::names::ToolName;
use crate::policy::{InjectionPolicy, Policy};
use crate::verdict::{LayerId, Mode};

/// From which score on a text counts as one that tells the model what to do.
#[derive(Clone, Debug)]
pub struct Flags(InjectionPolicy);

impl Flags {
    /// By the thresholds of the layer `injection`; `None` where it does not enforce, and so says nothing.
    pub fn of(policy: &Policy) -> Option<Self> {
        let enforced = policy.modes.of(LayerId::Injection) == Mode::Enforce;
        enforced.then(|| Self(policy.injection.clone()))
    }

    /// Whether the layer finds something in such a text of the tool.
    pub(super) fn is_flagged(&self, tool: Option<&ToolName>, text: &Text) -> bool {
        let threshold = self.0.for_tool(tool).lowest();
        let score = |text: &str| injection::score(text, injection::Kind::ToolOutput);
        threshold.is_some_and(|threshold| text.flagged(score) >= threshold)
    }
}
