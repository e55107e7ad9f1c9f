//! Tools of an HTTP route: those that the config writes out, and those of an API's own description.

use std::collections::HashMap;
use std::path::Path;

use http::{HeaderName, Method};

use super::openapi::{self, Described, Operation};
use super::routes::Seen;
use crate::names::ToolName;
use crate::settings::template::{is_plain, positional};
use crate::settings::{BodyKind, Closed, HttpRoute, HttpTool};
use crate::source::{Field, Fields, Spot};

pub(super) const METHODS: [(&str, Method); 7] = [
    ("GET", Method::GET),
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("PATCH", Method::PATCH),
    ("DELETE", Method::DELETE),
    ("HEAD", Method::HEAD),
    ("OPTIONS", Method::OPTIONS),
];

const BODIES: [(&str, BodyKind); 3] = [
    (BodyKind::Json.as_str(), BodyKind::Json),
    (BodyKind::Form.as_str(), BodyKind::Form),
    (BodyKind::Multipart.as_str(), BodyKind::Multipart),
];

/// Headers that no argument can come in: the proxy sets, undoes or drops them, or they frame the message.
const NO_ARGUMENT: [&str; 29] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "idempotency-key",
    "if-range",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// The route that tools are on.
#[derive(Clone, Copy)]
pub(super) struct Place<'r> {
    pub(super) route: &'r str,
    pub(super) upstream: &'r str,
    /// Of the config file: what it names is relative to it.
    pub(super) folder: &'r Path,
    /// Headers that carry a secret of the agent or of the proxy, in lower case.
    pub(super) secrets: &'r [String],
}

impl Place<'_> {
    /// Whether a header reaches the upstream as it came.
    pub(super) fn may_be_argument(self, name: &str) -> bool {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let of_family = ["holdpoint-", "x-forwarded-"]
            .iter()
            .any(|family| name.starts_with(family));
        !of_family && !NO_ARGUMENT.contains(&name.as_str()) && !self.secrets.contains(&name)
    }
}

/// Paths that are taken already, exactly and by a backend that ignores case.
#[derive(Default)]
struct Paths(HashMap<(Method, bool), matchit::Router<String>>);

impl Paths {
    /// The earlier template that takes the same paths, or what is wrong with this one.
    fn insert(&mut self, method: &Method, path: &str) -> Result<(), Fault> {
        for lower in [false, true] {
            let router = self.0.entry((method.clone(), lower)).or_default();
            let shape = positional(path, lower);
            match router.insert(&shape, path.to_owned()) {
                Ok(()) => {}
                Err(matchit::InsertError::Conflict { .. }) => {
                    let with = router.at(&shape).map(|found| found.value.clone());
                    return Err(Fault::Taken(with.unwrap_or_default(), lower));
                }
                Err(fault) => return Err(Fault::Bad(fault.to_string())),
            }
        }
        Ok(())
    }
}

enum Fault {
    Taken(String, bool),
    Bad(String),
}

impl Fault {
    fn words(self, path: &str) -> (String, &'static str) {
        match self {
            Self::Taken(with, lower) => {
                let case = if lower {
                    " to a backend that ignores case"
                } else {
                    ""
                };
                (
                    format!("`{path}` and `{with}` take the same paths{case}"),
                    "keep one of them, or make their fixed segments differ",
                )
            }
            Self::Bad(fault) => (format!("`{path}` is not a path template: {fault}"), HELP),
        }
    }
}

const HELP: &str =
    "write a path such as `/orders/{order_id}/refund`; a parameter is a whole segment";

/// All tools of a route. An entry of `tools` takes the place of the operation that has its name, or its method and path.
pub(super) fn tools(
    fields: &mut Fields<'_>,
    place: Place<'_>,
    seen: &mut Seen,
) -> Option<HttpRoute> {
    let described = fields.optional("openapi");
    let written = if described.is_some() {
        fields.optional("tools")
    } else {
        Some(fields.required("tools")?)
    };
    let mut paths = Paths::default();
    let own = match &written {
        Some(field) => written_out(field, place, seen, &mut paths),
        None => Some(Vec::new()),
    };
    let operations = match &described {
        Some(field) => openapi::operations(field, place),
        None => Some(Described::default()),
    };
    let (mut all, operations) = (own?, operations?);
    let Described {
        operations,
        mut closed,
    } = operations;
    let replaced = |operation: &HttpTool| {
        all.iter().any(|own: &HttpTool| {
            own.tool.is_some() && own.tool == operation.tool
                || own.method == operation.method
                    && positional(&own.path, false) == positional(&operation.path, false)
        })
    };
    let (gone, kept): (Vec<_>, Vec<_>) = operations
        .into_iter()
        .partition(|operation| replaced(&operation.tool));
    // The backend has it still.
    closed.extend(gone.into_iter().map(|operation| Closed {
        method: operation.tool.method,
        path: operation.tool.path,
    }));
    let mut whole = true;
    for operation in kept {
        whole &= fits(&operation, described.as_ref()?, place, seen, &mut paths);
        all.push(operation.tool);
    }
    whole.then_some(HttpRoute { tools: all, closed })
}

/// Whether an operation of a description fits beside the tools before it; says why not.
fn fits(
    operation: &Operation,
    field: &Field<'_>,
    place: Place<'_>,
    seen: &mut Seen,
    paths: &mut Paths,
) -> bool {
    let Operation { tool, spot } = operation;
    let error = |message: String, help: &str| {
        field.report(
            field
                .problem(message)
                .at(spot.clone())
                .help(help.to_owned()),
        );
        false
    };
    if let Err(fault) = paths.insert(&tool.method, &tool.path) {
        let (message, help) = fault.words(&tool.path);
        return error(message, help);
    }
    match &tool.tool {
        Some(name) => match taken(name, place.route, seen, spot) {
            Some((route, _)) => error(
                format!("the tool `{name}` is on two routes: the other is `{route}`"),
                "map a tool on one route only, or name it in `except`",
            ),
            None => true,
        },
        None => true,
    }
}

fn written_out(
    field: &Field<'_>,
    place: Place<'_>,
    seen: &mut Seen,
    paths: &mut Paths,
) -> Option<Vec<HttpTool>> {
    let mut tools = Vec::new();
    let mut whole = true;
    for entry in field.filled_list()? {
        match tool(&entry, place, seen, paths) {
            Some(tool) => tools.push(tool),
            None => whole = false,
        }
    }
    whole.then_some(tools)
}

fn tool(
    field: &Field<'_>,
    place: Place<'_>,
    seen: &mut Seen,
    paths: &mut Paths,
) -> Option<HttpTool> {
    let mut fields = field.map()?;
    let tool_field = fields.optional("tool");
    let tool = match &tool_field {
        Some(field) => tool_name(field, place.route, seen).map(Some),
        None => Some(None),
    };
    let method = fields.required("method").and_then(|f| f.choice(&METHODS));
    let path_field = fields.required("path");
    let path = path_field
        .as_ref()
        .and_then(|field| template(field, method.as_ref(), paths));
    let headers = fields.optional_or("headers", Vec::new(), |field| headers(field, place));
    let bodies = fields.optional_or("body", BodyKind::ALL.to_vec(), |field| {
        let kinds = field.one_or_more()?;
        kinds.iter().map(|kind| kind.choice(&BODIES)).collect()
    });
    let (tool, method, path) = (tool?, method?, path?);
    let by_path = path.split('/').any(|segment| segment == "{tool}");
    let fault = match (&tool, by_path) {
        (None, false) => (
            "nothing says which tool this is",
            "add `tool: NAME`, or name it in the path by a segment `{tool}`",
        ),
        (Some(_), true) => (
            "the tool is named twice: by `tool` and by `{tool}` in the path",
            "remove `tool`, or call the parameter otherwise",
        ),
        _ => {
            if by_path {
                let path_field = path_field.as_ref().unwrap_or(field);
                only_open_path(path_field, place.upstream, seen);
            }
            return Some(HttpTool {
                headers: headers?,
                bodies: bodies?,
                ..HttpTool::new(tool, method, path)
            });
        }
    };
    field.error(fault.0, fault.1);
    None
}

/// Headers that are arguments.
fn headers(field: &Field<'_>, place: Place<'_>) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for entry in field.filled_list()? {
        let text = entry.text()?;
        if HeaderName::from_bytes(text.as_bytes()).is_err() {
            entry.error(
                format!("`{text}` is not the name of a header"),
                "write it as `X-Account`",
            );
            return None;
        }
        if !place.may_be_argument(text) {
            entry.error(
                format!("the header `{text}` cannot be an argument"),
                "remove it: the proxy sets it, drops it, or reads it itself",
            );
            return None;
        }
        if names.iter().any(|other| other.eq_ignore_ascii_case(text)) {
            entry.error(
                format!("the header `{text}` stands here twice"),
                "keep one of them: case does not count",
            );
            return None;
        }
        names.push(text.to_owned());
    }
    Some(names)
}

/// An approval names upstream, tool and arguments: a second path to the same would be open to it as well.
fn only_open_path(field: &Field<'_>, upstream: &str, seen: &mut Seen) {
    if let Some(first) = seen.open.insert(upstream.to_owned(), field.spot()) {
        field.report(
            field
                .problem(format!(
                    "two paths to the upstream `{upstream}` name their tools by `{{tool}}`"
                ))
                .help("keep one of them: an approval is for one method and path")
                .related(first.1, "first here"),
        );
    }
}

pub(super) fn tool_name(field: &Field<'_>, route: &str, seen: &mut Seen) -> Option<ToolName> {
    let text = field.text()?;
    if text.contains('*') {
        field.error(
            format!("`{text}` is not the name of one tool"),
            "name one tool per entry; an HTTP route may take the name from the path: `path: /tools/{tool}`",
        );
        return None;
    }
    let name = ToolName::from(text);
    if let Some((other, spot)) = taken(&name, route, seen, &field.spot()) {
        let problem = field
            .problem(format!("the tool `{name}` is on two routes"))
            .help("map a tool on one route only: there its tickets are redeemed");
        let label = format!("on the route `{other}`");
        // A place in another file cannot be shown beside this one.
        field.report(if spot.0 == field.spot().0 {
            problem.related(spot.1, label)
        } else {
            problem
        });
        return None;
    }
    Some(name)
}

/// The other route that has the tool already.
fn taken(name: &ToolName, route: &str, seen: &mut Seen, spot: &Spot) -> Option<(String, Spot)> {
    if let Some((other, spot)) = seen.tools.get(name)
        && other != route
    {
        return Some((other.clone(), spot.clone()));
    }
    seen.tools
        .entry(name.clone())
        .or_insert_with(|| (route.to_owned(), spot.clone()));
    None
}

/// A path template that fits beside those before it.
fn template(field: &Field<'_>, method: Option<&Method>, paths: &mut Paths) -> Option<String> {
    let text = field.text()?;
    if !is_template(text) {
        field.error(format!("`{text}` is not a path template"), HELP);
        return None;
    }
    // Without a method the template is checked by itself.
    let mut alone = Paths::default();
    let paths = if method.is_some() { paths } else { &mut alone };
    let inserted = paths.insert(method.unwrap_or(&Method::GET), text);
    if let Err(fault) = inserted {
        let (message, help) = fault.words(text);
        field.error(message, help);
        return None;
    }
    Some(text.to_owned())
}

/// Whether a text can be a path template at all.
pub(super) fn is_template(text: &str) -> bool {
    text.starts_with('/')
        && !text.contains(['?', '#', ' ', '%', ';'])
        && !text.contains("//")
        && is_plain(text)
}
