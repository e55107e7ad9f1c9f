//! Importers: public recordings become suites that `eval run` executes.

pub mod agentdojo;
pub mod tau2;
