//! Secrets that must not leave: those that the config registers, and those that the process itself holds.

use std::sync::Arc;

use super::Settings;
use crate::layers::egress::{Register, Registered};
use crate::source::{Problem, Problems};

impl Settings {
    /// Registered secrets, and under salts of this process the credentials of upstreams and what stands for placeholders.
    ///
    /// # Errors
    /// Too many different lengths, or no random numbers.
    pub fn register(&self) -> Result<Arc<Register>, Problems> {
        let problem = |error: &dyn std::fmt::Display| {
            Problems::from(
                Problem::new(format!(
                    "the secrets that must not leave cannot be registered: {error}"
                ))
                .help("check `registered_secrets` in the config"),
            )
        };
        let mut all = self.registered.clone();
        for secret in self.held() {
            match Registered::new(secret) {
                Ok(registered) => all.push(registered),
                Err(crate::layers::egress::Unregistered::Random) => {
                    return Err(problem(&"the system gives no random numbers"));
                }
                // Too short to be told from chance: nobody promised to look for it.
                Err(_) => {}
            }
        }
        Register::new(all)
            .map(Arc::new)
            .map_err(|error| problem(&error))
    }

    /// Credentials in memory, each without the scheme before it.
    fn held(&self) -> impl Iterator<Item = &str> {
        let credentials = self
            .upstreams
            .values()
            .filter_map(|upstream| upstream.credential.as_ref());
        let bare = credentials.filter_map(|(_, value)| value.0.rsplit(' ').next());
        bare.chain(self.secrets.iter().map(|secret| &*secret.value.0))
    }
}
