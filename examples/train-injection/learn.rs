//! Logistic regression over hashed n-grams, one window at a time. Only sums, products, quotients and roots: the same bits on
//! every machine.

use holdpoint::layers::injection::model::{BITS, Grams, indices};

use crate::random::Random;

const TABLE: usize = 1 << BITS;

/// Passes over all windows.
const EPOCHS: usize = 3;
/// First step of a weight; the following ones shrink with what it has moved (`AdaGrad`).
const RATE: f32 = 0.1;
/// A weight is drawn towards zero by this share of its step, so that rare n-grams do not decide.
const DECAY: f32 = 2e-4;

/// N-grams of one window, and what it is.
#[derive(Clone, Debug)]
pub struct Example {
    words: Vec<u32>,
    letters: Vec<u32>,
    attack: bool,
}

impl Example {
    pub fn new(grams: &[Grams], attack: bool) -> Self {
        let [words, letters] = indices(grams).map(|of| {
            let small = of.into_iter().map(u32::try_from);
            small.filter_map(Result::ok).collect()
        });
        Self {
            words,
            letters,
            attack,
        }
    }

    pub const fn is_attack(&self) -> bool {
        self.attack
    }
}

/// One table of weights while it learns.
struct Table {
    weights: Vec<f32>,
    moved: Vec<f32>,
}

impl Table {
    fn new() -> Self {
        Self {
            weights: vec![0.0; TABLE],
            moved: vec![1e-6; TABLE],
        }
    }

    fn sum(&self, indices: &[u32]) -> f32 {
        let sum: f32 = indices
            .iter()
            .map(|index| self.weights[*index as usize])
            .sum();
        sum * share(indices)
    }

    fn step(&mut self, indices: &[u32], slope: f32) {
        let slope = slope * share(indices);
        for index in indices {
            let index = *index as usize;
            let pull = slope + DECAY * self.weights[index];
            self.moved[index] += pull * pull;
            self.weights[index] -= RATE * pull / self.moved[index].sqrt();
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a window has a few hundred n-grams"
)]
fn share(indices: &[u32]) -> f32 {
    1.0 / (indices.len().max(1) as f32).sqrt()
}

/// 1 / (1 + e^-x), the power by ten squarings: `exp` of the system's library differs between systems.
fn logistic(x: f32) -> f32 {
    let mut power = 1.0 - x.clamp(-30.0, 30.0) / 1024.0;
    for _ in 0..10 {
        power *= power;
    }
    1.0 / (1.0 + power)
}

/// About half of the n-grams, other ones each time: where a long phrase may be missing, its words and letters must be learned
/// too, and those are what another wording shares with it.
fn half(indices: &[u32], random: &mut Random, kept: &mut Vec<u32>) {
    kept.clear();
    let mut bits = 0_u64;
    for (at, index) in indices.iter().enumerate() {
        if at % 64 == 0 {
            bits = random.next();
        }
        if bits & 1 == 1 {
            kept.push(*index);
        }
        bits >>= 1;
    }
}

/// Learned weights.
pub struct Learned {
    pub words: Vec<f32>,
    pub letters: Vec<f32>,
    pub bias: f32,
}

/// Learns from windows, which are shuffled.
pub fn learn(examples: &mut [Example], random: &mut Random) -> Learned {
    let (mut words, mut letters) = (Table::new(), Table::new());
    let (mut bias, mut bias_moved) = (0.0_f32, 1.0_f32);
    let attacks = examples.iter().filter(|example| example.attack).count();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^24 windows")]
    let heavier = ((examples.len() - attacks) as f32 / attacks.max(1) as f32)
        .clamp(0.2, 5.0)
        .sqrt();
    let mut kept = [Vec::new(), Vec::new()];
    for _ in 0..EPOCHS {
        random.shuffle(examples);
        for example in examples.iter() {
            half(&example.words, random, &mut kept[0]);
            half(&example.letters, random, &mut kept[1]);
            let sum = bias + words.sum(&kept[0]) + letters.sum(&kept[1]);
            let slope = if example.attack {
                heavier * (logistic(sum) - 1.0)
            } else {
                logistic(sum)
            };
            words.step(&kept[0], slope);
            letters.step(&kept[1], slope);
            bias_moved += slope * slope;
            bias -= RATE * slope / bias_moved.sqrt();
        }
    }
    Learned {
        words: words.weights,
        letters: letters.weights,
        bias,
    }
}

/// Weights in whole numbers from -127 to 127, and what one of them is worth. The few largest are cut off, for the sake of all
/// others.
pub fn quantised(weights: &[f32]) -> (Vec<i8>, f64) {
    let mut sizes: Vec<f32> = weights
        .iter()
        .map(|weight| weight.abs())
        .filter(|size| *size > 0.0)
        .collect();
    sizes.sort_by(f32::total_cmp);
    let largest = sizes
        .get(sizes.len().saturating_sub(1 + sizes.len() / 2000))
        .copied()
        .unwrap_or(1.0);
    let unit = largest.max(1e-9) / 127.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "clamped to the range just before"
    )]
    let whole = weights
        .iter()
        .map(|weight| (weight / unit).round().clamp(-127.0, 127.0) as i8)
        .collect();
    (whole, f64::from(unit))
}
