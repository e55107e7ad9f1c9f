//! Bytes: strict JSON with positions, splicing, server-sent events, bounded and decoded bodies.

pub mod body;
pub mod budget;
pub mod json;
pub mod media;
pub mod offload;
pub mod pem;
pub mod seal;
pub mod splice;
pub mod sse;
