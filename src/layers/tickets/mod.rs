//! The tickets layer: says which calls need a ticket, and settles them.

use std::sync::Arc;

use crate::guard::Settler;
use crate::policy::Policy;
use crate::source::{Problem, Problems};
use crate::store::Stores;

/// What settles held calls.
///
/// # Errors
/// No ticket store is configured.
pub fn settler(_policy: &Arc<Policy>, stores: &Stores) -> Result<Arc<dyn Settler>, Problems> {
    let _ = stores.tickets.as_ref();
    Err(Problem::new("the layer `tickets` needs a ticket store")
        .help("set `tickets.store` in the config")
        .into())
}
