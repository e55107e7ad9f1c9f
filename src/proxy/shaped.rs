//! A refusal in the route's shape, with the headers that every client goes by.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use super::refuse::{self, should_retry};
use super::{Body, full};
use crate::protocols::Refusal;

pub(crate) const POLICY: HeaderName = HeaderName::from_static("holdpoint-policy");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Characters of the policy's hash that a response shows.
pub(crate) const HASH_PREFIX: usize = 12;

/// What RFC 6750 section 3 tells a client of a credential that is not taken.
fn challenge(code: &str) -> HeaderValue {
    HeaderValue::from_static(match code {
        code if code == refuse::TOKEN_EXPIRED.code => {
            "Bearer error=\"invalid_token\", error_description=\"the token is expired\""
        }
        code if code == refuse::TOKEN_INVALID.code => "Bearer error=\"invalid_token\"",
        _ => "Bearer",
    })
}

/// A refusal, with the headers that every client goes by.
pub(crate) fn refused(mut response: Response<Bytes>, refusal: &Refusal) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(SHOULD_RETRY, should_retry(refusal));
    match refusal.status {
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, challenge(refusal.code));
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            // What a proxy's clients know how to answer.
            let basic = HeaderValue::from_static("Basic realm=\"holdpoint\"");
            headers.insert(header::PROXY_AUTHENTICATE, basic);
        }
        StatusCode::UPGRADE_REQUIRED => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        _ => {}
    }
    response.map(full)
}
