//! The layers of a guard, each with its mode.

use std::sync::Arc;

use crate::layers::{LAYERS, Layer};
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::source::{Problem, Problems};
use crate::store::Stores;
use crate::verdict::{LayerId, Mode};

/// Layers in judging order.
pub(super) type Layers = Vec<(Mode, Arc<dyn Layer>)>;

/// Every layer of the policy, by its modes. Those in shadow count in a ledger of their own.
///
/// # Errors
/// Every layer that is switched on and cannot run.
pub(super) fn layers(
    policy: &Arc<Policy>,
    stores: &Stores,
    shadow: &Arc<dyn Ledger>,
) -> Result<Layers, Problems> {
    let shadowed = Stores {
        ledger: Arc::clone(shadow),
        ..stores.clone()
    };
    let mut problems = Vec::new();
    let mut layers = Vec::new();
    for id in LayerId::ALL {
        let mode = policy.modes.of(id);
        let stores = match mode {
            Mode::Shadow => &shadowed,
            Mode::Off | Mode::Enforce => stores,
        };
        match LAYERS.iter().find(|def| def.id == id) {
            Some(def) => match (def.build)(policy, stores) {
                Ok(layer) => layers.push((mode, layer)),
                // A layer that is off need not be able to run.
                Err(_) if mode == Mode::Off => {}
                Err(found) => problems.extend(found.0),
            },
            None if mode == Mode::Off => {}
            None => problems.push(
                Problem::new(format!(
                    "the layer `{id}` is switched on but this build has none"
                ))
                .help(format!("set `layers.{id}: off`")),
            ),
        }
    }
    if problems.is_empty() {
        Ok(layers)
    } else {
        Err(Problems(problems))
    }
}
