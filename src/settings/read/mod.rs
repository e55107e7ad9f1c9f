//! Settings from a file, the environment and flags: merged by `config`, then read once, every problem at its place.

mod layers;
mod openapi;
mod people;
mod routes;
mod secrets;
mod tools;
mod upstreams;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::secrets::Secrets;
use super::{
    Limits, Listen, Route, RouteProtocol, SessionSource, Settings, SqlStore, TicketSettings,
    Timeouts,
};
use crate::guard::Venues;
use crate::names::StoreName;
use crate::source::{self, Field, Fields, Problems, Reader, Tree};

/// How long a receipt is given back where the config does not say.
const REPLAY_WINDOW: Duration = Duration::from_hours(24);

/// Values of the command line, stronger than environment and file. Keys are paths such as `listen.agents`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(pub Vec<(String, String)>);

/// The environment as it was handed in, so that tests can set it.
pub type Environment = BTreeMap<String, String>;

/// Settings with what a check needs to point at their places.
#[derive(Debug)]
pub struct Checked {
    /// The settings.
    pub settings: Settings,
    /// What runs, but perhaps not as meant.
    pub warnings: Problems,
}

/// Reads a config file with the process's environment: file < `HOLDPOINT__` variables < flags.
///
/// # Errors
/// Every problem of the three at once.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Settings, Problems> {
    read(path, overrides, &environment()).map(|checked| checked.settings)
}

/// The process's environment; variables that are not UTF-8 are left out.
pub fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// As [`load`], with the environment handed in and warnings kept.
///
/// # Errors
/// Every problem of the three at once.
pub fn read(
    path: &Path,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<Checked, Problems> {
    let file = source::read(path)?.masked(&secrets::is_exposed);
    let tree = layers::merge(&file, overrides, environment)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    check(&tree, folder, environment)
}

fn check(tree: &Tree, folder: PathBuf, environment: &Environment) -> Result<Checked, Problems> {
    let reader = Reader::new();
    let reading = Reading {
        folder,
        secrets: Secrets(environment),
    };
    let built = reading.settings(&reader.root(tree));
    let (settings, warnings) = reader.finish_with_warnings(built)?;
    Ok(Checked { settings, warnings })
}

struct Reading<'e> {
    folder: PathBuf,
    secrets: Secrets<'e>,
}

impl Reading<'_> {
    fn settings(&self, root: &Field<'_>) -> Option<Settings> {
        let mut fields = root.map()?;
        let policy = fields.required("policy").and_then(|f| self.path(&f));
        let approvers = fields.optional_or("approvers", Vec::new(), |field| {
            people::approvers(field, &self.secrets)
        });
        let listen = listen(
            &mut fields,
            approvers.as_ref().is_some_and(|a| !a.is_empty()),
        );
        let upstreams = fields
            .required("upstreams")
            .and_then(|field| upstreams::upstreams(&field, &self.secrets));
        let routes = fields
            .required("routes")
            .and_then(|field| routes::routes(&field, root, &self.folder));
        let stores = fields.optional_or("stores", BTreeMap::new(), |field| self.stores(field));
        let tickets = fields.optional("tickets");
        let tickets = match &tickets {
            Some(field) => self.tickets(field).map(Some),
            None => Some(None),
        };
        if let (Some(None), Some(field)) = (&tickets, root.peek("approvers")) {
            field.error(
                "there are approvers and no ticket store: nothing could be approved",
                "add `tickets: {store: tickets.db}`, or remove `approvers`",
            );
        }
        let principals = fields
            .required("principal")
            .and_then(|field| people::principals(&field, &self.secrets));
        let session = people::session(&mut fields, principals.as_ref());
        let limits = fields.optional_or("limits", Limits::default(), limits);
        let timeouts = fields.optional_or("timeouts", Timeouts::default(), timeouts);
        Some(Settings {
            listen: listen?,
            policy: policy?,
            upstreams: upstreams?,
            routes: routes?,
            stores: stores?,
            tickets: tickets?,
            approvers: approvers?,
            principals: principals?,
            session: session?,
            limits: limits?,
            timeouts: timeouts?,
        })
    }

    /// A path, relative to the config file's folder.
    fn path(&self, field: &Field<'_>) -> Option<PathBuf> {
        field.text().map(|text| self.folder.join(text))
    }

    fn stores(&self, field: &Field<'_>) -> Option<BTreeMap<StoreName, SqlStore>> {
        let mut stores = BTreeMap::new();
        let mut whole = true;
        for (key, value) in field.entries()? {
            let name = key_name(&key);
            let store = value.map().and_then(|mut fields| {
                let file = fields.required("sqlite")?;
                self.path(&file).map(SqlStore::Sqlite)
            });
            match (name, store) {
                (Some(name), Some(store)) => drop(stores.insert(name.into(), store)),
                _ => whole = false,
            }
        }
        whole.then_some(stores)
    }

    fn tickets(&self, field: &Field<'_>) -> Option<TicketSettings> {
        let mut fields = field.map()?;
        let store = fields.required("store").and_then(|f| self.path(&f));
        let window = fields.optional_or("replay_window", REPLAY_WINDOW, positive_duration);
        Some(TicketSettings {
            store: store?,
            replay_window: window?,
        })
    }
}

/// A name that an environment variable can spell: lower case.
fn name<'r>(field: &Field<'r>) -> Option<&'r str> {
    let name = field.name()?;
    if is_lower(name) {
        return Some(name);
    }
    field.error(format!("`{name}` is not in lower case"), LOWER_HELP);
    None
}

fn key_name<'r>(key: &source::Key<'r>) -> Option<&'r str> {
    let name = key.name()?;
    if is_lower(name) {
        return Some(name);
    }
    key.error(format!("`{name}` is not in lower case"), LOWER_HELP);
    None
}

const LOWER_HELP: &str =
    "names of a config are in lower case, so that HOLDPOINT__ variables can spell them";

fn is_lower(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_uppercase())
}

fn listen(fields: &mut Fields<'_>, approvers: bool) -> Option<Listen> {
    let default = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let field = fields.optional("listen");
    let mut inner = match &field {
        Some(field) => Some(field.map()?),
        None => None,
    };
    let mut read = |key| inner.as_mut().and_then(|fields| fields.optional(key));
    let (agents, with_approvers, operations) =
        (read("agents"), read("approvers"), read("operations"));
    if let (Some(field), false) = (&with_approvers, approvers) {
        field.error(
            "there is a listener for approvers and nobody who may use it",
            "add `approvers`, or remove `listen.approvers`",
        );
    }
    let fields = [agents, with_approvers, operations];
    let [agents, for_approvers, operations] = &fields;
    let or = |field: &Option<Field<'_>>, port| match field {
        Some(field) => address(field),
        None => Some(default(port)),
    };
    let agents = or(agents, 8080);
    let for_approvers = match (for_approvers, approvers) {
        (None, false) => Some(None),
        (field, _) => or(field, 8081).map(Some),
    };
    let operations = or(operations, 9090);
    let listen = Listen {
        agents: agents?,
        approvers: for_approvers?,
        operations: operations?,
    };
    distinct(&listen, &fields)
}

fn address(field: &Field<'_>) -> Option<SocketAddr> {
    let text = field.text()?;
    let address = text.parse().ok();
    if address.is_none() {
        let port = text.trim_start_matches(':');
        let help = match (text.rsplit_once(':'), port.parse::<u16>()) {
            (_, Ok(port)) => format!("write an address too: `127.0.0.1:{port}`"),
            (Some(("localhost", port)), _) => format!("write `127.0.0.1:{port}`"),
            _ => "write ADDRESS:PORT, such as `127.0.0.1:8080` or `[::]:8080`".to_owned(),
        };
        field.error(format!("`{text}` is not an address to listen on"), help);
    }
    address
}

/// Agents must not reach approvers, nor anybody take one for the other.
fn distinct(listen: &Listen, fields: &[Option<Field<'_>>; 3]) -> Option<Listen> {
    let [agents, approvers, operations] = fields;
    let places = [
        (Some(listen.agents), "agents", agents),
        (listen.approvers, "approvers", approvers),
        (Some(listen.operations), "operations", operations),
    ];
    let mut fine = true;
    for (index, (one, name, field)) in places.iter().enumerate() {
        for (other, other_name, other_field) in places.iter().skip(index + 1) {
            let (Some(one), Some(other)) = (one, other) else {
                continue;
            };
            let same_ip =
                one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
            if one.port() == 0 || one.port() != other.port() || !same_ip {
                continue;
            }
            fine = false;
            let message = format!(
                "`listen.{name}` and `listen.{other_name}` share port {}",
                one.port()
            );
            if let Some(at) = other_field.as_ref().or(field.as_ref()) {
                at.error(message, "give each listener a port of its own");
            }
        }
    }
    fine.then(|| listen.clone())
}

fn limits(field: &Field<'_>) -> Option<Limits> {
    let default = Limits::default();
    let mut fields = field.map()?;
    let request_body = fields.optional_or("request_body", default.request_body, positive_size);
    let response_body = fields.optional_or("response_body", default.response_body, positive_size);
    let held = fields.optional_or("held", default.held, positive_size);
    let concurrency = fields.optional_or("concurrency", default.concurrency, |field| {
        let count = field.whole::<u32>()?;
        if count == 0 {
            field.error(
                "with `concurrency: 0` no request gets through",
                "write at least 1",
            );
            return None;
        }
        usize::try_from(count).ok()
    });
    Some(Limits {
        request_body: request_body?,
        response_body: response_body?,
        held: held?,
        concurrency: concurrency?,
    })
}

fn timeouts(field: &Field<'_>) -> Option<Timeouts> {
    let default = Timeouts::default();
    let mut fields = field.map()?;
    let connect = fields.optional_or("connect", default.connect, positive_duration);
    let first_byte = fields.optional_or("first_byte", default.first_byte, positive_duration);
    let idle = fields.optional_or("idle", default.idle, positive_duration);
    let keep_alive = fields.optional_or("keep_alive", default.keep_alive, positive_duration);
    let drain = fields.optional_or("drain", default.drain, Field::duration);
    Some(Timeouts {
        connect: connect?,
        first_byte: first_byte?,
        idle: idle?,
        keep_alive: keep_alive?,
        drain: drain?,
    })
}

fn positive_size(field: &Field<'_>) -> Option<usize> {
    let size = field.size()?;
    if size == 0 {
        field.error(
            format!("`{}` must be more than 0", field.path()),
            "write a size such as `1MiB`",
        );
        return None;
    }
    Some(size)
}

fn positive_duration(field: &Field<'_>) -> Option<Duration> {
    let duration = field.duration()?;
    if duration.is_zero() {
        field.error(
            format!("`{}` must be more than 0", field.path()),
            "write a duration such as `30s`",
        );
        return None;
    }
    Some(duration)
}

impl Settings {
    /// Which route executes which tool: those that HTTP routes map by name.
    pub fn venues(&self) -> Venues {
        let mut venues = HashMap::new();
        for route in &self.routes {
            if let RouteProtocol::HttpTools(tools) = &route.protocol {
                for tool in tools.iter().filter_map(|tool| tool.tool.as_ref()) {
                    venues.insert(tool.clone(), route.name.clone());
                }
            }
        }
        Venues(venues)
    }

    /// The routes on which any tool may come: MCP servers, and those that name a tool in their path (`{tool}`).
    pub fn open_routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(|route| match &route.protocol {
            RouteProtocol::HttpTools(tools) => tools.iter().any(|tool| tool.tool.is_none()),
            RouteProtocol::Mcp(_) => true,
            RouteProtocol::OpenAiChat(_) | RouteProtocol::AnthropicMessages(_) => false,
        })
    }
}

/// The header that names a session where the config does not say.
const SESSION_HEADER: http::HeaderName = http::HeaderName::from_static("holdpoint-session");

/// The default source of sessions.
const fn default_session() -> SessionSource {
    SessionSource::Header(SESSION_HEADER)
}
