//! `holdpoint policy`.

use std::collections::HashMap;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::overrides::SetArgs;
use super::{Failure, is_styled, policy_diff, print, warn};
use crate::clock::SystemClock;
use crate::guard::{Guard, Parts};
use crate::policy::{self, Policy};
use crate::protocols::http_tools::HttpTools;
use crate::proxy::readers;
use crate::settings::{self, RouteProtocol, Settings};
use crate::source::{Problem, Problems};
use crate::store::{Stores, tickets};
use crate::verdict::{LayerId, Mode};

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check a policy file: every problem at once, with its line and what to do. Exit code 2 if there is one.
    Check(CheckArgs),
    /// Replay recorded traffic against another policy: which calls would newly be stopped, which newly pass.
    Diff(policy_diff::Args),
    /// Print the JSON Schema of policy files, for editors.
    Schema,
}

/// Arguments of `holdpoint policy check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The policy.
    file: PathBuf,
    /// Check it against this config too: stores, look-up SQL, routes, and whether every rule can match.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also ask this machine's resolver for every host that a list names: a name that leads nowhere is a warning.
    #[arg(long)]
    resolve: bool,
    #[command(flatten)]
    set: SetArgs,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<(), Failure> {
    let args = match command {
        Command::Check(args) => args,
        Command::Diff(args) => return policy_diff::run(args),
        Command::Schema => {
            print(format!("{:#}", policy::schema()));
            return Ok(());
        }
    };
    let (line, warnings) = check(args)?;
    if !warnings.is_empty() {
        warn(warnings.render(is_styled()));
        warn("");
    }
    print(line);
    Ok(())
}

/// The line that says OK, and what to think about.
fn check(args: &CheckArgs) -> Result<(String, Problems), Problems> {
    let config = args.config.as_deref();
    let settings =
        config.map(|path| settings::read(path, &args.set.overrides(), &settings::environment()));
    let (checked, settings) = match (policy::read(&args.file), settings.transpose()) {
        (Ok(checked), Ok(settings)) => (checked, settings),
        (policy, settings) => {
            let found = [policy.err(), settings.err()];
            return Err(Problems(
                found.into_iter().flatten().flat_map(|p| p.0).collect(),
            ));
        }
    };
    let mut warnings = checked.warnings.clone();
    if args.resolve {
        warnings.extend(policy::unresolved(&checked, &resolves).0);
    }
    let mut line = ok_line(&checked.policy);
    if let (Some(config), Some(settings)) = (config, settings) {
        warnings.extend(other_policy(&args.file, &settings));
        warnings.extend(settings.warnings.0);
        line.push_str(&config_line(config, &settings.settings));
        warnings.extend(together(checked, &settings.settings)?.0);
    }
    if !warnings.is_empty() {
        line.push_str(&counted(warnings.0.len(), ", ", "warning"));
    }
    Ok((line, warnings))
}

/// Whether this machine's resolver knows an address of the name.
fn resolves(name: &str) -> bool {
    (name, 443)
        .to_socket_addrs()
        .is_ok_and(|mut addresses| addresses.next().is_some())
}

/// A warning where `serve` under this config would not run the policy that is checked.
fn other_policy(checked: &Path, config: &settings::Checked) -> Option<Problem> {
    let named = &config.settings.policy;
    let shown = named.display();
    let message = match (named.canonicalize(), checked.canonicalize()) {
        (Ok(named), Ok(checked)) if named == checked => return None,
        (Ok(_), _) => format!("the config runs another policy, `{shown}`"),
        (Err(_), _) => format!("the config's policy `{shown}` cannot be opened"),
    };
    let problem = Problem::new(message)
        .warning()
        .help("set `policy` in the config to the file that is checked; a relative path starts at the config's folder");
    Some(match &config.policy_at {
        Some(spot) => problem.at(spot.clone()),
        None => problem,
    })
}

/// Policy and settings together; the warnings.
fn together(checked: policy::Checked, settings: &Settings) -> Result<Problems, Problems> {
    let (sql, mut problems) = settings.open_sql();
    let http = match readers(settings) {
        Ok(readers) => readers,
        Err(found) => {
            problems.extend(found.0);
            HashMap::default()
        }
    };
    let stores = Stores {
        sql,
        http,
        tickets: in_memory(settings)?,
        register: settings.register()?,
        ..Stores::default()
    };
    problems.extend(policy::check_against(&checked, settings, &stores).0);
    for route in &settings.routes {
        if let RouteProtocol::HttpTools(http) = &route.protocol {
            problems.extend(HttpTools::new(http).err().into_iter().flat_map(|p| p.0));
        }
    }
    if problems.has_errors() {
        return Err(problems);
    }
    let policy = Arc::new(checked.policy);
    let parts = Parts {
        stores,
        venues: settings.venues(),
        ..Parts::default()
    };
    Guard::new(Arc::clone(&policy), &policy.modes, parts)?;
    Ok(problems)
}

/// A store like the configured one that leaves no file behind.
fn in_memory(settings: &Settings) -> Result<Option<Arc<dyn tickets::TicketStore>>, Problem> {
    let Some(configured) = &settings.tickets else {
        return Ok(None);
    };
    let memory = Path::new(":memory:");
    let limits = configured.limits.clone();
    tickets::sqlite::open(memory, SystemClock::shared(), limits)
        .map(Some)
        .map_err(|error| Problem::new(format!("no ticket store can be made: {error}")))
}

fn ok_line(policy: &Policy) -> String {
    let hash: String = policy.hash.0.chars().take(12).collect();
    let modes = [Mode::Enforce, Mode::Shadow, Mode::Off].map(|mode| {
        let of = |layer: &LayerId| policy.modes.of(*layer) == mode;
        let layers: Vec<_> = LayerId::ALL.into_iter().filter(of).collect();
        let names: Vec<_> = layers.iter().map(|layer| layer.as_str()).collect();
        (mode, names)
    });
    let modes: Vec<_> = modes
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(mode, names)| format!("{}: {}", mode.as_str(), names.join(" ")))
        .collect();
    format!(
        "OK {} {hash}{}{}{}; {}",
        policy.name,
        counted(policy.tools.len(), ", ", "tool rule"),
        counted(policy.lists.len(), ", ", "list"),
        counted(policy.lookups.len(), ", ", "look-up"),
        modes.join("; "),
    )
}

fn config_line(path: &Path, settings: &Settings) -> String {
    format!(
        "; with {}{}{}{}",
        path.display(),
        counted(settings.routes.len(), ": ", "route"),
        counted(settings.upstreams.len(), ", ", "upstream"),
        counted(settings.stores.len(), ", ", "store"),
    )
}

fn counted(count: usize, before: &str, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{before}{count} {what}{plural}")
}
