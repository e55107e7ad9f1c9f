//! What the scanner finds in a text, remembered: a conversation comes again with every turn, and an old output is not scanned
//! anew. What is remembered depends on the text and on how it is read, on nothing else.

use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};

use super::profile::Profile;
use super::scan::{Scan, Scanner};
use crate::generations::Generations;

/// Scans that are remembered, in two generations: what is used moves to the young one, and the old one goes as a whole.
const ENTRIES: usize = 16_384;

/// Phrases of a scan that is remembered.
const PHRASES: usize = 1_024;

/// Shorter texts are scanned sooner than looked up.
const SHORTEST: usize = 128;

type Key = [u8; 32];

static SEEN: LazyLock<Mutex<Generations<Key, Arc<Scan>>>> = LazyLock::new(Mutex::default);

/// A place where an instruction seems to stand, and what of the text goes with it.
#[derive(Clone, Debug)]
pub(in crate::layers) struct Placed {
    /// The phrases themselves.
    pub(super) span: Range<usize>,
    pub(super) extent: Range<usize>,
    pub(super) score: f64,
    pub(super) rules: Vec<&'static str>,
}

/// How the texts of one item are looked at.
pub(super) struct Eye<'a> {
    pub(super) scanner: &'a Scanner,
    pub(super) profile: &'a Profile<'a>,
    /// Score from which a place counts.
    pub(super) least: f64,
}

impl Eye<'_> {
    pub(super) fn look(&self, text: &str) -> Arc<Scan> {
        look(self.scanner, text, self.profile)
    }
}

/// Scans a text, or remembers how it was scanned.
pub(super) fn look(scanner: &Scanner, text: &str, profile: &Profile<'_>) -> Arc<Scan> {
    if text.len() < SHORTEST {
        return Arc::new(scanner.scan(text, profile));
    }
    let mut hasher = Context::new(&SHA256);
    hasher.update(&[profile.kind.tag()]);
    if let Some(tools) = profile.tools {
        hasher.update(tools.digest());
    }
    hasher.update(text.as_bytes());
    let Ok(key) = Key::try_from(hasher.finish().as_ref()) else {
        return Arc::new(scanner.scan(text, profile));
    };
    if let Some(known) = seen().get(&key, ENTRIES) {
        return known;
    }
    let scan = Arc::new(scanner.scan(text, profile));
    if scan.findings.len() <= PHRASES {
        seen().keep(key, Arc::clone(&scan), ENTRIES);
    }
    scan
}

fn seen() -> MutexGuard<'static, Generations<Key, Arc<Scan>>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The places of a text that reach a score.
pub(super) fn places(scan: &Scan, least: f64) -> Vec<Placed> {
    let places = scan.places(least).into_iter();
    let places = places.map(|place| Placed {
        extent: place.extent,
        span: place.span,
        score: place.score,
        rules: place.rules,
    });
    places.collect()
}
