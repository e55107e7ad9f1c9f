//! Settings from a file, the environment and flags: merged by `config`, then read once, every problem at its place.

mod approvers;
mod issuers;
mod jwt;
mod layers;
mod listen;
mod openapi;
mod people;
mod placed;
mod places;
mod principals;
mod registered;
mod routes;
mod schema;
mod secrets;
mod states;
mod stores;
mod tickets;
mod tools;
mod upstreams;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::secrets::Secrets;
pub(crate) use self::upstreams::is_local;
use super::{
    Approvers, FORWARD, Limits, RecordSettings, Route, RouteProtocol, SessionSource, Settings,
    TicketSettings, Timeouts,
};
use crate::guard::Venues;
use crate::policy;
use crate::source::{self, Field, Kind, Problems, Reader, Spot, Tree};

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
    /// Where the config names the policy.
    pub policy_at: Option<Spot>,
}

impl Checked {
    /// Reads the policy that the config names.
    ///
    /// # Errors
    /// Those of [`policy::read`]; one without a place stands where the config names the file.
    pub fn policy(&self) -> Result<policy::Checked, Problems> {
        policy::read(&self.settings.policy).map_err(|mut problems| {
            for problem in problems.0.iter_mut().filter(|problem| problem.at.is_none()) {
                problem.message = format!("`policy`: {}", problem.message);
                problem.at.clone_from(&self.policy_at);
            }
            problems
        })
    }
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

/// As [`read`], of a text in place of a file; paths in it are relative to the working directory.
///
/// # Errors
/// Every problem of the three at once.
pub fn parse(
    name: &str,
    text: &str,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<Checked, Problems> {
    let file = source::parse(name, text.to_owned())?;
    let tree = layers::merge(&file, overrides, environment)?;
    check(&tree, PathBuf::new(), environment)
}

fn check(tree: &Tree, folder: PathBuf, environment: &Environment) -> Result<Checked, Problems> {
    let reader = Reader::new();
    let reading = Reading {
        folder,
        secrets: Secrets(environment),
    };
    let root = reader.root(tree);
    let policy_at = root.peek("policy").map(|field| field.spot());
    let built = reading.settings(&root);
    let (settings, warnings) = reader.finish_with_warnings(built)?;
    Ok(Checked {
        settings,
        warnings,
        policy_at,
    })
}

struct Reading<'e> {
    folder: PathBuf,
    secrets: Secrets<'e>,
}

impl Reading<'_> {
    fn settings(&self, root: &Field<'_>) -> Option<Settings> {
        let mut fields = root.map()?;
        let policy = fields.required("policy").and_then(|f| self.path(&f));
        let mut principals = fields
            .required("principal")
            .and_then(|field| principals::principals(&field, root, &self.secrets, &self.folder));
        let approvers = fields.optional_or("approvers", Approvers::default(), |field| {
            self.approvers(field, principals.as_ref())
        });
        // What cannot be read is there all the same.
        let with_approvers = approvers.as_ref().is_none_or(|it| !it.is_empty());
        let listen = self.listen(&mut fields, with_approvers);
        let forward = root
            .peek("listen")
            .and_then(|listen| listen.peek("forward"))
            .is_some();
        // A forward proxy by itself needs neither.
        let alone = forward && root.peek("routes").is_none();
        let upstreams = if alone {
            fields.optional_or("upstreams", BTreeMap::new(), |field| self.upstreams(field))
        } else {
            fields
                .required("upstreams")
                .and_then(|field| self.upstreams(&field))
        };
        let routes = if alone {
            fields.optional("routes");
            Some(Vec::new())
        } else {
            fields
                .required("routes")
                .and_then(|field| routes::routes(&field, root, &self.folder))
        };
        if forward {
            reserved(root);
        }
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
        let session = people::session(&mut fields, principals.as_mut());
        let registered =
            fields.optional_or("registered_secrets", Vec::new(), registered::registered);
        let secrets = fields.optional_or("secrets", Vec::new(), |field| {
            placed::placed(field, root, &self.secrets)
        });
        let spotlight_key = fields.optional_or("spotlight_key", None, |field| {
            states::key(field, &self.secrets).map(Some)
        });
        let limits = fields.optional_or("limits", Limits::default(), limits);
        let timeouts = fields.optional_or("timeouts", Timeouts::default(), timeouts);
        let record = fields.optional_or("record", None, |field| self.record(field).map(Some));
        Some(Settings {
            listen: listen?,
            policy: policy?,
            upstreams: upstreams?,
            routes: routes?,
            stores: stores?,
            tickets: tickets?,
            approvers: approvers?,
            principals: principals?,
            secrets: secrets?,
            registered: registered?,
            session: session?,
            spotlight_key: spotlight_key?,
            limits: limits?,
            timeouts: timeouts?,
            record: record?,
        })
    }

    /// A path, relative to the config file's folder.
    fn path(&self, field: &Field<'_>) -> Option<PathBuf> {
        field.text().map(|text| self.folder.join(text))
    }

    fn record(&self, field: &Field<'_>) -> Option<RecordSettings> {
        let mut fields = field.map()?;
        let directory = fields.required("directory").and_then(|f| self.path(&f));
        let file_size = fields.optional_or("file_size", RecordSettings::FILE_SIZE, positive_size);
        Some(RecordSettings {
            directory: directory?,
            file_size: file_size?,
        })
    }

    fn tickets(&self, field: &Field<'_>) -> Option<TicketSettings> {
        let mut fields = field.map()?;
        let store = self.ticket_place(&mut fields);
        let limits = tickets::limits(&mut fields);
        let keys = fields.optional_or("state_keys", Vec::new(), |field| {
            states::state_keys(field, &self.secrets)
        });
        let issuers = fields.optional_or("issuers", Vec::new(), issuers::issuers);
        Some(TicketSettings {
            store: store?,
            limits: limits?,
            state_keys: keys?,
            issuers: issuers?,
        })
    }
}

/// Names that metrics and logs give to the forward listener.
fn reserved(root: &Field<'_>) {
    let routes = root
        .peek("routes")
        .filter(|field| matches!(field.node().kind, Kind::List(_)));
    for route in routes.as_ref().and_then(Field::list).unwrap_or_default() {
        if let Some(name) = route.peek("name")
            && name.node().as_text() == Some(FORWARD)
        {
            name.error(
                format!("with `listen.forward` no route can have the name `{FORWARD}`"),
                "give it another name: this one stands for the forward listener in metrics and logs",
            );
        }
    }
    let upstreams = root.peek("upstreams").filter(Field::is_map);
    for (key, _) in upstreams
        .as_ref()
        .and_then(Field::entries)
        .unwrap_or_default()
    {
        if key.text() == FORWARD {
            key.error(
                format!("with `listen.forward` no upstream can have the name `{FORWARD}`"),
                "give it another name: this one stands for the forward listener in metrics and logs",
            );
        }
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

fn limits(field: &Field<'_>) -> Option<Limits> {
    let default = Limits::default();
    let mut fields = field.map()?;
    let request_body = fields.optional_or("request_body", default.request_body, positive_size);
    let response_body = fields.optional_or("response_body", default.response_body, positive_size);
    let held = fields.optional_or("held", default.held, positive_size);
    let concurrency = fields.optional_or("concurrency", default.concurrency, at_least_one);
    let connections = fields.optional_or("connections", default.connections, at_least_one);
    let of_one = fields.optional_or("connections_per_address", None, |f| {
        at_least_one(f).map(|count| Some((count, f.clone())))
    });
    let memory = fields.optional_or("memory", default.memory, positive_size);
    let session = fields.optional_or(
        "provenance_session",
        default.provenance_session,
        positive_size,
    );
    let sessions = fields.optional_or(
        "provenance_sessions",
        default.provenance_sessions,
        at_least_one,
    );
    let (request_body, response_body, memory) = (request_body?, response_body?, memory?);
    let connections = connections?;
    let connections_per_address = match of_one? {
        None => default.connections_per_address.min(connections),
        Some((count, _)) if count <= connections => count,
        Some((_, field)) => {
            field.error(
                format!("no address can have more than the {connections} of `limits.connections`"),
                "lower it, or raise `limits.connections`",
            );
            return None;
        }
    };
    let largest = request_body.saturating_add(response_body);
    if memory < largest {
        field.error(
            format!(
                "`limits.memory` is less than one request and its answer may need: {largest} bytes"
            ),
            "raise it, or lower `limits.request_body` and `limits.response_body`",
        );
        return None;
    }
    Some(Limits {
        request_body,
        response_body,
        held: held?,
        concurrency: concurrency?,
        connections,
        connections_per_address,
        memory,
        provenance_session: session?,
        provenance_sessions: sessions?,
    })
}

/// How many may be at once.
fn at_least_one(field: &Field<'_>) -> Option<usize> {
    let count = field.whole::<u32>()?;
    if count == 0 {
        field.error(
            format!("with `{}: 0` nothing gets through", field.path()),
            "write at least 1",
        );
        return None;
    }
    usize::try_from(count).ok()
}

fn timeouts(field: &Field<'_>) -> Option<Timeouts> {
    let default = Timeouts::default();
    let mut fields = field.map()?;
    let connect = fields.optional_or("connect", default.connect, positive_duration);
    let request_head = fields.optional_or("request_head", default.request_head, positive_duration);
    let request_idle = fields.optional_or("request_idle", default.request_idle, positive_duration);
    let first_byte = fields.optional_or("first_byte", default.first_byte, positive_duration);
    let idle = fields.optional_or("idle", default.idle, positive_duration);
    let client_idle = fields.optional_or("client_idle", default.client_idle, positive_duration);
    let keep_alive = fields.optional_or("keep_alive", default.keep_alive, positive_duration);
    let drain = fields.optional_or("drain", default.drain, Field::duration);
    Some(Timeouts {
        connect: connect?,
        request_head: request_head?,
        request_idle: request_idle?,
        first_byte: first_byte?,
        idle: idle?,
        client_idle: client_idle?,
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
    /// Which route executes which tool: those that HTTP and MCP routes name.
    pub fn venues(&self) -> Venues {
        let mut venues = HashMap::new();
        for route in &self.routes {
            for tool in route.protocol.named_tools() {
                venues.insert(tool.clone(), route.name.clone());
            }
        }
        Venues(venues)
    }

    /// The routes on which any tool may come: MCP servers, and those that name a tool in their path (`{tool}`).
    pub fn open_routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(|route| match &route.protocol {
            RouteProtocol::HttpTools(http) => http.tools.iter().any(|tool| tool.tool.is_none()),
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
