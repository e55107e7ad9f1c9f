//! AgentDojo and its relatives: recorded runs of real models become a suite.

pub mod record;
