//! Arms: settings of the layers under which every trial is replayed, and the pairs of them that are compared.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::recorded::Strictness;
use super::suite::Suite;
use super::tokens::Check;
use crate::policy::Modes;
use crate::source::{Problem, Problems, did_you_mean};
use crate::verdict::{LayerId, Mode};

/// One setting of the layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// `none`, `all`, `without:LAYER`, `only:LAYER`, `provenance:off`, `naive:typed`, or the name that the suite gives it.
    pub name: String,
    /// What each layer does.
    pub modes: Modes,
    /// Whether rules know who said what; else `from` vouches for nothing.
    pub provenance: bool,
    /// Checks of the caller's identity that are left out.
    pub without: BTreeSet<Check>,
    /// Reads the policy's `allow` otherwise; `None`: as it stands.
    pub strictness: Option<Strictness>,
}

/// What a comparison answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// What all layers do together.
    Total,
    /// Whether the layer is needed given the rest.
    LeaveOneOut,
    /// What the layer does alone.
    OnlyOne,
    /// What it is worth to know who said what.
    Provenance,
    /// What the layer does between the two arms of the suite.
    Bound,
}

/// Two arms to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contrast {
    /// What it answers.
    pub question: Question,
    /// The layer; `None` for all together.
    pub layer: Option<LayerId>,
    /// Name of the arm without it.
    pub without: String,
    /// Name of the arm with it.
    pub with: String,
}

/// What is run and compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// In the order of the report.
    pub arms: Vec<Arm>,
    /// The arm with the layers off: what would happen without a guard.
    pub baseline: String,
    /// What is compared.
    pub contrasts: Vec<Contrast>,
}

/// The groups that `--arms` takes for a suite without arms of its own.
const GROUPS: [&str; 4] = ["none", "all", "leave-one-out", "only-one"];

/// The arm of the naive rule: whatever the policy asks about must be the user's own words.
pub(super) const NAIVE: &str = "naive:typed";

/// The arm in which nobody knows who said what.
const NO_PROVENANCE: &str = "provenance:off";

impl Design {
    /// The arms of a suite. `chosen`: groups or names; empty for all. The baseline is always run.
    ///
    /// # Errors
    /// A name that is no arm of this suite.
    pub fn new(suite: &Suite, chosen: &[String]) -> Result<Self, Problems> {
        let mut design = if suite.bound.is_some() {
            Self::bound(suite)
        } else {
            Self::ablation(suite)
        };
        if chosen.is_empty() {
            return Ok(design);
        }
        let names: Vec<&str> = design.arms.iter().map(|arm| arm.name.as_str()).collect();
        let groups: &[&str] = if suite.bound.is_some() { &[] } else { &GROUPS };
        for word in chosen {
            if !names.contains(&word.as_str()) && !groups.contains(&word.as_str()) {
                let known = groups.iter().chain(&names).copied();
                let problem =
                    Problem::new(format!("the suite `{}` has no arm `{word}`", suite.name));
                return Err(problem.help(did_you_mean("arms", word, known)).into());
            }
        }
        let baseline = design.baseline.clone();
        design.arms.retain(|arm| {
            arm.name == baseline
                || chosen
                    .iter()
                    .any(|word| word == &arm.name || covers(word, &arm.name))
        });
        let there = |name: &String| design.arms.iter().any(|arm| &arm.name == name);
        design
            .contrasts
            .retain(|contrast| there(&contrast.without) && there(&contrast.with));
        Ok(design)
    }

    fn bound(suite: &Suite) -> Self {
        let mut design = Self {
            arms: Vec::new(),
            baseline: String::new(),
            contrasts: Vec::new(),
        };
        if let Some(bound) = &suite.bound {
            let arms = bound.arms.iter().map(|arm| Arm {
                name: arm.name.clone(),
                modes: bound.modes(&suite.policy, &arm.name),
                without: arm.without.clone(),
                provenance: true,
                strictness: None,
            });
            design.arms = arms.collect();
            design.baseline.clone_from(&bound.without);
            design.contrasts.push(Contrast {
                question: Question::Bound,
                layer: Some(bound.layer),
                without: bound.without.clone(),
                with: bound.with.clone(),
            });
        }
        design
    }

    fn ablation(suite: &Suite) -> Self {
        let all = &suite.policy.modes;
        let enforced: Vec<LayerId> = LayerId::ALL
            .into_iter()
            .filter(|layer| all.of(*layer) == Mode::Enforce)
            .collect();
        let mut arms = Arms::default();
        let none = arms.add("none".to_owned(), Modes::none());
        let whole = arms.add("all".to_owned(), all.clone());
        let mut contrasts = Vec::new();
        let mut contrast = |question, layer, without: &str, with: &str| {
            if without != with {
                contrasts.push(Contrast {
                    question,
                    layer,
                    without: without.to_owned(),
                    with: with.to_owned(),
                });
            }
        };
        contrast(Question::Total, None, &none, &whole);
        for layer in &enforced {
            let rest = all.clone().with(*layer, Mode::Off);
            let without = arms.add(format!("without:{layer}"), rest);
            contrast(Question::LeaveOneOut, Some(*layer), &without, &whole);
        }
        for layer in &enforced {
            let alone = Modes::none().with(*layer, Mode::Enforce);
            let only = arms.add(format!("only:{layer}"), alone);
            contrast(Question::OnlyOne, Some(*layer), &none, &only);
        }
        if suite.policy.vouches_by_origin() {
            let blind = arms.blind(all.clone());
            contrast(Question::Provenance, None, &blind, &whole);
        }
        if Strictness::Typed.changes(&suite.policy) {
            // What guards the text has no part in the naive rule.
            arms.naive(all.clone().with(LayerId::Injection, Mode::Off));
        }
        Self {
            arms: arms.0,
            baseline: none,
            contrasts,
        }
    }
}

fn covers(group: &str, arm: &str) -> bool {
    match group {
        "leave-one-out" => arm.starts_with("without:") || arm == "all",
        "only-one" => arm.starts_with("only:"),
        _ => false,
    }
}

/// Arms without two that do the same.
#[derive(Default)]
struct Arms(Vec<Arm>);

impl Arms {
    /// Adds the arm; the name of the one that does the same if there is one.
    fn add(&mut self, name: String, modes: Modes) -> String {
        let same = |arm: &&Arm| {
            arm.provenance && arm.strictness.is_none() && acting(&arm.modes) == acting(&modes)
        };
        if let Some(arm) = self.0.iter().find(same) {
            return arm.name.clone();
        }
        self.0.push(Arm {
            name: name.clone(),
            modes,
            provenance: true,
            without: BTreeSet::new(),
            strictness: None,
        });
        name
    }

    /// Adds the arm of the naive rule.
    fn naive(&mut self, modes: Modes) {
        self.0.push(Arm {
            name: NAIVE.to_owned(),
            modes,
            provenance: true,
            without: BTreeSet::new(),
            strictness: Some(Strictness::Typed),
        });
    }

    /// Adds the arm in which `from` vouches for nothing.
    fn blind(&mut self, modes: Modes) -> String {
        self.0.push(Arm {
            name: NO_PROVENANCE.to_owned(),
            modes,
            provenance: false,
            without: BTreeSet::new(),
            strictness: None,
        });
        NO_PROVENANCE.to_owned()
    }
}

/// Layers that change something: shadow and off act alike.
fn acting(modes: &Modes) -> BTreeMap<LayerId, Mode> {
    let enforced = modes.0.iter().filter(|(_, mode)| **mode == Mode::Enforce);
    enforced.map(|(layer, mode)| (*layer, *mode)).collect()
}
