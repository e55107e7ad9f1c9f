//! Which tool a method and path are: templates, and what they must not leave open.

use std::collections::{HashMap, HashSet};

use http::{Method, request::Parts};

use super::closed::ClosedPaths;
use crate::settings::template::{is_plain, parameters, positional};
use crate::settings::{HttpRoute, HttpTool};
use crate::source::{Problem, Problems};

/// Every template of a route.
#[derive(Clone, Debug)]
pub(super) struct Templates {
    tools: Vec<HttpTool>,
    /// Names of the parameters of each, in order.
    names: Vec<Vec<String>>,
    routers: Routers,
    /// The same templates in lower case: which one a backend takes that ignores case.
    lenient: Routers,
    /// What is no tool.
    closed: ClosedPaths,
}

type Routers = HashMap<Method, matchit::Router<usize>>;

/// The template that a request takes, with its path parameters as they came.
#[derive(Debug)]
pub(super) struct Found<'t, 'p> {
    pub(super) tool: &'t HttpTool,
    pub(super) params: Vec<(&'t str, &'p str)>,
}

impl Templates {
    /// # Errors
    /// Every template that is malformed, ambiguous, or names no tool or one that is named twice.
    pub(super) fn new(route: &HttpRoute) -> Result<Self, Problems> {
        let tools = route.tools.as_slice();
        let mut templates = Self {
            tools: tools.to_vec(),
            names: tools
                .iter()
                .map(|tool| parameters(&tool.path).map(str::to_owned).collect())
                .collect(),
            routers: Routers::new(),
            lenient: Routers::new(),
            closed: ClosedPaths::new(&route.closed),
        };
        let mut problems = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            if let Err(problem) = check(tool, tools.get(..index).unwrap_or_default()) {
                problems.push(problem);
                continue;
            }
            let insert = |routers: &mut Routers, lower: bool| {
                let router = routers.entry(tool.method.clone()).or_default();
                router.insert(positional(&tool.path, lower), index).err()
            };
            let fault = insert(&mut templates.routers, false)
                .or_else(|| insert(&mut templates.lenient, true));
            if let Some(fault) = fault {
                problems.push(conflict(tool, tools, &fault));
            }
        }
        if problems.is_empty() {
            Ok(templates)
        } else {
            Err(Problems(problems))
        }
    }

    pub(super) fn tools(&self) -> &[HttpTool] {
        &self.tools
    }

    pub(super) fn find<'t, 'p>(&'t self, parts: &'p Parts) -> Option<Found<'t, 'p>> {
        self.at(&parts.method, parts.uri.path())
    }

    /// The tool at a path; none where the path is, or to some backends may be, that of another call.
    pub(super) fn at<'t, 'p>(&'t self, method: &Method, path: &'p str) -> Option<Found<'t, 'p>> {
        let found = self.routers.get(method)?.at(path).ok()?;
        // To many backends `/orders/EXPORT` is the tool at `/orders/export`, not the order of that name.
        let lower = path.to_ascii_lowercase();
        let lenient = self.lenient.get(method)?.at(&lower).ok()?;
        if lenient.value != found.value {
            return None;
        }
        let tool = self.tools.get(*found.value)?;
        if self.closed.take(method, path, &tool.path) {
            return None;
        }
        let names = self.names.get(*found.value)?.iter().map(String::as_str);
        Some(Found {
            tool,
            params: names
                .zip(found.params.iter().map(|(_, value)| value))
                .collect(),
        })
    }
}

fn names_tool(path: &str) -> bool {
    parameters(path).any(|name| name == super::TOOL)
}

fn at(tool: &HttpTool, what: &str) -> Problem {
    Problem::new(format!("`{} {}`: {what}", tool.method, tool.path))
}

fn conflict(tool: &HttpTool, tools: &[HttpTool], fault: &matchit::InsertError) -> Problem {
    let lower = positional(&tool.path, true);
    let other = tools.iter().find(|other| {
        other.method == tool.method && *other != tool && positional(&other.path, true) == lower
    });
    match other {
        Some(other) => at(
            tool,
            &format!(
                "takes the same paths as `{}` to a backend that ignores case",
                other.path
            ),
        )
        .help("keep one of them, or make their fixed segments differ"),
        None => at(tool, &fault.to_string()),
    }
}

/// One tool, one method, one path: an approval of a call must not open another way to it.
fn check(tool: &HttpTool, before: &[HttpTool]) -> Result<(), Problem> {
    let path = tool.path.as_str();
    if !path.starts_with('/') {
        return Err(at(tool, "a path template starts with '/'"));
    }
    if !is_plain(path) {
        return Err(at(
            tool,
            "a path template has parameters of the form {name} only, each a whole segment",
        ));
    }
    let path_and_query = path.replace(['{', '}'], "");
    if path_and_query.contains(['?', '#', '%', ';']) || path.contains("//") {
        return Err(at(
            tool,
            "a path template has plain segments: no query, escapes or empty segments",
        ));
    }
    let mut seen = HashSet::new();
    if !parameters(path).all(|name| seen.insert(name)) {
        return Err(
            at(tool, "two parameters have the same name").help("give each parameter its own")
        );
    }
    match &tool.tool {
        None if !names_tool(path) => Err(at(tool, "nothing says which tool this is")
            .help("name it, or put {tool} into the path")),
        None if before
            .iter()
            .any(|other| other.tool.is_none() && names_tool(&other.path)) =>
        {
            Err(at(tool, "another path names its tools by {tool} already")
                .help("keep one of them: an approval is for one method and path"))
        }
        Some(name) if before.iter().any(|other| other.tool.as_ref() == Some(name)) => Err(at(
            tool,
            &format!("the tool `{name}` has another path already"),
        )
        .help("give each method and path its own tool name: an approval is for one of them")),
        _ => Ok(()),
    }
}
