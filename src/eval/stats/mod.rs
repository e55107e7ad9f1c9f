//! Intervals and tests for rates and their differences. Two-sided 95 % throughout.

mod paired;
mod unpaired;
mod wilson;

pub use paired::Table;
pub use unpaired::newcombe_unpaired;
pub use wilson::{Rate, wilson};

use serde::{Serialize, Serializer};

/// Quantile of the standard normal distribution for two-sided 95 %.
pub const Z: f64 = 1.959_963_984_540_054;

/// An interval with both ends. In JSON: `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Ends cut to what a rate, or a difference of rates, can be.
    fn clipped(low: f64, high: f64, range: std::ops::RangeInclusive<f64>) -> Self {
        Self {
            low: low.clamp(*range.start(), *range.end()),
            high: high.clamp(*range.start(), *range.end()),
        }
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        [self.low, self.high].serialize(to)
    }
}

/// A count as a float: exact, since no eval has 2^53 trials.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of trials are far below 2^53"
)]
pub(crate) const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
pub(crate) fn assert_close(got: Interval, low: f64, high: f64, tolerance: f64) {
    assert!(
        (got.low - low).abs() <= tolerance && (got.high - high).abs() <= tolerance,
        "{got:?} instead of {low} – {high}"
    );
}
