//! One proportion.

use serde::Serialize;

use super::{Interval, Z, float};

/// Wilson's score interval (Wilson 1927, JASA 22:209) for `x` events in `n` trials; `None` for no trials.
pub fn wilson(x: usize, n: usize) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let (events, trials) = (float(x.min(n)), float(n));
    let p = events / trials;
    let scale = 1.0 + Z * Z / trials;
    let centre = (p + Z * Z / (2.0 * trials)) / scale;
    let half = Z * (p * (1.0 - p) / trials + Z * Z / (4.0 * trials * trials)).sqrt() / scale;
    let mut interval = Interval::clipped(centre - half, centre + half, 0.0..=1.0);
    // Exact at the ends, whatever the rounding above.
    if x == 0 {
        interval.low = 0.0;
    }
    if x >= n {
        interval.high = 1.0;
    }
    Some(interval)
}

/// Events in trials, with Wilson's interval. Without trials there is neither a rate nor an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Events.
    pub x: usize,
    /// Trials.
    pub n: usize,
    /// `x / n`.
    pub rate: Option<f64>,
    /// Wilson's interval.
    pub wilson95: Option<Interval>,
}

impl Rate {
    /// `x` events in `n` trials.
    pub fn new(x: usize, n: usize) -> Self {
        Self {
            x,
            n,
            rate: (n > 0).then(|| float(x) / float(n)),
            wilson95: wilson(x, n),
        }
    }

    /// How often `event` holds among the trials.
    pub fn of<T>(trials: impl IntoIterator<Item = T>, event: impl Fn(&T) -> bool) -> Self {
        let (x, n) = trials.into_iter().fold((0, 0), |(x, n), trial| {
            (x + usize::from(event(&trial)), n + 1)
        });
        Self::new(x, n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_close;
    use super::*;

    #[test]
    fn known_answers() {
        for (x, n, low, high) in [
            (55, 300, 0.143_645, 0.231_029), // published: 14.36–23.10 %
            (0, 300, 0.0, 0.012_643),        // published: 0–1.264 %
            (81, 263, 0.255_289, 0.366_210), // Newcombe 1998a
            (15, 148, 0.062_386, 0.160_487),
            (0, 20, 0.0, 0.161_125),
            (1, 29, 0.006_113, 0.171_755),
            (13, 16, 0.569_911, 0.934_084),
            (5, 5, 0.565_518, 1.0),
            (0, 1, 0.0, 0.793_451),
            (1, 1, 0.206_549, 1.0),
            (218, 560, 0.349_787, 0.430_293), // AgentDyn, gpt-4o
            (2, 560, 0.000_980, 0.012_927),   // AgentDyn, gpt-5-mini
        ] {
            assert_close(wilson(x, n).unwrap(), low, high, 5e-7);
        }
        assert_close(
            wilson(55, 300).unwrap(),
            0.143_645_264_098_244_55,
            0.231_028_617_677_301_18,
            1e-15,
        );
    }

    #[test]
    fn ends_are_exact_and_no_trials_give_no_interval() {
        for n in 1..400 {
            assert_eq!(wilson(0, n).unwrap().low.to_bits(), 0.0_f64.to_bits());
            assert_eq!(wilson(n, n).unwrap().high.to_bits(), 1.0_f64.to_bits());
        }
        let rate = Rate::new(0, 0);
        assert_eq!((rate.rate, rate.wilson95), (None, None));
    }

    #[test]
    fn trials_needed_for_an_upper_limit_without_events() {
        for (bound, n) in [
            (0.1, 35),
            (0.05, 73),
            (0.02, 189),
            (0.01, 381),
            (0.005, 765),
        ] {
            assert!(wilson(0, n).unwrap().high < bound);
            assert!(wilson(0, n - 1).unwrap().high >= bound);
        }
    }
}
