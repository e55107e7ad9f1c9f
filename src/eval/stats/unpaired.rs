//! A difference of two proportions from different trials.

use super::{Interval, Rate};

/// Newcombe's hybrid score interval (Newcombe 1998b, Statistics in Medicine 17:873, method 10) for `first − second`;
/// `None` where one has no trials.
pub fn newcombe_unpaired(first: &Rate, second: &Rate) -> Option<Interval> {
    let (p1, w1) = (first.rate?, first.wilson95?);
    let (p2, w2) = (second.rate?, second.wilson95?);
    let delta = p1 - p2;
    Some(Interval::clipped(
        delta - (p1 - w1.low).hypot(w2.high - p2),
        delta + (w1.high - p1).hypot(p2 - w2.low),
        -1.0..=1.0,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::assert_close;
    use super::*;

    #[test]
    fn known_answers() {
        for (x1, n1, x2, n2, low, high) in [
            (56, 70, 48, 80, 0.052_431, 0.333_873), // Newcombe 1998b, examples (a) to (h)
            (9, 10, 3, 10, 0.170_523, 0.809_018),
            (6, 7, 2, 7, 0.058_228, 0.806_250),
            (5, 56, 0, 29, -0.038_137, 0.192_560),
            (0, 10, 0, 20, -0.161_125, 0.277_533),
            (0, 10, 0, 10, -0.277_533, 0.277_533),
            (10, 10, 0, 20, 0.679_086, 1.0),
            (10, 10, 0, 10, 0.607_509, 1.0),
            (7, 34, 1, 34, 0.018_921, 0.340_369), // Perondi 2004
            (55, 300, 0, 300, 0.141_680, 0.231_029), // the published refund trials
        ] {
            let got = newcombe_unpaired(&Rate::new(x1, n1), &Rate::new(x2, n2)).unwrap();
            assert_close(got, low, high, 5e-7);
        }
    }

    #[test]
    fn no_trials_no_interval() {
        assert_eq!(newcombe_unpaired(&Rate::new(0, 0), &Rate::new(1, 2)), None);
    }
}
