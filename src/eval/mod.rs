//! Eval: recorded trajectories through the very pipeline that `serve` runs, graded by an independent read-only judge.
//!
//! A suite ([`suite`]) is replayed ([`replay`]) in every arm ([`arms`]): each trial has a world of its own ([`world`]), the
//! judge ([`judge`]) grades it by SQL, and the report ([`mod@report`]) turns trials into rates and differences ([`stats`]).

pub mod arms;
pub mod case;
pub mod import;
pub mod inspect;
pub mod judge;
mod keep;
pub mod record;
pub mod recorded;
pub mod replay;
pub mod report;
mod run;
pub mod snapshot;
pub mod sql;
pub mod stats;
pub mod suite;
pub mod tokens;
pub mod world;

pub use keep::Begun;
pub use run::{EvalError, Left, Out, Plan, Progress, Readings, Stop, measured, run};
