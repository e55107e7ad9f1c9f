//! Look-ups at backends: the client of the upstreams, for GETs of the proxy's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;

use super::client::{HttpUpstream, Peer, chain};
use crate::names::UpstreamName;
use crate::settings::Settings;
use crate::source::Problems;
use crate::store::http::{HttpRead, HttpReadError};
use crate::wire::json::{BODY_DEPTH, Document};

/// For the whole of it: connecting, asking, reading. The guard gives a layer five seconds.
const TIME: Duration = Duration::from_secs(2);

/// Largest document.
const BYTES: usize = 1 << 20;

/// Backends by the name that the config gives them.
pub type Readers = HashMap<UpstreamName, Arc<dyn HttpRead>>;

/// Readers of every upstream, with connections of their own.
///
/// # Errors
/// As [`HttpUpstream::new`].
pub fn readers(settings: &Settings) -> Result<Readers, Problems> {
    let client = HttpUpstream::new(settings)?;
    let readers = settings.upstreams.iter().map(|(name, upstream)| {
        let credential = upstream.credential.as_ref().and_then(|(header, secret)| {
            let mut value = HeaderValue::from_str(&secret.0).ok()?;
            value.set_sensitive(true);
            Some((header.clone(), value))
        });
        let reader = Reader {
            client: client.clone(),
            name: name.clone(),
            credential,
        };
        (name.clone(), Arc::new(reader) as Arc<dyn HttpRead>)
    });
    Ok(readers.collect())
}

struct Reader {
    client: HttpUpstream,
    name: UpstreamName,
    credential: Option<(HeaderName, HeaderValue)>,
}

impl HttpRead for Reader {
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Value>, HttpReadError>> {
        Box::pin(async move {
            let asked = tokio::time::timeout(TIME, self.asked(path)).await;
            asked.unwrap_or_else(|_| {
                Err(HttpReadError::Silent(format!("no answer within {TIME:?}")))
            })
        })
    }
}

impl Reader {
    async fn asked(&self, path: &str) -> Result<Option<Value>, HttpReadError> {
        let silent = HttpReadError::Silent;
        let peer = self.client.peer(&self.name);
        let peer = peer.ok_or_else(|| silent("there is no such upstream".to_owned()))?;
        let request = self.request(peer, path);
        let request = request.ok_or_else(|| silent("there is no such path".to_owned()))?;
        let answer = peer.client.request(request).await;
        let answer = answer.map_err(|error| silent(chain(&error)))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            other => return Err(HttpReadError::Status(other.as_u16())),
        }
        let unreadable = |cause: &str| HttpReadError::Unreadable(cause.to_owned());
        let header = |name: HeaderName| {
            let value = answer.headers().get(name);
            value.map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase())
        };
        let kind = header(CONTENT_TYPE).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if essence != "application/json" && !essence.ends_with("+json") {
            return Err(unreadable("it is not JSON by its Content-Type"));
        }
        if header(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(unreadable("it is encoded, which was not asked for"));
        }
        let body = Limited::new(answer.into_body(), BYTES).collect().await;
        let body = body.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                unreadable("it is larger than 1 MiB")
            } else {
                silent(chain(&*error))
            }
        })?;
        let document = Document::read(body.to_bytes(), BODY_DEPTH);
        // Not the reader's words: they may quote the document.
        let document = document.map_err(|_| unreadable("it is not strict JSON"))?;
        let (value, _) = document
            .value(document.root())
            .map_err(|_| unreadable("it has a number that cannot be read exactly"))?;
        Ok(Some(value))
    }

    fn request(&self, peer: &Peer, path: &str) -> Option<Request<Full<Bytes>>> {
        let target = peer.base.join(&path.parse::<Uri>().ok()?)?;
        let host = target.authority()?.as_str().to_owned();
        let mut request = Request::get(target)
            .header(HOST, host)
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
            .body(Full::default())
            .ok()?;
        if let Some((name, value)) = &self.credential {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        Some(request)
    }
}
