//! Bytes: strict JSON with positions, splicing, server-sent events, bounded and decoded bodies.

pub mod json;
pub mod splice;
pub mod sse;
