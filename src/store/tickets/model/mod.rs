//! The words of the ticket store.

mod call;
mod mandate;
mod people;
mod state;
mod ticket;

pub use call::{Bound, Cap, Claiming, Origin, Presented, Resource, Standing, Terms};
pub use mandate::{
    Given, Grants, Issued, Mandate, MandateFilter, MandateOffer, Mandated, NewMandate, Spend,
    Stands,
};
pub use people::{Channel, Decider, Person, Voter};
pub use state::{Cause, TicketState};
pub use ticket::{Completed, Earlier, Resolved, Ticket, Verdict, Vote};
