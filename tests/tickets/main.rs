//! Tickets from the request to the receipt, through the guard, the approver API and the command line.

mod api;
mod cli;
mod crash;
mod lifecycle;
mod limits;
mod world;
