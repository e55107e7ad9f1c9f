//! What tests over real sockets share: a scripted upstream that is exact to the byte, a raw client, a running server.

pub mod client;
pub mod rig;
pub mod upstream;
