//! What of an exchange is kept where exchanges are recorded.

use std::sync::Arc;

use http::{HeaderName, header};

use super::gate::Gate;
use super::route::Entry;
use crate::guard::Guard;
use crate::principal::Session;
use crate::protocols::Request;
use crate::record::{Begun, Taken};
use crate::settings::RouteProtocol;

/// Header fields that are recorded on every route.
const RECORDED: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
];
/// Header fields that carry credentials: never recorded, whatever a tool takes them for.
const UNRECORDED: [HeaderName; 6] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("holdpoint-ticket"),
];

impl<U> Gate<U> {
    /// What is kept of the exchange, where it is recorded: nothing is copied.
    pub(super) fn recorded(
        &self,
        entry: &Entry,
        guard: &Guard,
        session: &Session,
        request: &Request,
    ) -> Option<Arc<Taken>> {
        let recorder = Arc::clone(self.recorder.as_ref()?);
        let parts = &request.parts;
        let own = self.setup.settings.principals.header();
        let headers = recorded_headers(entry)
            .filter(|name| Some(name) != own)
            .filter_map(|name| {
                let value = parts.headers.get(&name)?.clone();
                Some((name, value))
            });
        let begun = Begun {
            route: (entry.route.name.to_string(), entry.protocol.name()),
            policy: guard.policy().hash.0.to_string(),
            session: Arc::new(session.clone()),
            target: (parts.method.to_string(), parts.uri.to_string()),
            headers: headers.collect(),
            media: parts.headers.get(header::CONTENT_TYPE).cloned(),
            body: request.body.clone(),
        };
        Some(Arc::new(Taken::new(recorder, begun)))
    }
}

/// Header fields that a protocol is read by, and those of a route's tools. None of them says who calls.
fn recorded_headers(entry: &Entry) -> impl Iterator<Item = HeaderName> {
    let tools = match &entry.route.protocol {
        RouteProtocol::HttpTools(http) => http.tools.as_slice(),
        _ => &[],
    };
    let arguments = tools.iter().flat_map(|tool| &tool.headers);
    let arguments = arguments.filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok());
    let arguments = arguments.filter(|name| !UNRECORDED.contains(name));
    RECORDED.into_iter().chain(arguments)
}
