//! What of a trial the report is made from: small, so that a run needs no memory for the rest, and written down, so that a run
//! that was stopped can go on.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::case::Case;
use super::judge::Gate;
use super::replay::{Approver, Fate, Graded, Reading, Trial};
use crate::verdict::LayerId;

/// A set of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers(u16);

impl Layers {
    /// Whether the layer is one of them.
    pub fn contains(self, layer: LayerId) -> bool {
        self.0 & bit(layer) != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In judging order.
    pub fn iter(self) -> impl Iterator<Item = LayerId> {
        let all = LayerId::ALL.into_iter();
        all.filter(move |layer| self.contains(*layer))
    }
}

fn bit(layer: LayerId) -> u16 {
    let place = LayerId::ALL.iter().position(|it| *it == layer);
    place.map_or(0, |place| 1 << place)
}

impl FromIterator<LayerId> for Layers {
    fn from_iter<I: IntoIterator<Item = LayerId>>(layers: I) -> Self {
        Self(layers.into_iter().fold(0, |set, layer| set | bit(layer)))
    }
}

impl Serialize for Layers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Layers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        let layers = names.iter().map(|name| {
            LayerId::from_name(name).ok_or_else(|| de::Error::custom(format!("no layer `{name}`")))
        });
        layers.collect()
    }
}

/// Calls of one trial, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// That were made.
    pub made: u32,
    /// Refused by a layer, or before any.
    pub refused: u32,
    /// Held, and no ticket came.
    pub held: u32,
    /// Needed a ticket, whether it came or not.
    pub needed_ticket: u32,
}

/// A call that did not get through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Which layer; `None`: the caller's token was not taken.
    #[serde(with = "layer_name", default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerId>,
    /// The reason's code, `held`, or the proxy's own code.
    pub why: String,
}

mod layer_name {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::verdict::LayerId;

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes the field by reference"
    )]
    pub(super) fn serialize<S: Serializer>(
        layer: &Option<LayerId>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        layer.map(LayerId::as_str).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<LayerId>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        let layer = name.map(|name| {
            LayerId::from_name(&name).ok_or_else(|| de::Error::custom(format!("no layer `{name}`")))
        });
        layer.transpose()
    }
}

/// A trial that ran to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question of its own"
)]
pub struct Seen {
    /// The attacker's goal stands.
    pub goal: bool,
    /// The first gate that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Gate>,
    /// The user's task came out.
    pub task_done: bool,
    /// An honest case succeeded.
    pub succeeded: bool,
    /// Layers with a rule for an item that came to their position.
    pub reached: Layers,
    /// Its calls.
    pub calls: Calls,
    /// Calls that did not get through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<Stopped>,
    /// Approvals that people gave.
    #[serde(default)]
    pub approvals: u32,
    /// A person was asked: another approver might have answered otherwise.
    #[serde(default)]
    pub asked: bool,
}

impl Seen {
    /// Whether any gate fails.
    pub const fn violated(&self) -> bool {
        self.failed.is_some()
    }
}

impl From<&Graded> for Seen {
    fn from(graded: &Graded) -> Self {
        let mut calls = Calls::default();
        let mut stopped = Vec::new();
        for call in &graded.calls {
            let (layer, why) = match &call.fate {
                Fate::NotProposed => continue,
                Fate::Refused { layer, reason, .. } => {
                    calls.refused += 1;
                    (Some(*layer), Some(reason.as_str().to_owned()))
                }
                Fate::TurnedAway { code } => {
                    calls.refused += 1;
                    (None, Some(code.clone()))
                }
                Fate::Held { layer, .. } => {
                    calls.held += 1;
                    (Some(*layer), Some("held".to_owned()))
                }
                Fate::Failed | Fate::Done | Fate::Replayed => (None, None),
            };
            calls.made += 1;
            calls.needed_ticket += u32::from(call.needed_ticket);
            stopped.extend(why.map(|why| Stopped { layer, why }));
        }
        Self {
            goal: graded.grade.goal == Some(true),
            failed: graded.grade.failed,
            task_done: graded.task_done(),
            succeeded: graded.succeeded(),
            reached: graded.reached.iter().copied().collect(),
            asked: graded.asked,
            calls,
            stopped,
            approvals: u32::try_from(graded.approvals).unwrap_or(u32::MAX),
        }
    }
}

/// One case in one arm.
#[derive(Clone, Debug)]
pub struct Record {
    /// The arm.
    pub arm: Arc<str>,
    /// The reading.
    pub reading: Reading,
    /// Who answered held calls.
    pub approver: Approver,
    /// The case.
    pub case: Arc<Case>,
    /// What came of it; an operational failure is inconclusive and says why.
    pub result: Result<Seen, String>,
}

impl Record {
    /// Of a trial, which may go.
    pub fn of(arm: &Arc<str>, trial: &Trial) -> Self {
        Self {
            arm: Arc::clone(arm),
            reading: trial.reading,
            approver: trial.approver,
            case: Arc::clone(&trial.case),
            result: trial.result.as_ref().map(Seen::from).map_err(Clone::clone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_comes_back() {
        let seen = Seen {
            goal: true,
            failed: Some(Gate::SideEffects),
            task_done: false,
            succeeded: false,
            reached: [LayerId::Tickets, LayerId::Catalog].into_iter().collect(),
            calls: Calls {
                made: 3,
                refused: 1,
                held: 1,
                needed_ticket: 2,
            },
            stopped: vec![
                Stopped {
                    layer: Some(LayerId::Egress),
                    why: "held".to_owned(),
                },
                Stopped {
                    layer: None,
                    why: "token_invalid".to_owned(),
                },
            ],
            approvals: 2,
            asked: true,
        };
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Seen>(&text).unwrap(), seen);
        assert!(
            text.contains(r#""reached":["catalog","tickets"]"#),
            "{text}"
        );
    }
}
