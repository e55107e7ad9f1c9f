//! Yesterday's traffic under tomorrow's policy: which calls would newly be stopped, which newly pass, which texts change otherwise.
//!
//! Recordings become exchanges ([`exchange`]), each is sent through the proxy's own service under both policies ([`replay`]), and
//! what the guard says of the same item is compared. Where there is no old policy, what was recorded stands in its place.

mod compare;
mod exchange;
mod replay;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use compare::{Change, Group};
use exchange::{Told, exchanges};
pub use replay::Backing;
use serde::Serialize;
pub use text::render;

use super::{ReadError, RecordedError, files};
use crate::policy::Policy;
use crate::source::Problem;

/// The layout of the report as JSON.
const SCHEMA: &str = "holdpoint-policy-diff/1";

/// What to compare.
#[derive(Debug)]
pub struct Options<'o> {
    /// The policy that counts as the old one. `None`: what was recorded.
    pub old: Option<Arc<Policy>>,
    /// The policy that is asked about.
    pub new: Arc<Policy>,
    /// Recordings, or folders of them.
    pub recordings: &'o [PathBuf],
    /// Databases, and how routes are read; with nothing in it, policies with look-ups cannot run.
    pub backing: &'o Backing,
    /// Whether examples have the arguments of their calls.
    pub arguments: bool,
}

/// What differs.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// The layout, with its version.
    pub schema: &'static str,
    /// SHA-256 of the old policy; `None`: what was recorded.
    pub old: Option<String>,
    /// SHA-256 of the new one.
    pub new: String,
    /// Exchanges that were replayed.
    pub exchanges: usize,
    /// Items that both were asked about, each once.
    pub items: usize,
    /// Of these: calls.
    pub calls: usize,
    /// Exchanges of which a part was not recorded, so that what is said of them may differ for that alone.
    pub incomplete: usize,
    /// How often, by kind of change.
    pub counts: compare::Counts,
    /// The differences, the most frequent first.
    pub changes: Vec<Group>,
}

/// Replays the recordings and compares.
///
/// # Errors
/// Recordings that cannot be read, a policy that cannot run without a database, or recordings without verdicts where there is no
/// old policy.
pub fn diff(options: &Options<'_>) -> Result<Diff, RecordedError> {
    let exchanges = exchanges(&named(options.recordings)?)?;
    if exchanges.is_empty() {
        let none = "the recordings hold no exchange".to_owned();
        return Err(RecordedError::Policy(Problem::new(none).into()));
    }
    let replayed = |policy: &Arc<Policy>| {
        replay::replay(policy, &exchanges, options.backing, options.arguments)
    };
    let (old, new) = match &options.old {
        None => (recorded(&exchanges)?, replayed(&options.new)?),
        Some(policy) => std::thread::scope(|scope| {
            let old = scope.spawn(|| replayed(policy));
            let new = replayed(&options.new);
            let lost = |_| Err(RecordedError::Failed("a thread ended early".to_owned()));
            Ok::<_, RecordedError>((old.join().unwrap_or_else(lost)?, new?))
        })?,
    };
    let compared = compare::compare(&exchanges, &old, &new);
    Ok(Diff {
        schema: SCHEMA,
        old: options.old.as_ref().map(|policy| policy.hash.0.to_string()),
        new: options.new.hash.0.to_string(),
        exchanges: exchanges.len(),
        items: compared.items,
        calls: compared.calls,
        incomplete: exchanges
            .iter()
            .filter(|exchange| exchange.incomplete())
            .count(),
        counts: compared.counts,
        changes: compared.groups,
    })
}

fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReadError> {
    let each = paths.iter().map(|path| files(Path::new(path)));
    Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
}

/// What was said when it was recorded.
fn recorded(exchanges: &[Told]) -> Result<Vec<Vec<replay::Heard>>, RecordedError> {
    let each = exchanges.iter().map(|told| {
        if told.imported {
            let what = format!(
                "{}: what was recorded has no verdicts of a policy",
                told.name
            );
            let problem = Problem::new(what)
                .help("give the old policy too: `holdpoint policy diff OLD NEW --recordings PATH`");
            return Err(RecordedError::Policy(problem.into()));
        }
        Ok(told
            .exchange
            .judged
            .iter()
            .cloned()
            .map(replay::Heard::from)
            .collect())
    });
    each.collect()
}
