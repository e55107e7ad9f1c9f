//! Keys of what clients carry for the proxy.

use super::secrets::Secrets;
use crate::source::Field;
use crate::wire::seal::SealingKey;

/// One that seals, and the one before it.
const GENERATIONS: usize = 2;

/// `{value_env: NAME}`: 32 bytes.
pub(super) fn key(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<SealingKey> {
    let mut fields = field.map()?;
    let source = fields.required("value_env")?;
    let secret = secrets.get(&source)?;
    let key = SealingKey::read(&secret.0);
    if key.is_none() {
        source.error(
            "the variable does not hold a key of 32 bytes".to_owned(),
            "make one with `openssl rand -hex 32`",
        );
    }
    key
}

pub(super) fn state_keys(field: &Field<'_>, secrets: &Secrets<'_>) -> Option<Vec<SealingKey>> {
    let elements = field.list()?;
    if elements.is_empty() || elements.len() > GENERATIONS {
        field.error(
            format!("`{}` must have one key or two", field.path()),
            "write the new key first and the one before it second",
        );
        return None;
    }
    let keys = elements.iter().map(|element| key(element, secrets));
    // Every problem, not only the first.
    let keys: Vec<_> = keys.collect();
    keys.into_iter().collect()
}
