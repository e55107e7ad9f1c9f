//! Secrets: never in the file, always named there by an environment variable.

use std::sync::Arc;

use super::Environment;
use crate::settings::Secret;
use crate::source::Field;

/// Shortest key that is taken for one, in bytes.
const SHORTEST_KEY: usize = 16;

pub(super) struct Secrets<'e>(pub(super) &'e Environment);

impl Secrets<'_> {
    /// The value of the environment variable that the field names.
    pub(super) fn get(&self, field: &Field<'_>) -> Option<Secret> {
        let name = field.text()?;
        if !is_variable(name) {
            // Perhaps the secret itself: not in the message.
            field.error(
                format!("`{}` must name an environment variable", field.path()),
                "write its name in capitals, such as `OPENAI_API_KEY`; never the secret itself",
            );
            return None;
        }
        match self.0.get(name).map(|value| value.trim()) {
            Some("") => field.error(
                format!("the environment variable `{name}` is empty"),
                "set it, or remove what needs it",
            ),
            None => field.error(
                format!("the environment variable `{name}` is not set"),
                "set it before holdpoint starts, for example from your secret store",
            ),
            Some(value) => return Some(Secret(Arc::from(value))),
        }
        None
    }

    /// The same for a key that people present: long enough not to be guessed.
    pub(super) fn key(&self, field: &Field<'_>) -> Option<Secret> {
        let secret = self.get(field)?;
        if secret.0.len() < SHORTEST_KEY {
            field.error(
                format!(
                    "the key in `{}` is shorter than {SHORTEST_KEY} characters",
                    field.node().as_text().unwrap_or_default()
                ),
                "make one with `openssl rand -hex 32`",
            );
            return None;
        }
        Some(secret)
    }
}

fn is_variable(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_uppercase() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Whether a value may be a secret in the wrong place, by its key.
pub(super) fn is_exposed(key: &str, value: &str) -> bool {
    let key = key.to_lowercase();
    if key.ends_with("_env") {
        return !is_variable(value);
    }
    let words = ["key", "secret", "token", "password", "value", "auth"];
    let login = value.contains("://") && value.contains('@');
    login || words.iter().any(|word| key.contains(word))
}
