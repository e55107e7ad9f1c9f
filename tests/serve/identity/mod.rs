//! Who calls: tokens of an issuer with a real server of its keys, keys of agents, client certificates, and what a policy asks of
//! them on every kind of route.

mod certificates;
mod forged;
mod issuer;
mod keys;
mod rotation;
mod rules;
mod secrets;
