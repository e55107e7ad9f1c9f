//! What two policies say of the same item, compared.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::exchange::Told;
use super::replay::Heard;
use crate::record::{ItemKind, Judged, Said, Way};
use crate::verdict::Reason;

/// Examples of one group.
const EXAMPLES: usize = 3;

/// How the new policy differs from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is refused, and was not.
    NewlyBlocked,
    /// It needs a person, and passed.
    NewlyHeld,
    /// It passes, and did not.
    NewlyAllowed,
    /// A person may let it pass, and it was refused.
    HeldInstead,
    /// It passes, changed in another way.
    RewrittenDifferently,
    /// It is stopped as before, by another rule or for another reason.
    OtherReason,
}

impl Change {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::NewlyBlocked,
        Self::NewlyHeld,
        Self::NewlyAllowed,
        Self::HeldInstead,
        Self::RewrittenDifferently,
        Self::OtherReason,
    ];

    /// The words for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NewlyBlocked => "newly blocked",
            Self::NewlyHeld => "newly held",
            Self::NewlyAllowed => "newly allowed",
            Self::HeldInstead => "held instead of blocked",
            Self::RewrittenDifferently => "rewritten differently",
            Self::OtherReason => "stopped for another reason",
        }
    }

    fn of(old: &Judged, new: &Judged) -> Option<Self> {
        match (old.verdict, new.verdict) {
            (Said::Deny, Said::Hold) => Some(Self::HeldInstead),
            (was, Said::Deny) if was != Said::Deny => Some(Self::NewlyBlocked),
            (was, Said::Hold) if !was.stops() => Some(Self::NewlyHeld),
            (was, now) if was.stops() && !now.stops() => Some(Self::NewlyAllowed),
            (was, now) if !now.stops() => {
                let other = was != now || old.changed != new.changed;
                other.then_some(Self::RewrittenDifferently)
            }
            _ => (old.why != new.why).then_some(Self::OtherReason),
        }
    }
}

/// How often each change is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// [`Change::NewlyBlocked`].
    pub newly_blocked: usize,
    /// [`Change::NewlyHeld`].
    pub newly_held: usize,
    /// [`Change::NewlyAllowed`].
    pub newly_allowed: usize,
    /// [`Change::HeldInstead`].
    pub held_instead: usize,
    /// [`Change::RewrittenDifferently`].
    pub rewritten_differently: usize,
    /// [`Change::OtherReason`].
    pub other_reason: usize,
}

impl Counts {
    fn add(&mut self, change: Change) {
        *match change {
            Change::NewlyBlocked => &mut self.newly_blocked,
            Change::NewlyHeld => &mut self.newly_held,
            Change::NewlyAllowed => &mut self.newly_allowed,
            Change::HeldInstead => &mut self.held_instead,
            Change::RewrittenDifferently => &mut self.rewritten_differently,
            Change::OtherReason => &mut self.other_reason,
        } += 1;
    }
}

/// What the changes of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// What differs.
    pub change: Change,
    /// A call, an output, and so on.
    pub item: ItemKind,
    /// The tool, where it is about one.
    pub tool: Option<String>,
    /// What was said before.
    pub old: Verdict,
    /// What is said now.
    pub new: Verdict,
}

/// A verdict and who gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are those of the JSON")]
pub struct Verdict {
    /// The verdict.
    pub verdict: Said,
    /// The layer.
    pub layer: Option<&'static str>,
    /// Its rule.
    pub rule: Option<String>,
    /// The reason.
    pub reason: Option<&'static str>,
}

impl From<&Judged> for Verdict {
    fn from(judged: &Judged) -> Self {
        let why = judged.why.as_ref();
        Self {
            verdict: judged.verdict,
            layer: why.map(|why| why.layer.as_str()),
            rule: why.map(|why| why.rule.to_string()),
            reason: why.map(|why| why.reason.as_str()),
        }
    }
}

/// Changes of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// How many.
    pub count: usize,
    /// What they have in common.
    #[serde(flatten)]
    pub key: Key,
    /// Some of them.
    pub examples: Vec<Example>,
}

/// One of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// Id of the exchange; of an imported conversation its file and line.
    pub exchange: String,
    /// Id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Its arguments, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// Everything that differs.
pub(super) struct Compared {
    pub(super) items: usize,
    pub(super) calls: usize,
    pub(super) counts: Counts,
    pub(super) groups: Vec<Group>,
}

/// Which item of an exchange: of several that look the same it is told by its number.
type Same<'j> = (
    Way,
    ItemKind,
    Option<&'j str>,
    Option<&'j str>,
    &'j str,
    usize,
);

fn keyed(heard: &[Heard]) -> HashMap<Same<'_>, &Heard> {
    let mut seen: HashMap<Same<'_>, usize> = HashMap::new();
    let mut keyed = HashMap::new();
    for one in heard {
        let said = &one.judged;
        // A call with an id is the same wherever it stood.
        let at = if said.call.is_some() {
            ""
        } else {
            said.at.as_str()
        };
        let bare = (
            said.leg,
            said.kind,
            said.tool.as_deref(),
            said.call.as_deref(),
            at,
            0,
        );
        let number = seen.entry(bare).or_default();
        keyed.insert((bare.0, bare.1, bare.2, bare.3, bare.4, *number), one);
        *number += 1;
    }
    keyed
}

pub(super) fn compare(exchanges: &[Told], old: &[Vec<Heard>], new: &[Vec<Heard>]) -> Compared {
    let mut compared = Compared {
        items: 0,
        calls: 0,
        counts: Counts::default(),
        groups: Vec::new(),
    };
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    // A conversation repeats what was judged before.
    let mut known: HashSet<(&str, ItemKind, &str, &str)> = HashSet::new();
    for ((told, old), new) in exchanges.iter().zip(old).zip(new) {
        let old = keyed(old);
        for (same, now) in in_order(new) {
            // What only one of them was asked about follows from what else it said.
            let Some(before) = old.get(&same) else {
                continue;
            };
            let judged = &now.judged;
            // A secret that was refused is not in the recording.
            if told.incomplete() && (about_secrets(&before.judged) || about_secrets(judged)) {
                continue;
            }
            let session = told.exchange.session.as_deref().unwrap_or(&told.name);
            let tool = judged.tool.as_deref().unwrap_or_default();
            let which = judged.call.as_deref().unwrap_or(&judged.at);
            if !known.insert((session, judged.kind, tool, which)) && judged.leg == Way::ToUpstream {
                continue;
            }
            compared.items += 1;
            compared.calls += usize::from(judged.kind == ItemKind::Call);
            let Some(change) = Change::of(&before.judged, judged) else {
                continue;
            };
            compared.counts.add(change);
            let key = Key {
                change,
                item: judged.kind,
                tool: judged.tool.clone(),
                old: (&before.judged).into(),
                new: judged.into(),
            };
            let group = groups.entry(key.clone()).or_insert_with(|| Group {
                count: 0,
                key,
                examples: Vec::new(),
            });
            group.count += 1;
            if group.examples.len() < EXAMPLES {
                group.examples.push(Example {
                    exchange: told.name.clone(),
                    call: judged.call.clone(),
                    arguments: now.arguments.clone(),
                });
            }
        }
    }
    compared.groups = groups.into_values().collect();
    compared
        .groups
        .sort_by_key(|group| (group.key.change, std::cmp::Reverse(group.count)));
    compared
}

fn about_secrets(judged: &Judged) -> bool {
    let reason = judged.why.as_ref().map(|why| why.reason);
    matches!(reason, Some(Reason::SecretDetected | Reason::PrivateValue))
}

fn in_order(heard: &[Heard]) -> Vec<(Same<'_>, &Heard)> {
    let mut keyed: Vec<_> = keyed(heard).into_iter().collect();
    let place = |one: &Heard| heard.iter().position(|other| std::ptr::eq(other, one));
    keyed.sort_by_key(|(_, one)| place(one));
    keyed
}
