//! `holdpoint doctor`.

use std::path::PathBuf;

use super::overrides::SetArgs;
use super::{Failure, print};
use crate::doctor::{self, Level};
use crate::{policy, settings};

/// Arguments of `holdpoint doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The config file.
    #[arg(long, value_name = "FILE", default_value = "holdpoint.yaml")]
    config: PathBuf,
    /// Do not try to connect to the upstreams.
    #[arg(long)]
    offline: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    set: SetArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let config = settings::read(
        &args.config,
        &args.set.overrides(),
        &settings::environment(),
    )?;
    let policy = policy::read(&config.settings.policy)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("error: cannot start: {error}")))?;
    let report = runtime.block_on(doctor::examine(&config, policy, args.offline));
    if args.json {
        print(format!("{:#}", doctor::json(&report)));
    } else {
        print(doctor::text(&report));
    }
    match report.count(Level::Problem) {
        0 => Ok(()),
        1 => Err(Failure::Input("error: there is 1 problem".to_owned())),
        more => Err(Failure::Input(format!("error: there are {more} problems"))),
    }
}
