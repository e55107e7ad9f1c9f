//! What the proxy needs to ask an agent's user.

use url::Url;

use super::Settings;
use crate::wire::seal::SealingKey;

impl Settings {
    /// Where people's browsers reach the approvers' page; `None`: nobody outside this machine does.
    pub fn approver_page(&self) -> Option<&Url> {
        self.approvers.url.as_ref()
    }

    /// What seals that which clients carry: the first seals, every one opens. None: this process has one of its own.
    pub fn state_keys(&self) -> &[SealingKey] {
        let tickets = self.tickets.as_ref();
        tickets.map_or(&[], |tickets| &tickets.state_keys)
    }
}
