//! Bytes: strict JSON with positions, splicing, bounded and decoded bodies.

pub mod body;
pub mod json;
pub mod media;
pub mod splice;
