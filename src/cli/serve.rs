//! `holdpoint serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::Failure;
use super::overrides::SetArgs;
use super::signals::Signals;
use crate::serve::{self, Drained, Running};
use crate::settings::{self, Overrides, Settings};
use crate::{policy, source};

/// Arguments of `holdpoint serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The config file.
    #[arg(long, value_name = "FILE", default_value = "holdpoint.yaml")]
    config: PathBuf,
    /// Where agents reach the proxy, in place of `listen.agents`.
    #[arg(long, value_name = "ADDR")]
    listen_agents: Option<SocketAddr>,
    /// Where approvers reach the ticket API, in place of `listen.approvers`.
    #[arg(long, value_name = "ADDR")]
    listen_approvers: Option<SocketAddr>,
    /// Where agents reach the forward proxy, in place of `listen.forward`.
    #[arg(long, value_name = "ADDR")]
    listen_forward: Option<SocketAddr>,
    /// Where health and metrics are, in place of `listen.operations`.
    #[arg(long, value_name = "ADDR")]
    listen_operations: Option<SocketAddr>,
    /// Record whole exchanges, without their secrets, to files in this folder, in place of `record.directory`.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    #[command(flatten)]
    set: SetArgs,
    /// How log lines are written, to standard error.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// From which level on: `off`, `error`, `warn`, `info`, `debug` or `trace`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// Runs the command until SIGTERM or SIGINT.
pub fn run(args: &Args) -> Result<(), Failure> {
    log(args.log_format, args.log_level);
    let checked = settings::read(&args.config, &overrides(args), &settings::environment())?;
    let compiled = checked.policy()?;
    let settings = Arc::new(checked.settings);
    let stores = serve::open_stores(&settings)?;
    let together = policy::check_against(&compiled, &settings, &stores);
    if together.has_errors() {
        return Err(together.into());
    }
    for warnings in [&checked.warnings, &compiled.warnings, &together] {
        warn(args.log_format, warnings);
    }
    let policy = Arc::new(compiled.policy);
    let runtime =
        Runtime::new().map_err(|error| Failure::Failed(format!("no runtime: {error}")))?;
    runtime.block_on(async {
        // Before the first request, so that none is cut by a signal's default action.
        let mut signals =
            Signals::new().map_err(|error| Failure::Failed(format!("no signals: {error}")))?;
        let running = serve::start(Arc::clone(&settings), Arc::clone(&policy), stores).await?;
        announce(&settings, &policy, &running);
        signals.next().await;
        tracing::info!(drain = ?settings.timeouts.drain, "stopping: no new requests");
        tokio::select! {
            drained = running.shutdown() => match drained {
                Drained::Whole => tracing::info!("stopped: every request has ended"),
                Drained::Cut => tracing::warn!("stopped: `timeouts.drain` ran out, requests were cut"),
            },
            () = signals.next() => tracing::warn!("stopped at the second signal, requests were cut"),
        }
        Ok(())
    })
}

fn overrides(args: &Args) -> Overrides {
    let listen = [
        ("listen.agents", args.listen_agents),
        ("listen.approvers", args.listen_approvers),
        ("listen.operations", args.listen_operations),
        ("listen.forward", args.listen_forward),
    ];
    let given = listen
        .into_iter()
        .filter_map(|(key, address)| Some((key.to_owned(), address?.to_string())));
    let record = args.record.iter().map(|folder| {
        // The config's paths are relative to its own folder, those of the command line to where it was given.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        ("record.directory".to_owned(), folder.display().to_string())
    });
    Overrides(given.chain(record).chain(args.set.overrides().0).collect())
}

/// Holdpoint's own lines only, and what libraries warn of: at finer levels those show headers and bodies.
pub(super) fn log(format: LogFormat, level: LevelFilter) {
    let filter = Targets::new()
        .with_default(LevelFilter::WARN.min(level))
        .with_target("holdpoint", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    // An error means that a caller has set up logging already.
    let _ = match format {
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}

/// With their lines and carets for people, as log lines for machines.
pub(super) fn warn(format: LogFormat, warnings: &source::Problems) {
    match format {
        LogFormat::Text if warnings.0.is_empty() => {}
        LogFormat::Text => super::warn(warnings.to_string().trim_end()),
        LogFormat::Json => {
            for warning in &warnings.0 {
                tracing::warn!(help = warning.help, "{}", warning.message);
            }
        }
    }
}

fn announce(settings: &Settings, policy: &policy::Policy, running: &Running) {
    let addresses = running.addresses();
    for route in &settings.routes {
        tracing::info!(
            route = route.name.as_str(),
            prefix = route.prefix,
            upstream = route.upstream.as_str(),
            "route"
        );
    }
    for (layer, mode) in &policy.modes.0 {
        tracing::info!(layer = layer.as_str(), mode = mode.as_str(), "layer");
    }
    tracing::info!(address = %addresses.agents, "agents listener");
    if let Some(address) = addresses.forward {
        tracing::info!(%address, "forward listener");
    }
    if let Some(address) = addresses.approvers {
        tracing::info!(%address, "approvers listener");
    }
    tracing::info!(address = %addresses.operations, "operations listener");
    if let Some(record) = &settings.record {
        tracing::warn!(directory = %record.directory.display(), "exchanges are recorded");
    }
    tracing::info!(policy = policy.name, hash = %policy.hash, "ready");
}
