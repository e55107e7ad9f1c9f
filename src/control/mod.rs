//! Listeners for people and machines that run holdpoint. Agents reach none of them.

pub mod health;
