//! How far a run is: a line on the terminal, and nothing on a pipe.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::eval::Progress;

/// What the line says.
const LINE: &str = "{bar:30} {pos}/{len} trials, {per_sec}, {eta} left";

/// A line on standard error where that is a terminal; it goes when the run ends.
pub(super) fn bar() -> Arc<dyn Fn(Progress) + Send + Sync> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(LINE) {
        bar.set_style(style);
    }
    Arc::new(move |progress: Progress| {
        let of = |count: usize| count as u64;
        if bar.length().is_none() {
            bar.set_length(of(progress.all));
            // The rate is of what this part of the run does.
            bar.set_position(of(progress.before));
            bar.reset_eta();
        }
        bar.set_position(of(progress.done));
        if progress.done == progress.all {
            bar.finish_and_clear();
        }
    })
}
