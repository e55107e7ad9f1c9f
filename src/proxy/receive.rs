//! A request until it is whole: bounded, decoded, and read where it is JSON.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Uri, header};

use super::Body;
use super::gate::Gate;
use super::refuse::{self, Refused};
use crate::protocols::Request;
use crate::wire::body::{self, Encodings, Pace};
use crate::wire::json::{BODY_DEPTH, Document};
use crate::wire::media::{Media, media};
use crate::wire::offload::offload;

/// Bytes of a request's body that must come in each `timeouts.request_idle`: one that only drips holds its place for nothing.
pub(crate) const SLOWEST: usize = 1 << 10;

impl<U> Gate<U> {
    /// The request, whole and decoded, and whether it came encoded.
    pub(super) async fn receive(
        &self,
        below: Uri,
        mut parts: Parts,
        body: &mut Body,
    ) -> Result<(Request, bool), Refused> {
        let settings = &self.setup.settings;
        let encodings =
            Encodings::of(&parts.headers).map_err(|error| refuse::request_body(&error))?;
        check_media(&parts)?;
        let limit = settings.limits.request_body;
        let pace = Pace {
            within: settings.timeouts.request_idle,
            least: SLOWEST,
        };
        let bytes = body::read(body, &encodings, limit, pace, &self.memory)
            .await
            .map_err(|error| refuse::request_body(&error))?;
        parts.uri = below;
        parts.headers.remove(header::CONTENT_ENCODING);
        let length = bytes.len();
        let request = offload(length, || read(parts, bytes))?;
        Ok((request, !encodings.is_identity()))
    }
}

/// How the body is read; refused before it is, where it cannot be judged.
fn check_media(parts: &Parts) -> Result<Media, Refused> {
    media(&parts.headers).map_err(|_| refuse::MEDIA_TYPE_UNSUPPORTED.refusal())
}

/// A request as adapters take it, from its head and its whole, decoded body.
pub(crate) fn read(parts: Parts, body: Bytes) -> Result<Request, Refused> {
    let json = if check_media(&parts)? == Media::Json && !body.is_empty() {
        let document = Document::read(body.clone(), BODY_DEPTH);
        Some(document.map_err(|error| refuse::request_json(&error))?)
    } else {
        None
    };
    Ok(Request { parts, body, json })
}

/// Whether the client wants to leave HTTP for WebSocket, whose frames no adapter reads. Any other upgrade is an offer that a
/// server may pass over (RFC 9110 section 7.8).
pub(crate) fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(header::UPGRADE).iter();
    offers
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .any(|offer| offer.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}
