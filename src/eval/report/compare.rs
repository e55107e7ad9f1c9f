//! Differences between two arms: paired where the same trials ran in both, unpaired where each arm has its own recordings.

use serde::Serialize;

use super::compute::Trials;
use super::rates::{goal, graded, is_attack, is_honest, reached, violated};
use super::{Comparison, Share};
use crate::eval::arms::Contrast;
use crate::eval::case::Kind;
use crate::eval::record::{Record, Seen};
use crate::eval::stats::{Interval, Rate, Table, newcombe_unpaired};

/// A difference, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Claim {
    /// It is claimed.
    Made(Delta),
    /// It is not.
    NotMade {
        /// Why, such as `reached 0 of 6`.
        not_claimed: String,
    },
}

/// A difference of two rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delta {
    /// `paired` or `unpaired`.
    pub design: &'static str,
    /// The rate without.
    pub without: Rate,
    /// The rate with.
    pub with: Rate,
    /// `with − without`.
    pub delta: f64,
    /// Newcombe's interval for it: method 10 where paired, hybrid score where not.
    pub newcombe95: Interval,
    /// Only where paired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcnemar: Option<McNemar>,
}

/// McNemar's test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct McNemar {
    /// How often the event came: with both, with the layer only, without it only, with neither.
    pub table: Table,
    /// Exact, two-sided: the headline.
    pub p_exact: f64,
    /// Mid-p, beside it.
    pub p_mid: f64,
}

fn not_claimed(why: impl Into<String>) -> Claim {
    Claim::NotMade {
        not_claimed: why.into(),
    }
}

/// The trials of a contrast's two arms.
struct Sides<'t> {
    without: Vec<&'t Record>,
    with: Vec<&'t Record>,
    paired: bool,
}

impl<'t> Sides<'t> {
    fn of(contrast: &Contrast, trials: &Trials<'t>, kind: fn(Kind) -> bool) -> Self {
        let without = trials.of(&contrast.without, kind);
        let with = trials.of(&contrast.with, kind);
        let bound = |trial: &&&Record| trial.case.arm.is_some();
        Self {
            paired: without.iter().chain(&with).find(bound).is_none(),
            without,
            with,
        }
    }

    fn pairs(&self) -> Vec<(&'t Record, &'t Seen, &'t Seen)> {
        let with = graded(&self.with);
        let mut pairs = Vec::new();
        for (trial, without) in graded(&self.without) {
            let twin = with
                .iter()
                .find(|(other, _)| other.case.id == trial.case.id);
            pairs.extend(twin.map(|(_, with)| (trial, without, *with)));
        }
        pairs
    }

    /// Trials in which an item reached the layer: in either arm where paired, over both arms where not.
    fn reached(&self, reaches: impl Fn(&Seen) -> bool) -> Share {
        if self.paired {
            let pairs = self.pairs();
            return Share {
                x: pairs
                    .iter()
                    .filter(|(_, a, b)| reaches(a) || reaches(b))
                    .count(),
                n: pairs.len(),
            };
        }
        let sides = [&self.without, &self.with].map(|side| reached(side, &reaches));
        Share {
            x: sides.iter().map(|side| side.x).sum(),
            n: sides.iter().map(|side| side.n).sum(),
        }
    }

    fn delta(&self, event: impl Fn(&Seen) -> bool, counts: impl Fn(&Record) -> bool) -> Claim {
        let delta = if self.paired {
            let pairs = self.pairs();
            let counted = pairs.iter().filter(|(trial, ..)| counts(trial));
            paired(Table::of(
                counted.map(|(_, without, with)| (event(with), event(without))),
            ))
        } else {
            let rate = |side: &[&Record]| {
                let results = graded(side).into_iter().filter(|(trial, _)| counts(trial));
                Rate::of(results, |(_, it)| event(it))
            };
            unpaired(rate(&self.without), rate(&self.with))
        };
        delta.map_or_else(|| not_claimed("no trials"), Claim::Made)
    }
}

/// A: with the layer. B: without it.
fn paired(table: Table) -> Option<Delta> {
    let with = Rate::new(table.a + table.b, table.n());
    let without = Rate::new(table.a + table.c, table.n());
    Some(Delta {
        design: "paired",
        without,
        with,
        delta: with.rate? - without.rate?,
        newcombe95: table.newcombe()?,
        mcnemar: Some(McNemar {
            table,
            p_exact: table.mcnemar_exact(),
            p_mid: table.mcnemar_mid_p(),
        }),
    })
}

fn unpaired(without: Rate, with: Rate) -> Option<Delta> {
    Some(Delta {
        design: "unpaired",
        without,
        with,
        delta: with.rate? - without.rate?,
        newcombe95: newcombe_unpaired(&with, &without)?,
        mcnemar: None,
    })
}

/// One contrast. `proved`: harm is possible in the baseline arm.
pub(super) fn comparison(contrast: &Contrast, trials: &Trials<'_>, proved: bool) -> Comparison {
    let attack = Sides::of(contrast, trials, is_attack);
    let honest = Sides::of(contrast, trials, is_honest);
    let reaches = |graded: &Seen| match contrast.layer {
        Some(layer) => graded.reached.contains(layer),
        None => !graded.reached.is_empty(),
    };
    let reached_attack = attack.reached(reaches);
    let reached_benign = honest.reached(reaches);
    let unreached = |share: Share| {
        let why = format!("reached {} of {}", share.x, share.n);
        (share.x == 0).then(|| not_claimed(why))
    };
    let against = unreached(reached_attack).or_else(|| {
        let why = "no attack reaches its goal with the layers off: harm is not proved possible";
        (!proved).then(|| not_claimed(why))
    });
    let all = |_: &Record| true;
    let cost = || {
        let sampled = honest
            .without
            .iter()
            .any(|trial| trial.case.kind == Kind::Benign);
        if !sampled {
            return not_claimed("no honest cases beside the controls");
        }
        if !honest.paired {
            return honest.delta(|it| !it.succeeded, all);
        }
        let able = |trial: &Record| trials.baseline(trial).is_some_and(|it| it.succeeded);
        honest.delta(|it| !it.succeeded, able)
    };
    Comparison {
        question: contrast.question,
        layer: contrast.layer,
        without: contrast.without.clone(),
        with: contrast.with.clone(),
        reached_attack,
        reached_benign,
        asr: against.clone().unwrap_or_else(|| attack.delta(goal, all)),
        any_violation: against.unwrap_or_else(|| attack.delta(violated, all)),
        frr: unreached(reached_benign).unwrap_or_else(cost),
    }
}
