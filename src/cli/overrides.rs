//! `--set KEY=VALUE`: the strongest layer of settings.

use crate::settings::Overrides;

/// Values that beat environment and file.
#[derive(Debug, Default, clap::Args)]
pub struct SetArgs {
    /// Set one value of the config, such as `listen.agents=0.0.0.0:8080`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pairs: Vec<(String, String)>,
}

impl SetArgs {
    /// As settings take them.
    pub fn overrides(&self) -> Overrides {
        Overrides(self.pairs.clone())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write KEY=VALUE, such as limits.held=2MiB")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}
