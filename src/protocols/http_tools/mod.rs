//! REST tool backends: a method and a path template are a tool, its arguments come from path, query, headers and a body in
//! JSON, as a form or in parts.
//!
//! What no template matches is refused. The whole call is one item; the answer's texts are items.

mod arguments;
mod canaries;
mod closed;
mod events;
mod multipart;
mod names;
mod problem;
mod response;
mod templates;

use arguments::{Body, Gathered, Places};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri, header};
pub use problem::problem;
use response::Label;
use templates::{Found, Templates};

use super::canary::Canary;
use super::strict::media_type;
use super::{
    Malformed, Protocol, Refusal, Request, ResponseReader, Unjudged, Written, unwritable, wish,
};
use crate::guard::Decision;
use crate::item::{Item, Located, Place, RouteKind, ToolCall};
use crate::names::ToolName;
use crate::settings::{BodyKind, HttpRoute, HttpTool};
use crate::source::Problems;
use crate::unscanned::Unscanned;
use crate::verdict::{Reason, Verdict};
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::media::{Media, media};

/// The path parameter that names the tool.
const TOOL: &str = "tool";
/// Seconds after which an agent may ask again for a call that is being carried out.
const IN_PROGRESS_RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The adapter.
#[derive(Clone, Debug)]
pub struct HttpTools(Templates);

/// A request taken apart.
struct Matched<'t> {
    template: &'t HttpTool,
    tool: ToolName,
    gathered: Gathered,
}

impl HttpTools {
    /// An adapter for the tools of a route.
    ///
    /// # Errors
    /// Every template that is malformed, ambiguous, or names no tool or one that is named twice.
    pub fn new(route: &HttpRoute) -> Result<Self, Problems> {
        Templates::new(route).map(Self)
    }

    fn matched(&self, request: &Request) -> Result<Matched<'_>, Malformed> {
        let parts = &request.parts;
        let found = self.0.find(parts).ok_or_else(unknown)?;
        let template = found.tool;
        if parts.uri.path().contains(';') {
            // Parameters of a segment to some servers, which take the rest for the path.
            return Err(Malformed {
                code: "argument_unreadable",
                message: "Send a semicolon in the path as `%3B`.".to_owned(),
            });
        }
        let tool = self.named_tool(&found)?;
        let own = |(name, _): &(&str, &str)| template.tool.is_some() || *name != TOOL;
        let places = Places {
            path: found.params.into_iter().filter(own).collect(),
            query: parts.uri.query(),
            headers: header_arguments(template, &parts.headers)?,
            body: body(template, request)?,
            files: template.bodies.contains(&BodyKind::Multipart),
        };
        Ok(Matched {
            template,
            tool,
            gathered: Gathered::gather(places)?,
        })
    }

    fn named_tool(&self, found: &Found<'_, '_>) -> Result<ToolName, Malformed> {
        if let Some(tool) = &found.tool.tool {
            return Ok(tool.clone());
        }
        let named = found.params.iter().find(|(name, _)| *name == TOOL);
        let (_, name) = named.ok_or_else(unknown)?;
        let name = names::decoded(name).map(ToolName::from)?;
        // A tool with a path of its own has no other.
        let mut tools = self.0.tools().iter();
        if tools.any(|own| own.tool.as_ref() == Some(&name)) {
            return Err(unknown());
        }
        Ok(name)
    }

    /// The request in the stored form of its arguments.
    fn bound(&self, request: &mut Request, stored: &Bytes) -> Result<(), Malformed> {
        let Matched {
            template,
            tool,
            gathered,
        } = self.matched(request)?;
        let mut path = template.path.clone();
        if template.tool.is_none() {
            path = path.replace("{tool}", &names::encoded(tool.as_str()));
        }
        let rebuilt = gathered.put_back(&path, stored)?;
        request.parts.uri = Uri::try_from(rebuilt.target).map_err(|_| unwritable())?;
        for (name, value) in rebuilt.headers {
            request.parts.headers.insert(name, value);
        }
        let Some(body) = rebuilt.body else {
            return Ok(());
        };
        if request.json.is_some() {
            let document = Document::read(body.clone(), BODY_DEPTH);
            request.json = Some(document.map_err(|_| unwritable())?);
        }
        request.body = body;
        Ok(())
    }
}

/// The declared headers that came, each once.
fn header_arguments<'p>(
    template: &'p HttpTool,
    headers: &'p HeaderMap,
) -> Result<Vec<(&'p str, &'p str)>, Malformed> {
    let mut found = Vec::new();
    for name in &template.headers {
        let dashed = |name: &str| name.to_ascii_lowercase().replace('_', "-");
        let wanted = dashed(name);
        // CGI and its heirs take `_` for `-`.
        let mut values = headers
            .iter()
            .filter(|(header, _)| dashed(header.as_str()) == wanted);
        let Some((header, value)) = values.next() else {
            continue;
        };
        if values.next().is_some() || !header.as_str().eq_ignore_ascii_case(name) {
            return Err(Malformed {
                code: "argument_ambiguous",
                message:
                    "A header that is an argument comes twice, or in two spellings. Send it once."
                        .to_owned(),
            });
        }
        let dropped = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|dropped| dashed(dropped.trim()) == wanted);
        if dropped {
            return Err(Malformed {
                code: "connection_invalid",
                message: "The Connection header names a header that is an argument.".to_owned(),
            });
        }
        let value = value.to_str().map_err(|_| {
            names::unreadable("A header that is an argument has other than visible ASCII.")
        })?;
        found.push((name.as_str(), value));
    }
    Ok(found)
}

/// The body in a kind that the tool takes.
fn body<'p>(template: &HttpTool, request: &'p Request) -> Result<Option<Body<'p>>, Malformed> {
    let headers = &request.parts.headers;
    let refused = || {
        let kinds = template.bodies.iter().map(|kind| kind.media_type());
        let kinds: Vec<_> = kinds.map(|kind| format!("`{kind}`")).collect();
        let message = match kinds.as_slice() {
            [] => "This tool takes no body.".to_owned(),
            kinds => format!("Send the body as {}.", kinds.join(" or ")),
        };
        Malformed {
            code: "unsupported_media_type",
            message,
        }
    };
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    let body = if let Some(document) = &request.json {
        Body::Json(document)
    } else if request.body.is_empty() {
        return Ok(None);
    } else {
        match media_type(headers).as_deref() {
            Some("application/x-www-form-urlencoded") => Body::Form(&request.body),
            Some("multipart/form-data") => {
                if !template.bodies.contains(&BodyKind::Multipart) {
                    return Err(refused());
                }
                Body::Multipart(multipart::arguments(content_type, &request.body)?)
            }
            _ => return Err(refused()),
        }
    };
    // Some frameworks look for their types anywhere in the header.
    let parameters = content_type.split_once(';').unwrap_or_default().1;
    let parameters = parameters.to_ascii_lowercase();
    let second = ["json", "multipart/", "urlencoded"];
    if !template.bodies.contains(&body.kind()) || second.iter().any(|t| parameters.contains(t)) {
        return Err(refused());
    }
    Ok(Some(body))
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
        let headers = &request.parts.headers;
        let call = ToolCall::new(matched.tool, matched.gathered.into_arguments());
        Ok(vec![Located {
            place: Place::default(),
            item: Item::ToolCall(ToolCall {
                again: wish::again(headers),
                hint: wish::ticket(headers),
                ..call
            }),
        }])
    }

    fn write(&self, mut request: Request, decision: &Decision) -> Result<Written, Malformed> {
        let ruling = decision.rulings.first().ok_or_else(unwritable)?;
        if matches!(ruling.verdict, Verdict::Rewrite(_)) {
            return Err(unwritable());
        }
        if let Some((finding, hold)) = decision.objection(0, ruling) {
            return Ok(Written::Refuse(Refusal::of(finding, hold)));
        }
        if let Some((_, receipt)) = decision.receipts.first() {
            return Ok(Written::Replay(receipt.clone()));
        }
        if let Some((_, claim)) = decision.claims.first() {
            self.bound(&mut request, claim.arguments())?;
        }
        Ok(Written::Forward(request))
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
        let found = self.0.find(&request.parts).ok_or_else(unknown)?;
        let tool = Some(self.named_tool(&found)?);
        if media == Media::Events {
            return Ok(Box::new(events::Events::new(tool)));
        }
        let essence = media_type(&head.headers);
        let label = Label::of(essence.as_deref(), media == Media::Json);
        Ok(Box::new(response::Answer::new(tool, label)))
    }

    fn unjudged(&self, request: &Request, _items: &[Located]) -> Unjudged {
        let headers = &request.parts.headers;
        if media_type(headers).as_deref() != Some(BodyKind::Multipart.media_type()) {
            return Unjudged::default();
        }
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let opaque = multipart::opaque(content_type.unwrap_or_default(), &request.body);
        Unjudged::of(Unscanned::Binary, opaque)
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

#[cfg(test)]
mod tests;
