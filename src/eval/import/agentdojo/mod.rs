//! AgentDojo and its relatives: recorded runs of real models become a suite.

pub mod attribution;
pub mod env;
pub mod record;
pub mod text;
pub mod uses;
