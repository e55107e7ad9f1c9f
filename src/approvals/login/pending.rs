//! What a log-in at the identity provider needs to remember, sealed into a cookie: nothing is kept here for strangers, so
//! strangers can fill nothing.

use serde::{Deserialize, Serialize};

use crate::wire::seal::Sealer;

/// What the notes are for.
const PURPOSE: &[u8] = b"holdpoint-login-v1";

/// One log-in on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub state: String,
    pub nonce: String,
    pub verifier: String,
    pub next: String,
    pub fresh: bool,
    /// Seconds since 1970.
    pub until: i64,
}

impl Pending {
    pub(super) fn close(&self, sealer: &Sealer) -> Option<String> {
        sealer.seal(PURPOSE, &serde_json::to_vec(self).ok()?)
    }

    pub(super) fn open(sealer: &Sealer, text: &str) -> Option<Self> {
        serde_json::from_slice(&sealer.open(PURPOSE, text)?).ok()
    }
}
