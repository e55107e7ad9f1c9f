//! `registered_secrets`: salted hashes of secrets that must not leave.

use crate::layers::egress::Registered;
use crate::source::Field;

pub(super) fn registered(field: &Field<'_>) -> Option<Vec<Registered>> {
    let entries = field.filled_list()?;
    let read: Vec<_> = entries
        .iter()
        .map(|entry| {
            let read = Registered::read(entry.text()?);
            if read.is_err() {
                // Perhaps the secret itself: not in the message.
                entry.error(
                    format!("`{}` is not a line that `holdpoint secret hash` prints", entry.path()),
                    "run `holdpoint secret hash`, give it the secret, and write its line here; never the secret itself",
                );
            }
            read.ok()
        })
        .collect();
    read.into_iter().collect()
}
