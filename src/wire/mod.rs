//! Bytes: strict JSON with positions, splicing, bounded and decoded bodies.

pub mod json;
pub mod splice;
