//! Path prefixes of the proxy and the tools behind them.

use std::collections::HashMap;
use std::path::Path;

use super::name;
use super::tools::{Place, tool_name, tools};
use crate::names::{RouteName, ToolName, UpstreamName};
use crate::settings::{McpRoute, ModelRoute, Route, RouteProtocol, Untrusted, Wrapped};
use crate::source::{Field, Fields, Spot, did_you_mean};

#[derive(Clone, Copy)]
enum Kind {
    OpenAiChat,
    AnthropicMessages,
    Mcp,
    HttpTools,
}

const KINDS: [(&str, Kind); 4] = [
    ("openai_chat", Kind::OpenAiChat),
    ("anthropic_messages", Kind::AnthropicMessages),
    ("mcp", Kind::Mcp),
    ("http_tools", Kind::HttpTools),
];

pub(super) fn routes(field: &Field<'_>, root: &Field<'_>, folder: &Path) -> Option<Vec<Route>> {
    let upstreams = root.peek("upstreams");
    let around = Around {
        upstreams: upstreams.as_ref(),
        key: root.peek("principal").and_then(|principal| {
            let source = principal.peek("api_keys");
            source.or_else(|| principal.peek("jwt"))?.peek("header")
        }),
        folder,
    };
    let mut seen = Seen::default();
    let mut routes = Vec::new();
    let mut whole = true;
    for entry in field.filled_list()? {
        match route(&entry, &around, &mut seen) {
            Some(route) => routes.push(route),
            None => whole = false,
        }
    }
    if let Some(upstreams) = &upstreams {
        for key in upstreams
            .entries()
            .unwrap_or_default()
            .iter()
            .map(|(key, _)| key)
        {
            if whole
                && !routes
                    .iter()
                    .any(|route| route.upstream.as_str() == key.text())
            {
                key.warn(
                    format!("no route leads to the upstream `{}`", key.text()),
                    "add a route, or remove it",
                );
            }
        }
    }
    whole.then_some(routes)
}

/// What the rest of the config says of routes.
struct Around<'r> {
    upstreams: Option<&'r Field<'r>>,
    /// The header that carries the agent's key.
    key: Option<Field<'r>>,
    folder: &'r Path,
}

impl Around<'_> {
    fn names(&self) -> Vec<&str> {
        self.upstreams.and_then(Field::keys).unwrap_or_default()
    }

    /// Headers that carry the agent's key or the upstream's credential, in lower case.
    fn secrets(&self, upstream: &str) -> Vec<String> {
        let upstream = self.upstreams.and_then(|all| all.peek(upstream));
        let credential = upstream.and_then(|u| u.peek("credential")?.peek("header"));
        let headers = [credential.as_ref(), self.key.as_ref()];
        let texts = headers.into_iter().flatten();
        texts
            .filter_map(|header| header.node().as_text())
            .map(str::to_ascii_lowercase)
            .collect()
    }
}

/// What earlier routes have taken.
#[derive(Default)]
pub(super) struct Seen {
    names: HashMap<String, Spot>,
    prefixes: Vec<(String, Spot)>,
    /// The route and place of each tool.
    pub(super) tools: HashMap<ToolName, (String, Spot)>,
    /// Upstreams that have a path which names its tool.
    pub(super) open: HashMap<String, Spot>,
}

fn route(field: &Field<'_>, around: &Around<'_>, seen: &mut Seen) -> Option<Route> {
    let mut fields = field.map()?;
    let name_field = fields.required("name");
    let name = name_field.as_ref().and_then(name);
    if let (Some(name), Some(field)) = (name, &name_field)
        && let Some(first) = seen.names.insert(name.to_owned(), field.spot())
    {
        field.report(
            field
                .problem(format!("there are two routes named `{name}`"))
                .help("give each route a name of its own")
                .related(first.1, "first here"),
        );
    }
    let prefix = fields.required("prefix").and_then(|f| prefix(&f, seen));
    let upstream = fields
        .required("upstream")
        .and_then(|f| upstream(&f, &around.names()));
    let kind = fields
        .required("protocol")
        .and_then(|field| field.choice(&KINDS));
    let secrets = upstream.as_ref().map(|name| around.secrets(name.as_str()));
    let place = Place {
        route: name.unwrap_or_default(),
        upstream: upstream.as_ref().map_or("", UpstreamName::as_str),
        folder: around.folder,
        secrets: &secrets.unwrap_or_default(),
    };
    let protocol = if let Some(kind) = kind {
        protocol(kind, &mut fields, place, seen)
    } else {
        for key in ["tools", "openapi", "note", "untrusted", "wrapped"] {
            fields.optional(key);
        }
        None
    };
    Some(Route {
        name: RouteName::from(name?),
        prefix: prefix?,
        upstream: upstream?,
        protocol: protocol?,
    })
}

fn protocol(
    kind: Kind,
    fields: &mut Fields<'_>,
    place: Place<'_>,
    seen: &mut Seen,
) -> Option<RouteProtocol> {
    if matches!(kind, Kind::OpenAiChat | Kind::AnthropicMessages) {
        only_for(fields, "tools", "the protocols `http_tools` and `mcp`");
    }
    if !matches!(kind, Kind::HttpTools) {
        only_for(fields, "openapi", "protocol: http_tools");
    }
    if !matches!(kind, Kind::OpenAiChat | Kind::AnthropicMessages) {
        only_for(fields, "note", "a model's protocol");
        only_for(fields, "untrusted", "a model's protocol");
    }
    match kind {
        Kind::OpenAiChat => model(fields).map(RouteProtocol::OpenAiChat),
        Kind::AnthropicMessages => model(fields).map(RouteProtocol::AnthropicMessages),
        Kind::Mcp => {
            let tools = fields.optional_or("tools", Vec::new(), |field| {
                let names: Vec<_> = field
                    .filled_list()?
                    .iter()
                    .map(|entry| tool_name(entry, place.route, seen))
                    .collect();
                names.into_iter().collect()
            });
            let wrapped = fields.optional_or("wrapped", Vec::new(), wrapped);
            Some(RouteProtocol::Mcp(McpRoute {
                tools: tools?,
                wrapped: wrapped?,
            }))
        }
        Kind::HttpTools => {
            only_for(fields, "wrapped", "a protocol in which tools have names");
            tools(fields, place, seen).map(RouteProtocol::HttpTools)
        }
    }
}

fn model(fields: &mut Fields<'_>) -> Option<ModelRoute> {
    let note = fields.optional_or("note", true, Field::bool);
    let untrusted = fields.optional_or("untrusted", Untrusted::default(), untrusted);
    let wrapped = fields.optional_or("wrapped", Vec::new(), wrapped);
    Some(ModelRoute {
        note: note?,
        untrusted: untrusted?,
        wrapped: wrapped?,
    })
}

fn untrusted(field: &Field<'_>) -> Option<Untrusted> {
    let mut fields = field.map()?;
    let roles = fields.optional_or("roles", Vec::new(), |field| {
        names(field, "a role", |text| {
            text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        })
    });
    let tags = fields.optional_or("tags", Vec::new(), |field| {
        names(field, "the name of a tag", |text| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
            text.bytes().all(plain) && text.starts_with(|c: char| c.is_ascii_alphabetic())
        })
    });
    Some(Untrusted {
        roles: roles?,
        tags: tags?,
    })
}

fn names(field: &Field<'_>, what: &str, fits: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for entry in field.filled_list()? {
        let text = entry.text()?;
        if text.is_empty() || !fits(text) {
            entry.error(
                format!("`{text}` is not {what}"),
                "write the bare name, such as `user` or `tool_result`",
            );
            return None;
        }
        names.push(text.to_owned());
    }
    Some(names)
}

fn wrapped(field: &Field<'_>) -> Option<Vec<Wrapped>> {
    let mut all: Vec<Wrapped> = Vec::new();
    for entry in field.filled_list()? {
        let mut fields = entry.map()?;
        let tool_field = fields.required("tool");
        let tool = tool_field.as_ref().and_then(Field::text);
        let name = fields.required("name").and_then(|f| pointer(&f));
        let arguments = fields.required("arguments").and_then(|f| pointer(&f));
        let call: Vec<String> = [&name, &arguments].into_iter().flatten().cloned().collect();
        let beside = fields.optional_or("beside", Vec::new(), |field| beside(field, &call));
        let tool = ToolName::from(tool?);
        if all.iter().any(|other| other.tool == tool) {
            entry.error(
                format!("the tool `{tool}` is unwrapped twice"),
                "keep one entry: one pair of pointers for each tool",
            );
            return None;
        }
        all.push(Wrapped {
            tool,
            name: name?,
            arguments: arguments?,
            beside: beside?,
        });
    }
    Some(all)
}

/// Pointers to what may stand beside the inner call: neither a part of it nor what it stands in.
fn beside(field: &Field<'_>, call: &[String]) -> Option<Vec<String>> {
    let mut pointers = Vec::new();
    for entry in field.filled_list()? {
        let pointer = pointer(&entry)?;
        let holds = |outer: &str, inner: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some(own) = call
            .iter()
            .find(|own| holds(&pointer, own) || holds(own, &pointer))
        {
            entry.error(
                format!("`{pointer}` holds the inner call at `{own}`, or is a part of it"),
                "point to what stands beside the call",
            );
            return None;
        }
        pointers.push(pointer);
    }
    Some(pointers)
}

/// A JSON Pointer (RFC 6901) to something below the arguments.
fn pointer(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let escapes = text
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with(['0', '1']));
    if text.len() < 2 || !text.starts_with('/') || !escapes {
        field.error(
            format!("`{text}` is not a JSON Pointer below the arguments"),
            "write it as `/name` (RFC 6901)",
        );
        return None;
    }
    Some(text.to_owned())
}

fn only_for(fields: &mut Fields<'_>, key: &'static str, what: &str) {
    if let Some(field) = fields.optional(key) {
        field.error(
            format!("`{key}` has no meaning on this route: it is for {what}"),
            format!("remove `{key}`, or set `protocol` to what is meant"),
        );
    }
}

fn upstream(field: &Field<'_>, known: &[&str]) -> Option<UpstreamName> {
    let text = field.text()?;
    if !known.contains(&text) {
        field.error(
            format!("there is no upstream `{text}`"),
            did_you_mean("upstreams", text, known.iter().copied()),
        );
        return None;
    }
    Some(UpstreamName::from(text))
}

fn prefix(field: &Field<'_>, seen: &mut Seen) -> Option<String> {
    let text = field.text()?;
    let whole = text == "/";
    let segment = |segment: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        !segment.is_empty() && segment.chars().all(plain) && !matches!(segment, "." | "..")
    };
    let segments = text.strip_prefix('/');
    let fine = segments.is_some_and(|segments| whole || segments.split('/').all(segment));
    if !fine {
        let bare = text.trim_matches('/');
        let help = if !bare.is_empty() && bare.split('/').all(segment) {
            format!("write `/{bare}`")
        } else {
            "write whole path segments of letters, digits and `-._~`, such as `/openai`".to_owned()
        };
        field.error(format!("`{text}` is not a path prefix"), help);
        return None;
    }
    let covers = |earlier: &str| {
        earlier == "/"
            || text
                .strip_prefix(earlier)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let earlier = seen.prefixes.iter().find(|(earlier, _)| covers(earlier));
    if let Some((earlier, spot)) = earlier {
        field.report(
            field
                .problem(format!(
                    "this route can never match: `{earlier}` takes every path of `{text}` before"
                ))
                .help("move it above the other: the first route that matches wins")
                .related(spot.1.clone(), "matches before"),
        );
    }
    seen.prefixes.push((text.to_owned(), field.spot()));
    Some(text.to_owned())
}
