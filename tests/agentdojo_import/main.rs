//! `holdpoint eval import agentdojo`: hand-written recordings in both formats, and the public ones where they are at hand.

#![cfg(test)]

mod agentdyn;
mod data;
mod fixtures;
mod odd;
mod renamed;
mod replay;
