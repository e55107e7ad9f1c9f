//! Process settings: listeners, upstreams, routes, principals, stores, limits. What is here can run; `read` makes it from a
//! file, the environment and flags.

mod asking;
mod identity;
mod model;
mod open;
mod people;
mod read;
mod register;
mod stores;
pub mod template;

pub use identity::*;
pub use model::*;
pub use open::SqlStores;
pub use people::*;
pub(crate) use read::is_local;
pub use read::{Checked, Environment, Overrides, environment, load, parse, read};
pub use stores::*;
