//! Two configurations on the same trials.

use serde::Serialize;

use super::{Interval, Rate, float};

/// A paired 2×2 table: how often the event came under A and under B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Under both.
    pub a: usize,
    /// Under A only.
    pub b: usize,
    /// Under B only.
    pub c: usize,
    /// Under neither.
    pub d: usize,
}

impl Table {
    /// The table of pairs (event under A, event under B).
    pub fn of(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut table = Self::default();
        for pair in pairs {
            match pair {
                (true, true) => table.a += 1,
                (true, false) => table.b += 1,
                (false, true) => table.c += 1,
                (false, false) => table.d += 1,
            }
        }
        table
    }

    /// Trials.
    pub const fn n(&self) -> usize {
        self.a + self.b + self.c + self.d
    }

    /// McNemar's exact conditional test, two-sided (McNemar 1947; Fagerland, Lydersen & Laake 2013): the p-value.
    pub fn mcnemar_exact(&self) -> f64 {
        let (m, k) = (self.b + self.c, self.b.min(self.c));
        let tail: f64 = (0..=k).map(|i| binomial_half(m, i)).sum();
        (2.0 * tail).min(1.0)
    }

    /// The mid-p variant: less conservative, without a guaranteed level.
    pub fn mcnemar_mid_p(&self) -> f64 {
        let (m, k) = (self.b + self.c, self.b.min(self.c));
        if m == 0 {
            return 1.0;
        }
        if self.b == self.c {
            return 1.0 - binomial_half(m, k);
        }
        self.mcnemar_exact() - binomial_half(m, k)
    }

    /// Newcombe's interval for p(A) − p(B) (Newcombe 1998c, Statistics in Medicine 17:2635, method 10: square and add,
    /// φ corrected for continuity); `None` without trials.
    pub fn newcombe(&self) -> Option<Interval> {
        let n = self.n();
        let (first, second) = (Rate::new(self.a + self.b, n), Rate::new(self.a + self.c, n));
        let (p1, w1) = (first.rate?, first.wilson95?);
        let (p2, w2) = (second.rate?, second.wilson95?);
        let (phi, delta) = (self.phi(), p1 - p2);
        let reach = |x: f64, y: f64| (x * x - 2.0 * phi * x * y + y * y).max(0.0).sqrt();
        Some(Interval::clipped(
            delta - reach(p1 - w1.low, w2.high - p2),
            delta + reach(p2 - w2.low, w1.high - p1),
            -1.0..=1.0,
        ))
    }

    fn phi(&self) -> f64 {
        let [a, b, c, d] = [self.a, self.b, self.c, self.d].map(float);
        let margins = (a + b) * (c + d) * (a + c) * (b + d);
        if margins == 0.0 {
            return 0.0;
        }
        let (cross, half) = (a * d - b * c, float(self.n()) / 2.0);
        let corrected = if cross > half {
            cross - half
        } else {
            cross.min(0.0)
        };
        corrected / margins.sqrt()
    }
}

/// Probability of `k` heads in `m` throws of a fair coin. Exact while the coefficient is below 2^53; beyond 1000 throws by
/// logarithms, exact to about 1e-12 relative for `m` up to 10^4.
fn binomial_half(m: usize, k: usize) -> f64 {
    let ratio = |i: usize| (float(m - i), float(i + 1));
    match i32::try_from(m) {
        Ok(throws) if throws <= 1000 => {
            let ways = (0..k).map(ratio).fold(1.0, |ways, (n, d)| ways * n / d);
            ways * 0.5_f64.powi(throws)
        }
        _ => {
            let logs: f64 = (0..k).map(ratio).map(|(n, d)| (n / d).ln()).sum();
            (logs - float(m) * std::f64::consts::LN_2).exp()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_close;
    use super::*;

    const fn table([a, b, c, d]: [usize; 4]) -> Table {
        Table { a, b, c, d }
    }

    #[test]
    fn mcnemar_known_answers() {
        for (b, c, exact, mid) in [
            (1, 7, 0.070_312_5, 0.039_062_5),  // Bentur 2009
            (6, 16, 0.052_479, 0.034_690),     // Cavo 2012
            (12, 2, 0.012_939_5, 0.007_385_3), // Armitage & Berry
            (5, 0, 0.062_5, 0.031_25),
            (6, 0, 0.031_25, 0.015_625),
            (10, 0, 0.001_953_12, 0.000_976_56),
            (3, 3, 1.0, 0.687_5),
            (0, 0, 1.0, 1.0),
        ] {
            for table in [table([4, b, c, 9]), table([4, c, b, 9])] {
                assert!((table.mcnemar_exact() - exact).abs() < 5e-7, "{b}, {c}");
                assert!((table.mcnemar_mid_p() - mid).abs() < 5e-7, "{b}, {c}");
            }
        }
        let p = table([0, 55, 0, 245]).mcnemar_exact();
        assert!((p / 5.551_115_123_125_783e-17 - 1.0).abs() < 1e-15);
        // Many discordant pairs neither overflow nor leave 0..=1.
        let p = table([0, 2000, 2100, 0]).mcnemar_exact();
        assert!((0.11..0.13).contains(&p), "{p}");
    }

    #[test]
    fn newcombe_known_answers() {
        for (cells, low, high, tolerance) in [
            ([20, 12, 2, 16], 0.056_156, 0.329_207, 5e-7), // Newcombe 1998c
            ([1, 1, 7, 12], -0.506_920, -0.025_559, 5e-7), // Bentur 2009
            ([59, 6, 16, 80], -0.118_621, -0.004_625, 5e-7), // Cavo 2012
            ([8, 3, 1, 2], -0.1574, 0.4136, 5e-5),
            ([1, 0, 0, 1], -0.573_419, 0.573_419, 5e-7),
            ([0, 55, 0, 245], 0.141_680, 0.231_029, 5e-7),
            ([10, 45, 0, 245], 0.111_092, 0.194_416, 5e-7),
            ([40, 20, 5, 35], 0.053_491, 0.241_075, 5e-7),
            ([36, 12, 2, 0], 0.056_930, 0.340_428, 5e-7), // φ below zero
            ([0, 10, 0, 0], 0.607_509, 1.0, 5e-7),
            ([10, 0, 0, 10], -0.089_757, 0.089_757, 5e-7),
            ([0, 0, 0, 300], -0.012_643, 0.012_643, 5e-7),
            ([0, 3, 0, 297], -0.004_259, 0.028_983, 5e-7),
        ] {
            assert_close(table(cells).newcombe().unwrap(), low, high, tolerance);
        }
    }

    #[test]
    fn phi_is_corrected_for_continuity() {
        for (cells, phi) in [
            ([10, 45, 0, 245], 0.367_929),
            ([40, 20, 5, 35], 0.512_881),
            ([36, 12, 2, 0], -0.114_708),
            ([10, 0, 0, 10], 0.9),
            ([0, 55, 0, 245], 0.0),
        ] {
            assert!((table(cells).phi() - phi).abs() < 5e-7, "{cells:?}");
        }
    }

    #[test]
    fn no_trials_no_interval() {
        assert_eq!(Table::default().newcombe(), None);
        assert_eq!(
            Table::of([(true, false), (true, true)]),
            table([1, 1, 0, 0])
        );
    }
}
