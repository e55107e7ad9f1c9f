//! Every error of the proxy's own, with its status. `docs/reference/errors.md` explains each; a test compares.

use std::borrow::Cow;

use http::{HeaderValue, StatusCode};

use crate::names::{RuleId, TicketId};
use crate::protocols::{Malformed, Refusal};
use crate::verdict::{Finding, Hold, LayerId, Reason, Undecided};
use crate::wire::body::BodyError;
use crate::wire::json::JsonError;

/// A refusal on its way out. Boxed: results that are mostly fine stay small.
pub type Refused = Box<Refusal>;

/// One error code.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// Stable, closed.
    pub code: &'static str,
    /// Sent with it.
    pub status: StatusCode,
    /// Whether the client may try the same again.
    pub retry: bool,
    /// For the agent: what happened and what to do.
    pub message: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal $status:ident $retry:literal $message:literal;)*) => {
        $(
            #[doc = $message]
            pub const $name: ErrorCode = ErrorCode {
                code: $code,
                status: StatusCode::$status,
                retry: $retry,
                message: $message,
            };
        )*

        /// Every code but the policy's reasons ([`crate::verdict::Reason`]).
        pub const CODES: &[&ErrorCode] = &[$(&$name),*];
    };
}

codes! {
    ROUTE_UNKNOWN = "route_unknown" NOT_FOUND false
        "No route of the proxy has this path. Check the base URL against the routes in the config.";
    PATH_INVALID = "path_invalid" BAD_REQUEST false
        "The path is ambiguous. Send it without dot segments, encoded slashes or escapes of escapes.";
    HOST_INVALID = "host_invalid" BAD_REQUEST false
        "Send exactly one Host header, equal to the authority of the request's target.";
    HOST_REFUSED = "host_refused" FORBIDDEN false
        "The Host header names another server. Use the proxy's address, or add the name to `listen.hosts`.";
    ORIGIN_REFUSED = "origin_refused" FORBIDDEN false
        "A web page of another origin sent this. If it may, add its origin to `listen.origins`.";
    HEADERS_TOO_LARGE = "headers_too_large" REQUEST_HEADER_FIELDS_TOO_LARGE false
        "Send at most 100 headers, 64 KiB of them, 16 KiB in one and 4 KiB in one of MCP's.";
    FRAMING_INVALID = "framing_invalid" BAD_REQUEST false
        "Send either Content-Length or `Transfer-Encoding: chunked`, once.";
    HEADER_DUPLICATE = "header_duplicate" BAD_REQUEST false
        "Send Content-Type, Content-Encoding, Authorization, Origin and each header of MCP at most once.";
    HEADER_MISMATCH = "header_mismatch" BAD_REQUEST false
        "Send each header that mirrors the body once, and equal to it.";
    CONNECTION_INVALID = "connection_invalid" BAD_REQUEST false
        "The Connection header names a header that must reach the proxy.";
    LOOP_DETECTED = "loop_detected" BAD_REQUEST false
        "The request has passed this proxy before. Check that no upstream URL leads back to it.";
    CREDENTIAL_MISSING = "credential_missing" UNAUTHORIZED false
        "The request has no credential, or two. Send one API key, token or client certificate.";
    CREDENTIAL_UNKNOWN = "credential_unknown" UNAUTHORIZED false
        "The API key or the name in the client certificate is unknown. Send one that the config maps to a principal.";
    TOKEN_INVALID = "token_invalid" UNAUTHORIZED false
        "The token is not one of the issuer's for this proxy. Get a new one.";
    TOKEN_EXPIRED = "token_expired" UNAUTHORIZED false
        "The token is expired. Get a new one.";
    DELEGATION_REFUSED = "delegation_refused" FORBIDDEN false
        "The token is good, and the agent that it names may not act for the user.";
    KEYS_UNAVAILABLE = "keys_unavailable" SERVICE_UNAVAILABLE true
        "The token cannot be verified now, since the issuer's keys cannot be read. Try again in a moment.";
    PROXY_CREDENTIAL_UNKNOWN = "proxy_credential_unknown" PROXY_AUTHENTICATION_REQUIRED false
        "The forward proxy needs an API key that the config maps to a principal: send it in Proxy-Authorization.";
    PROXY_FORM_INVALID = "proxy_form_invalid" BAD_REQUEST false
        "Ask the forward proxy as a proxy: `CONNECT host:port`, or a whole `http://` URL, without user info.";
    SESSION_INVALID = "session_invalid" BAD_REQUEST false
        "The session header must be there once at most, with 1 to 256 visible ASCII characters.";
    SESSION_UNKNOWN = "session_unknown" NOT_FOUND false
        "The session is not one of this caller's. Begin a new one.";
    SECRET_REFUSED = "secret_refused" FORBIDDEN false
        "A placeholder names a secret that is unknown, or may not stand there or go to this upstream. Nothing was sent.";
    BODY_TOO_LARGE = "body_too_large" PAYLOAD_TOO_LARGE false
        "The request's body is above the proxy's limit, as sent or decoded.";
    BODY_UNEXPECTED = "body_unexpected" BAD_REQUEST false
        "Send GET and HEAD without a body.";
    BODY_INCOMPLETE = "body_incomplete" BAD_REQUEST false
        "The request's body ended before its announced length.";
    BODY_STALLED = "body_stalled" REQUEST_TIMEOUT true
        "The request's body stood still for too long.";
    BODY_EXPANDS = "body_expands" PAYLOAD_TOO_LARGE false
        "The request's body grows too much when decoded. Send it plain, or with less compression.";
    MEMORY_EXHAUSTED = "memory_exhausted" SERVICE_UNAVAILABLE true
        "The bodies of other requests fill the proxy's memory. Try again in a moment.";
    ENCODING_UNKNOWN = "encoding_unknown" UNSUPPORTED_MEDIA_TYPE false
        "Send the body plain, or in gzip, deflate, br or zstd, at most two of them.";
    ENCODING_INVALID = "encoding_invalid" BAD_REQUEST false
        "The body is not valid in the encoding that Content-Encoding names.";
    MEDIA_TYPE_UNSUPPORTED = "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE false
        "Send the body as `application/json` in UTF-8.";
    JSON_INVALID = "invalid_json" BAD_REQUEST false
        "The body is not strict JSON.";
    REQUEST_INVALID = "invalid_request" BAD_REQUEST false
        "The request is not valid in the route's protocol. The message names the field.";
    UPGRADE_UNSUPPORTED = "upgrade_unsupported" UPGRADE_REQUIRED false
        "WebSocket is not served here. Send the request over HTTP; answers may be streamed as server-sent events.";
    ENDPOINT_UNKNOWN = "endpoint_unknown" NOT_FOUND false
        "The route does not know this method and path. On an HTTP tool route, map it to a tool in the config.";
    METHOD_NOT_ALLOWED = "method_not_allowed" METHOD_NOT_ALLOWED false
        "The endpoint exists with another method.";
    ARGUMENT_AMBIGUOUS = "argument_ambiguous" BAD_REQUEST false
        "Two of path, query, headers and body give the same argument.";
    ARGUMENT_UNREADABLE = "argument_unreadable" BAD_REQUEST false
        "The path, the query, a header or the body cannot be read as named arguments.";
    OVERLOADED = "overloaded" SERVICE_UNAVAILABLE true
        "Too many requests at once. Try again in a moment.";
    NOT_RECORDED = "not_recorded" SERVICE_UNAVAILABLE true
        "The decision could not be recorded, so nothing was sent. Try again later.";
    NAME_UNRESOLVED = "name_unresolved" BAD_GATEWAY true
        "The host's name has no address right now; nothing was sent.";
    TUNNEL_STALLED = "tunnel_stalled" REQUEST_TIMEOUT false
        "The tunnel did not begin with a whole TLS hello in time, so it was closed.";
    UPSTREAM_UNREACHABLE = "upstream_unreachable" BAD_GATEWAY true
        "The upstream cannot be reached; nothing was sent. Check its URL in the config and that it runs.";
    UPSTREAM_TIMEOUT = "upstream_timeout" GATEWAY_TIMEOUT false
        "The upstream did not answer in time. The request may have been carried out.";
    UPSTREAM_BROKEN = "upstream_broken" BAD_GATEWAY false
        "The connection to the upstream broke. The request may have been carried out.";
    RESPONSE_TOO_LARGE = "upstream_too_large" BAD_GATEWAY false
        "The upstream's answer is above the proxy's limit. Ask for less, or raise `limits.response_body`.";
    RESPONSE_UNREADABLE = "upstream_invalid_response" BAD_GATEWAY false
        "The upstream's answer is not valid, so it was not passed on.";
    RESPONSE_TRUNCATED = "upstream_truncated" BAD_GATEWAY false
        "The upstream's answer ended early, so it was not passed on.";
    ANSWER_NOT_HELD = "answer_not_held" BAD_GATEWAY false
        "The upstream answered, and the bodies of other requests fill the proxy's memory, so the answer was dropped.";
    ALREADY_DONE = "already_done" FORBIDDEN false
        "This call was carried out before and is not repeated.";
    RULING_UNWRITABLE = "ruling_unwritable" INTERNAL_SERVER_ERROR false
        "A verdict could not be written into the message, so it was not passed on.";
    RESPONSE_NOT_RECORDED = "response_not_recorded" BAD_GATEWAY false
        "The decision about the upstream's answer could not be recorded, so it was not passed on.";
    INTERNAL = "internal" INTERNAL_SERVER_ERROR false
        "The proxy failed on this request. The log says why.";
}

impl ErrorCode {
    /// The refusal with the code's own message.
    pub fn refusal(&self) -> Refused {
        self.saying(self.message)
    }

    /// The refusal with a message that says more.
    pub fn saying(&self, message: impl Into<Cow<'static, str>>) -> Refused {
        Box::new(Refusal {
            status: self.status,
            code: self.code,
            message: message.into().into_owned(),
            reason: None,
            hold: None,
            retry: self.retry,
        })
    }
}

impl From<&ErrorCode> for Refused {
    fn from(code: &ErrorCode) -> Self {
        code.refusal()
    }
}

/// A request that its protocol cannot read: with the code's own status, 400 for one that is not listed here.
pub(super) fn malformed_request(malformed: Malformed) -> Refused {
    let status = status(&malformed).unwrap_or(StatusCode::BAD_REQUEST);
    shown(malformed, status)
}

/// An answer that its protocol cannot read: never passed on, and not the agent's fault.
pub(super) fn malformed_response(malformed: Malformed) -> Refused {
    let status = status(&malformed).filter(StatusCode::is_server_error);
    shown(malformed, status.unwrap_or(StatusCode::BAD_GATEWAY))
}

fn status(malformed: &Malformed) -> Option<StatusCode> {
    let known = CODES.iter().find(|known| known.code == malformed.code)?;
    Some(known.status)
}

fn shown(malformed: Malformed, status: StatusCode) -> Refused {
    Box::new(Refusal {
        status,
        code: malformed.code,
        message: malformed.message,
        reason: None,
        hold: None,
        retry: false,
    })
}

/// A request's body that cannot be read.
pub(crate) fn request_body(error: &BodyError) -> Refused {
    match error {
        BodyError::TooLarge(limit) => {
            BODY_TOO_LARGE.saying(format!("The request's body is above {limit} bytes."))
        }
        BodyError::Expands => BODY_EXPANDS.refusal(),
        BodyError::NoMemory => MEMORY_EXHAUSTED.refusal(),
        BodyError::UnknownEncoding => ENCODING_UNKNOWN.refusal(),
        BodyError::BadEncoding => ENCODING_INVALID.refusal(),
        BodyError::Idle(_) => BODY_STALLED.refusal(),
        BodyError::Cut(_) => BODY_INCOMPLETE.refusal(),
    }
}

/// A request's body that is no strict JSON. Says where, not what.
pub(super) fn request_json(error: &JsonError) -> Refused {
    JSON_INVALID.saying(format!("The body is not strict JSON: {error}."))
}

/// A decision about a request that could not be made or recorded.
pub(crate) fn undecided_request(undecided: &Undecided) -> Refused {
    tracing::error!(layer = undecided.layer.as_str(), cause = %undecided.cause, "a request was refused undecided");
    NOT_RECORDED.refusal()
}

/// The same about an answer: the upstream has acted already.
pub(crate) fn undecided_response(undecided: &Undecided) -> Refused {
    tracing::error!(layer = undecided.layer.as_str(), cause = %undecided.cause, "an answer was withheld undecided");
    RESPONSE_NOT_RECORDED.refusal()
}

/// Tells SDKs whether to try again: they retry 409, 429 and 5xx by themselves.
pub(super) const fn should_retry(refusal: &Refusal) -> HeaderValue {
    HeaderValue::from_static(if refusal.retry { "true" } else { "false" })
}

/// A ticketed call was sent and nobody knows what came of it.
pub(super) fn outcome_unknown(ticket: Option<TicketId>) -> Refused {
    let finding = Finding {
        layer: LayerId::Tickets,
        rule: RuleId::from("proxy.outcome"),
        reason: Reason::OutcomeUnknown,
        argument: None,
        detail: Cow::Borrowed("no outcome was stored"),
    };
    let hold = Hold {
        ticket,
        ..Hold::new(finding.clone())
    };
    Box::new(Refusal::of(&finding, Some(&hold)))
}
