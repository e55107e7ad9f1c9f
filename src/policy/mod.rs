//! What an operator wrote, and what of it can run.

mod model;
mod selector;

pub use model::*;
pub use selector::Selector;
