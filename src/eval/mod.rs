//! Eval: recorded trajectories through the very pipeline that `serve` runs, graded by an independent read-only judge.

pub mod arms;
pub mod case;
pub mod import;
pub mod judge;
pub mod replay;
pub mod snapshot;
pub mod sql;
pub mod stats;
pub mod suite;
pub mod world;
