//! What earlier outputs of a conversation leave behind: an instruction that is split over several calls shows in none of them.
//!
//! Weak phrases of one source add up, and fade by half in three calls; a phrase that begins at the end of one output and goes on
//! at the start of the next is read as one. Only the later output gets a verdict: what was said before is never rewritten.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::extent;
use super::look::{self, Eye, Placed};
use super::offered;
use super::profile::ToolNames;
use super::rules::Family;
use super::scan::{Finding, Scan};
use crate::item::{Exchange, ToolOutput};
use crate::names::ToolName;
use crate::principal::Session;

/// Calls after which a phrase counts half.
const HALF_LIFE: f64 = 3.0;

/// What the output itself must say before others are added to it.
const OWN: f64 = 0.2;

/// Tools of one conversation whose outputs are remembered.
const SOURCES: usize = 32;

/// Names of tools of one session that are remembered.
const TOOLS: usize = 512;

/// Bytes at the end of an output, and at the start of the next, that are read as one.
const SEAM: usize = 256;

/// Texts of one source whose ends are remembered: a result has short texts besides the one that matters.
const TAILS: usize = 2;

/// Bytes from which a text of two words or more may be one that was broken off.
const BROKEN_OFF: usize = 8;

/// Sessions of tools' routes that are remembered, in two generations.
const SESSIONS: usize = 8_192;

/// What is remembered of one conversation up to an item.
#[derive(Clone, Debug, Default)]
pub(in crate::layers) struct Recall {
    calls: u32,
    call: Option<Arc<str>>,
    sources: Vec<Source>,
    /// The last key of an object, and where it stands.
    key: Option<(String, Arc<str>)>,
    /// Tools that the session was offered.
    tools: Arc<[ToolName]>,
}

#[derive(Clone, Debug, Default)]
struct Source {
    tool: Option<ToolName>,
    /// The heaviest phrase of each family, and in which call it came.
    phrases: BTreeMap<Family, (f64, u32)>,
    /// The ends of the latest texts, and in which call they came.
    tails: VecDeque<(String, u32)>,
}

impl Recall {
    /// Names of the tools that the session was offered before a message, and of those that the message offers.
    pub(in crate::layers) fn names(&self, exchange: &Exchange) -> ToolNames {
        let all = offered(exchange).chain(self.tools.iter());
        ToolNames::new(all.map(ToolName::as_str))
    }

    /// Remembers what a message offers.
    pub(in crate::layers) fn learn(&mut self, exchange: &Exchange) {
        let is_new = |tool: &&ToolName| !self.tools.contains(tool);
        let new: Vec<_> = offered(exchange).filter(is_new).cloned().collect();
        if !new.is_empty() {
            let all = new.into_iter().chain(self.tools.iter().cloned());
            self.tools = all.take(TOOLS).collect();
        }
    }

    /// Another message, whose outputs may answer without naming a call.
    pub(in crate::layers) const fn next_message(&mut self) {
        self.calls = self.calls.saturating_add(1);
    }

    /// Remembers a key until its value comes.
    pub(super) fn key(&mut self, pointer: &str, key: &Arc<str>) {
        self.key = Some((pointer.to_owned(), Arc::clone(key)));
    }

    /// A place over the key that stands at `pointer` and the start of its value.
    pub(super) fn under(&mut self, eye: &Eye<'_>, pointer: &str, text: &str) -> Option<Placed> {
        let (at, key) = self.key.take()?;
        let has_words = key.contains([' ', '_', '-', '.']);
        (has_words && at == pointer).then(|| crossing(eye, &key, text))?
    }

    /// Adds to the `places` of an output what earlier ones say, and remembers the output. `redacted` is the score from which
    /// phrases were taken out and say nothing any more.
    pub(super) fn hear(
        &mut self,
        eye: &Eye<'_>,
        output: &ToolOutput,
        (scan, places): (&Scan, &mut Vec<Placed>),
        redacted: f64,
    ) {
        if output.call_id != self.call {
            self.call.clone_from(&output.call_id);
            self.next_message();
        }
        let now = self.calls;
        let text = &*output.text;
        let at = self
            .sources
            .iter()
            .position(|source| source.tool == output.tool);
        let mut source = at.map_or_else(
            || Source {
                tool: output.tool.clone(),
                ..Source::default()
            },
            |at| self.sources.remove(at),
        );
        if let Some(recalled) = source.seam(eye, text, now) {
            places.push(recalled);
        }
        for place in look::places(scan, OWN) {
            let lifted = source.lifted(scan, &place, now);
            if lifted >= eye.least && lifted > place.score {
                match places.iter_mut().find(|known| known.span == place.span) {
                    Some(known) => known.score = known.score.max(lifted),
                    None => places.push(Placed {
                        score: lifted,
                        ..place
                    }),
                }
            }
        }
        source.remember(scan, text, redacted, now);
        if self.sources.len() >= SOURCES {
            self.sources.remove(0);
        }
        self.sources.push(source);
    }
}

impl Source {
    /// The score of a place, with what earlier outputs say in other families.
    fn lifted(&self, scan: &Scan, place: &Placed, now: u32) -> f64 {
        let own: Vec<Family> = within(scan, &place.span).map(|hit| hit.family).collect();
        let others = self
            .phrases
            .iter()
            .filter(|(family, (_, then))| *then < now && !own.contains(family));
        let miss: f64 = others
            .map(|(_, (weight, then))| 1.0 - weight * fades(now - then))
            .product();
        1.0 - (1.0 - place.score) * miss
    }

    /// The worst place over the end of an output before and the start of this one.
    fn seam(&self, eye: &Eye<'_>, text: &str, now: u32) -> Option<Placed> {
        self.tails
            .iter()
            .filter(|(_, then)| *then < now)
            .filter_map(|(tail, _)| crossing(eye, tail, text))
            .max_by(|a, b| a.score.total_cmp(&b.score))
    }

    fn remember(&mut self, scan: &Scan, text: &str, redacted: f64, now: u32) {
        let gone: Vec<Range<usize>> = scan.places(redacted).into_iter().map(|p| p.span).collect();
        for hit in &scan.findings {
            let is_gone = gone
                .iter()
                .any(|gone| gone.start <= hit.start && hit.end <= gone.end);
            if hit.family.is_weak() || is_gone {
                continue;
            }
            let known = self.phrases.get(&hit.family);
            let faded = known.map_or(0.0, |(weight, then)| weight * fades(now - then));
            if hit.score >= faded {
                self.phrases.insert(hit.family, (hit.score, now));
            }
        }
        if text.len() < BROKEN_OFF || text.split_whitespace().nth(1).is_none() {
            return;
        }
        let tail = text.ceil_char_boundary(text.len().saturating_sub(SEAM));
        if self.tails.len() >= TAILS {
            self.tails.pop_front();
        }
        let tail = text.get(tail..).unwrap_or_default();
        self.tails.push_back((tail.to_owned(), now));
    }
}

/// The worst place with a phrase that begins in what stands before a text and ends in the text, as a place of the text. Phrases on
/// both sides do not make one: those before have been judged.
fn crossing(eye: &Eye<'_>, before: &str, text: &str) -> Option<Placed> {
    let head = text.get(..text.floor_char_boundary(SEAM))?;
    let mut worst: Option<Placed> = None;
    for between in [" ", ""] {
        let joined = format!("{before}{between}{head}");
        let start = before.len() + between.len();
        let scan = eye.look(&joined);
        let over: Vec<&Finding> = scan
            .findings
            .iter()
            .filter(|hit| !hit.family.is_weak() && hit.start < before.len() && hit.end > start)
            .collect();
        let is_split = |place: &Placed| over.iter().any(|hit| place.span.contains(&hit.start));
        for place in look::places(&scan, eye.least).into_iter().filter(is_split) {
            let within = 0..place.span.end.saturating_sub(start);
            if worst.as_ref().is_none_or(|worst| place.score > worst.score) {
                let extent = extent::extent(text, &within);
                worst = Some(Placed {
                    extent: 0..extent
                        .end
                        .max(within.end)
                        .max(text.floor_char_boundary(place.extent.end.saturating_sub(start))),
                    span: within,
                    score: place.score,
                    rules: place.rules,
                });
            }
        }
    }
    worst
}

fn within<'s>(scan: &'s Scan, place: &Range<usize>) -> impl Iterator<Item = &'s Finding> {
    let place = place.clone();
    let hits = scan.findings.iter();
    hits.filter(move |hit| place.start <= hit.start && hit.start <= place.end)
}

fn fades(calls: u32) -> f64 {
    0.5_f64.powf(f64::from(calls) / HALF_LIFE)
}

/// What is remembered of the sessions of tools' routes, where each message has one answer alone. Bounded; what is forgotten is
/// only that an earlier output was a little odd.
#[derive(Default)]
pub struct Recalls(Mutex<Generations>);

type Key = (Arc<str>, Arc<str>, Arc<str>, Arc<str>);

#[derive(Default)]
struct Generations {
    young: HashMap<Key, Recall>,
    old: HashMap<Key, Recall>,
}

impl fmt::Debug for Recalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recalls").finish_non_exhaustive()
    }
}

fn key(session: &Session) -> Option<Key> {
    let principal = &session.principal;
    Some((
        Arc::clone(&principal.tenant),
        Arc::clone(&principal.issuer),
        Arc::clone(&principal.subject),
        Arc::from(session.key.as_ref()?.as_str()),
    ))
}

impl Recalls {
    /// What is remembered of the session.
    pub(in crate::layers) fn of(&self, session: &Session) -> Recall {
        let Some(key) = key(session) else {
            return Recall::default();
        };
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = inner.young.get(&key).or_else(|| inner.old.get(&key));
        let mut recall = known.cloned().unwrap_or_default();
        recall.next_message();
        recall
    }

    /// Remembers it.
    pub(in crate::layers) fn keep(&self, session: &Session, recall: Recall) {
        let says_nothing = recall.sources.is_empty() && recall.tools.is_empty();
        let Some(key) = key(session).filter(|_| !says_nothing) else {
            return;
        };
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.young.len() >= SESSIONS / 2 {
            inner.old = std::mem::take(&mut inner.young);
        }
        inner.young.insert(key, recall);
    }
}
