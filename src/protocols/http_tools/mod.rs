//! REST tool backends: a method and a path template are a tool, its arguments come from path, query and a JSON body.
//!
//! What no template matches is refused. The whole call is one item; the answer's texts are items.

mod arguments;
mod canaries;
mod problem;
mod response;

use std::collections::HashMap;

use arguments::Gathered;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Uri, header};
pub use problem::problem;

use super::canary::Canary;
use super::{Malformed, Protocol, Refusal, Request, ResponseReader, Written, unwritable};
use crate::guard::Decision;
use crate::item::{Item, Located, Place, RouteKind, ToolCall};
use crate::names::ToolName;
use crate::settings::HttpTool;
use crate::source::{Problem, Problems};
use crate::verdict::{Reason, Verdict};
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::media::{Media, media};

/// Asks for a second identical act on purpose.
const AGAIN: HeaderName = HeaderName::from_static("holdpoint-again");
/// The path parameter that names the tool.
const TOOL: &str = "tool";
/// Seconds after which an agent may ask again for a call that is being carried out.
const IN_PROGRESS_RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The adapter.
#[derive(Clone, Debug)]
pub struct HttpTools {
    tools: Vec<HttpTool>,
    routers: Routers,
    /// The same templates in lower case: which one a backend takes that ignores case.
    lenient: Routers,
}

type Routers = HashMap<Method, matchit::Router<usize>>;

/// A request taken apart.
struct Matched<'t> {
    template: &'t HttpTool,
    tool: ToolName,
    gathered: Gathered,
}

impl HttpTools {
    /// An adapter for these tools.
    ///
    /// # Errors
    /// Every template that is malformed, ambiguous, or names no tool or one that is named twice.
    pub fn new(tools: &[HttpTool]) -> Result<Self, Problems> {
        let (mut routers, mut lenient) = (Routers::new(), Routers::new());
        let mut problems = Vec::new();
        for (index, tool) in tools.iter().enumerate() {
            if let Err(problem) = check(tool, tools.get(..index).unwrap_or_default()) {
                problems.push(problem);
                continue;
            }
            let insert = |routers: &mut Routers, path: &str| {
                let router = routers.entry(tool.method.clone()).or_default();
                router.insert(path, index).err()
            };
            let fault = insert(&mut routers, &tool.path)
                .or_else(|| insert(&mut lenient, &in_lower_case(&tool.path)));
            if let Some(error) = fault {
                problems.push(at(tool, &error.to_string()));
            }
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        Ok(Self {
            tools: tools.to_vec(),
            routers,
            lenient,
        })
    }

    fn find<'s, 'p>(&'s self, parts: &'p Parts) -> Option<(&'s HttpTool, matchit::Params<'s, 'p>)> {
        let path = parts.uri.path();
        let found = self.routers.get(&parts.method)?.at(path).ok()?;
        // To many backends `/orders/EXPORT` is the tool at `/orders/export`, not the order of that name.
        let lower = path.to_ascii_lowercase();
        let lenient = self.lenient.get(&parts.method)?.at(&lower).ok()?;
        let template = self.tools.get(*found.value)?;
        (lenient.value == found.value).then_some((template, found.params))
    }

    fn matched(&self, request: &Request) -> Result<Matched<'_>, Malformed> {
        let (template, params) = self.find(&request.parts).ok_or_else(unknown)?;
        if request.parts.uri.path().contains(';') {
            // Parameters of a segment to some servers, which take the rest for the path.
            return Err(Malformed {
                code: "argument_unreadable",
                message: "Send a semicolon in the path as `%3B`.".to_owned(),
            });
        }
        if request.json.is_none() && !request.body.is_empty() {
            return Err(Malformed {
                code: "unsupported_media_type",
                message: "Send the body as `application/json`.".to_owned(),
            });
        }
        let named = params
            .iter()
            .filter(|(name, _)| template.tool.is_some() || *name != TOOL);
        Ok(Matched {
            template,
            tool: self.named_tool(template, &params)?,
            gathered: Gathered::gather(named, request.parts.uri.query(), request.json.as_ref())?,
        })
    }

    fn named_tool(
        &self,
        template: &HttpTool,
        params: &matchit::Params<'_, '_>,
    ) -> Result<ToolName, Malformed> {
        if let Some(tool) = &template.tool {
            return Ok(tool.clone());
        }
        let name = params.get(TOOL).ok_or_else(unknown)?;
        let name = arguments::decoded(name).map(ToolName::from)?;
        // A tool with a path of its own has no other.
        if self
            .tools
            .iter()
            .any(|own| own.tool.as_ref() == Some(&name))
        {
            return Err(unknown());
        }
        Ok(name)
    }

    /// The request in the stored form of its arguments.
    fn bound(&self, request: &mut Request, stored: &Bytes) -> Result<(), Malformed> {
        let matched = self.matched(request)?;
        let mut template = matched.template.path.clone();
        if matched.template.tool.is_none() {
            template = template.replace("{tool}", &arguments::encoded(matched.tool.as_str()));
        }
        let (target, body) = matched.gathered.put_back(&template, stored)?;
        request.parts.uri = Uri::try_from(target).map_err(|_| unwritable())?;
        request.json = if body.is_empty() {
            None
        } else {
            Some(Document::read(body.clone(), BODY_DEPTH).map_err(|_| unwritable())?)
        };
        request.body = body;
        Ok(())
    }
}

impl Protocol for HttpTools {
    fn name(&self) -> &'static str {
        "http_tools"
    }

    fn kind(&self) -> RouteKind {
        RouteKind::Http
    }

    fn read(&self, request: &Request) -> Result<Vec<Located>, Malformed> {
        let matched = self.matched(request)?;
        let again = request.parts.headers.get(AGAIN);
        Ok(vec![Located {
            place: Place::default(),
            item: Item::ToolCall(ToolCall {
                tool: matched.tool,
                args: matched.gathered.into_arguments(),
                call_id: None,
                again: again.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true")),
            }),
        }])
    }

    fn write(&self, mut request: Request, decision: &Decision) -> Result<Written, Malformed> {
        let ruling = decision.rulings.first().ok_or_else(unwritable)?;
        match &ruling.verdict {
            Verdict::Deny(finding) => Ok(Written::Refuse(Refusal::of(finding, None))),
            Verdict::Hold(hold) => Ok(Written::Refuse(Refusal::of(&hold.finding, Some(hold)))),
            Verdict::Rewrite(_) => Err(unwritable()),
            Verdict::Allow => {
                if let Some((_, receipt)) = decision.receipts.first() {
                    return Ok(Written::Replay(receipt.clone()));
                }
                if let Some((_, claim)) = decision.claims.first() {
                    self.bound(&mut request, claim.arguments())?;
                }
                Ok(Written::Forward(request))
            }
        }
    }

    fn response(
        &self,
        request: &Request,
        head: &http::response::Parts,
    ) -> Result<Box<dyn ResponseReader>, Malformed> {
        let media = media(&head.headers).map_err(|_| Malformed {
            code: "upstream_invalid_response",
            message: "The tool's answer is not in UTF-8, so its text cannot be judged.".to_owned(),
        })?;
        let (template, params) = self.find(&request.parts).ok_or_else(unknown)?;
        let tool = Some(self.named_tool(template, &params)?);
        Ok(Box::new(response::Answer::new(tool, media == Media::Json)))
    }

    fn canaries(&self) -> Vec<Canary> {
        canaries::canaries(self)
    }

    fn refuse(&self, refusal: &Refusal, _to: Option<&Bytes>) -> http::Response<Bytes> {
        let mut response = problem(refusal);
        if refusal.reason == Some(Reason::InProgress) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, IN_PROGRESS_RETRY_AFTER);
        }
        response
    }
}

fn unknown() -> Malformed {
    Malformed {
        code: "endpoint_unknown",
        message: "The route maps no tool to this method and path. Add it to the route's `tools`."
            .to_owned(),
    }
}

/// A template without upper case, but for the names of its parameters.
fn in_lower_case(path: &str) -> String {
    let segments = path.split('/').map(|segment| {
        if segment.starts_with('{') {
            segment.to_owned()
        } else {
            segment.to_ascii_lowercase()
        }
    });
    segments.collect::<Vec<_>>().join("/")
}

fn at(tool: &HttpTool, what: &str) -> Problem {
    Problem::new(format!("`{} {}`: {what}", tool.method, tool.path))
}

/// One tool, one method, one path: an approval of a call must not open another way to it.
fn check(tool: &HttpTool, before: &[HttpTool]) -> Result<(), Problem> {
    let path = tool.path.as_str();
    if !path.starts_with('/') {
        return Err(at(tool, "a path template starts with '/'"));
    }
    if path.contains("{{") || path.contains("}}") || path.contains("{*") {
        return Err(at(
            tool,
            "a path template has parameters of the form {name} only",
        ));
    }
    let path_and_query = path.replace(['{', '}'], "");
    if path_and_query.contains(['?', '#', '%', ';']) || path.contains("//") {
        return Err(at(
            tool,
            "a path template has plain segments: no query, escapes or empty segments",
        ));
    }
    match &tool.tool {
        None if !path.contains("{tool}") => Err(at(tool, "nothing says which tool this is")
            .help("name it, or put {tool} into the path")),
        None if before
            .iter()
            .any(|other| other.tool.is_none() && other.path.contains("{tool}")) =>
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

#[cfg(test)]
mod tests;
