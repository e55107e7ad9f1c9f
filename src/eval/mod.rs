//! Eval: recorded trajectories through the very pipeline that `serve` runs, graded by an independent read-only judge.

pub mod case;
pub mod import;
pub mod stats;
