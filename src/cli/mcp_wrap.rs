//! `holdpoint mcp-wrap`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tracing_subscriber::filter::LevelFilter;

use super::overrides::SetArgs;
use super::serve::{self as shared, LogFormat};
use super::{Failure, user};
use crate::mcp_wrap::{self, Program, Signals, WrapError, Wrapping};
use crate::names::SessionKey;
use crate::policy::{self, Checked};
use crate::settings::{
    self, Environment, Overrides, Principals, Route, RouteProtocol, SessionSource, Settings,
};
use crate::source::{self, Problem, Problems};
use crate::{serve, verdict};

/// The config where none is given. The upstream's URL is not used.
const CONFIG: &str = "policy: mcp-wrap.yaml
upstreams: {server: {url: 'http://localhost'}}
routes: [{name: mcp, prefix: /, upstream: server, protocol: mcp}]
principal: {fixed: {tenant: local, subject: user, agent: mcp-wrap}}
timeouts: {drain: 10s}
";

/// The policy where none is given.
const POLICY: &str = include_str!("../../policies/mcp-wrap.yaml");

/// Variables that a server gets with `--clear-env`: who and where the user is, and how to find programs.
const BASIC: &[&str] = &[
    "APPDATA",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "LOGNAME",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SHELL",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "USERNAME",
    "USERPROFILE",
];

/// Variables that set Holdpoint's own config.
const OWN: &str = "HOLDPOINT__";

/// Arguments of `holdpoint mcp-wrap`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A config file, as for `serve`: its stores, tickets, principal and limits hold; it listens nowhere.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy, in place of the config's or the built-in one.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The `mcp` route of the config whose rules hold; needed where it has more than one. Without a config: the route's name.
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The ticket store, in place of the config's; made if missing. One process serves a store.
    #[arg(long, value_name = "FILE")]
    tickets: Option<PathBuf>,
    /// What ties the calls together, in place of a fresh session for each run.
    #[arg(long, value_name = "NAME", value_parser = session_name)]
    session: Option<String>,
    /// Start the server with the variables it cannot do without, and those of `--keep-env`.
    #[arg(long)]
    clear_env: bool,
    /// A variable that the server gets with `--clear-env`; may be repeated.
    #[arg(long, value_name = "NAME", requires = "clear_env")]
    keep_env: Vec<OsString>,
    #[command(flatten)]
    set: SetArgs,
    /// How log lines are written, to standard error.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// From which level on: `off`, `error`, `warn`, `info`, `debug` or `trace`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    /// The server and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Wraps the server until it ends; its exit code is the command's.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    shared::log(args.log_format, args.log_level);
    let environment = settings::environment();
    let read = read_settings(args, &environment)?;
    let mut settings = read.settings;
    let checked = read_policy(args, &settings)?;
    let route = route(args, &settings)?;
    speaks_for_one(&settings)?;
    if let Some(session) = session(args, &settings.session) {
        settings.session = session;
    }
    let settings = Arc::new(settings);
    let stores = serve::open_stores(&settings)?;
    let together = policy::check_against(&checked, &settings, &stores);
    if together.has_errors() {
        return Err(together.into());
    }
    for warnings in [&read.warnings, &checked.warnings, &together] {
        shared::warn(args.log_format, warnings);
    }
    announce(&checked, &route);
    let wrapping = Wrapping {
        policy: Arc::new(checked.policy),
        program: Program {
            command: args.command.clone(),
            environment: server_environment(args, &settings),
        },
        settings,
        stores,
        route,
    };
    let runtime =
        Runtime::new().map_err(|error| Failure::Failed(format!("no runtime: {error}")))?;
    let ended = runtime.block_on(async {
        // Before the server starts, so that it is never left alone.
        let signals =
            Signals::new().map_err(|error| Failure::Failed(format!("no signals: {error}")))?;
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        mcp_wrap::run(wrapping, input, output, signals)
            .await
            .map_err(failure)
    });
    // A thread that still waits for the client's next line must not hold the end up.
    runtime.shutdown_background();
    ended.map(ExitCode::from)
}

/// As shells have it: 127 for a command that is not there, 126 for one that cannot be run.
fn failure(error: WrapError) -> Failure {
    match error {
        WrapError::Problems(problems) => problems.into(),
        WrapError::Start(cause) => {
            let code = match cause.kind() {
                ErrorKind::NotFound => 127,
                _ => 126,
            };
            let message = format!(
                "error: the server cannot be started: {cause}\n  = help: write its command after `--`, as a shell would find it"
            );
            Failure::NotStarted(message, code)
        }
        other @ WrapError::Lost(_) => Failure::Failed(format!("error: {other}")),
    }
}

fn read_settings(args: &Args, environment: &Environment) -> Result<settings::Checked, Problems> {
    let mut overrides = Vec::new();
    if args.config.is_none() {
        overrides.push(("principal.fixed.subject".to_owned(), user::name()));
        if let Some(route) = &args.route {
            overrides.push(("routes[0].name".to_owned(), route.clone()));
        }
    }
    if let Some(path) = &args.tickets {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        overrides.push(("tickets.store".to_owned(), path.display().to_string()));
    }
    overrides.extend(args.set.overrides().0);
    let overrides = Overrides(overrides);
    match &args.config {
        Some(path) => settings::read(path, &overrides, environment),
        None => settings::parse("built-in config", CONFIG, &overrides, environment),
    }
}

fn read_policy(args: &Args, settings: &Settings) -> Result<Checked, Problems> {
    let checked = match (&args.policy, &args.config) {
        (Some(path), _) => policy::read(path)?,
        (None, Some(_)) => policy::read(&settings.policy)?,
        (None, None) => policy::check(source::parse("policies/mcp-wrap.yaml", POLICY.to_owned())?)?,
    };
    let holds = checked.policy.modes.of(verdict::LayerId::Tickets) == verdict::Mode::Enforce;
    if holds && settings.tickets.is_none() {
        return Err(Problem::new(
            "the policy enforces the layer `tickets`, and there is no ticket store",
        )
        .help("add `--tickets FILE`, and approve with `holdpoint ticket approve ID --store FILE`")
        .into());
    }
    Ok(checked)
}

fn route(args: &Args, settings: &Settings) -> Result<Route, Problems> {
    let speaks = |route: &&Route| matches!(route.protocol, RouteProtocol::Mcp(_));
    let mut routes = settings.routes.iter().filter(speaks);
    let problem = |message: String| {
        let names = settings.routes.iter().filter(speaks);
        let names: Vec<_> = names.map(|route| route.name.as_str()).collect();
        let help = match names.as_slice() {
            [] => "add one to the config: `{name: files, prefix: /files, upstream: files, protocol: mcp}`".to_owned(),
            names => format!("write `--route NAME` with one of: {}", names.join(", ")),
        };
        Problems::from(Problem::new(message).help(help))
    };
    match (&args.route, routes.next(), routes.next()) {
        (Some(name), first, second) => first
            .into_iter()
            .chain(second)
            .chain(routes)
            .find(|route| route.name.as_str() == name)
            .cloned()
            .ok_or_else(|| problem(format!("the config has no `mcp` route `{name}`"))),
        (None, Some(route), None) => Ok(route.clone()),
        (None, None, _) => Err(problem("the config has no `mcp` route".to_owned())),
        (None, Some(_), Some(_)) => Err(problem(
            "the config has more than one `mcp` route".to_owned(),
        )),
    }
}

/// Lines carry no key that could tell users apart.
fn speaks_for_one(settings: &Settings) -> Result<(), Problems> {
    match settings.principals {
        Principals::Fixed(_) => Ok(()),
        Principals::ApiKeys { .. } | Principals::Jwt(_) | Principals::Mtls(_) => Err(Problem::new(
            "a wrapped server speaks for one principal, and the config knows them by what they present",
        )
        .help("write `principal: {fixed: {subject: NAME}}` in the config given here")
        .into()),
    }
}

fn session(args: &Args, source: &SessionSource) -> Option<SessionSource> {
    let fresh = || uuid::Uuid::now_v7().simple().to_string();
    let key = match (&args.session, source) {
        (Some(name), _) => name.clone(),
        (None, SessionSource::Header(_) | SessionSource::Token) => fresh(),
        (None, SessionSource::Fixed(_)) => return None,
    };
    Some(SessionSource::Fixed(SessionKey::new(key)))
}

fn session_name(text: &str) -> Result<String, &'static str> {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > 256 || !visible {
        return Err("write 1 to 256 visible ASCII characters");
    }
    Ok(text.to_owned())
}

/// The server's environment: the client's choice, less what is Holdpoint's own. A server that knew an approver's key could
/// approve its own calls.
fn server_environment(args: &Args, settings: &Settings) -> Vec<(OsString, OsString)> {
    let upstreams = settings.upstreams.values();
    let credentials = upstreams.filter_map(|upstream| upstream.credential.as_ref());
    let secrets: Vec<_> = credentials.map(|(_, secret)| secret).collect();
    let is_own = |name: &OsString, value: &OsString| {
        let name = name.to_string_lossy().to_uppercase();
        let value = value.to_string_lossy();
        name.starts_with(OWN)
            || settings.approvers.is_secret(&value)
            || (!value.is_empty() && secrets.iter().any(|secret| secret.0.ends_with(&*value)))
    };
    let is_wanted = |name: &OsString| {
        let upper = name.to_string_lossy().to_uppercase();
        !args.clear_env
            || args.keep_env.contains(name)
            || BASIC.contains(&&*upper)
            || upper.starts_with("LC_")
    };
    std::env::vars_os()
        .filter(|(name, value)| is_wanted(name) && !is_own(name, value))
        .collect()
}

fn announce(checked: &Checked, route: &Route) {
    let policy = &checked.policy;
    let hash = policy.hash.to_string();
    tracing::info!(
        route = route.name.as_str(),
        policy = policy.name,
        hash,
        "wrapping"
    );
}
