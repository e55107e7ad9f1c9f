//! Holdpoint: an inline guardrail proxy for AI agents with a built-in eval mode.
//!
//! `serve` and `eval` drive one value, [`guard::Guard`], through one tower service, [`proxy`]. The way of a request:
//! a protocol adapter ([`protocols`]) finds the items ([`item`]) in a message, the guard asks the layers ([`layers`])
//! and settles tickets ([`store::tickets`]), the adapter writes the verdicts ([`verdict`]) back. What an operator writes
//! is read by [`source`] and checked into [`policy`] and [`settings`].

pub mod acquainted;
pub mod approvals;
pub mod cli;
pub mod clock;
pub mod control;
pub mod coverage;
pub mod demo;
pub mod doctor;
pub mod eval;
pub mod forward;
mod generations;
pub mod guard;
pub mod identity;
pub mod item;
pub mod layers;
pub mod ledger;
pub mod mcp_wrap;
pub mod metrics;
pub mod names;
pub mod policy;
pub mod principal;
pub mod protocols;
pub mod provenance;
pub mod proxy;
pub mod record;
pub mod scan;
pub mod serve;
pub mod settings;
pub mod source;
pub mod store;
pub mod unicode;
pub mod unscanned;
pub mod verdict;
pub mod wire;
