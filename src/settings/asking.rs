//! What the proxy needs to ask an agent's user.

use url::Url;

use super::Settings;
use crate::wire::seal::KEY;

impl Settings {
    /// The approvers' page; its path ends with `/`.
    pub fn approver_page(&self) -> Option<&Url> {
        None
    }

    /// What seals that which clients carry: the first seals, every one opens. None: this process has one of its own.
    pub fn state_keys(&self) -> Vec<[u8; KEY]> {
        Vec::new()
    }
}
