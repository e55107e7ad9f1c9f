//! What an operator wrote, and what of it can run.

mod against;
mod compile;
mod model;
mod names;
mod schema;
mod selector;
mod unguarded;
pub(crate) mod usage;

pub use against::check_against;
pub use compile::{Checked, check, load, parse, read};
pub use model::*;
pub use names::unresolved;
pub use schema::schema;
pub use selector::{At, Branch, Selector, Tree, leading};
