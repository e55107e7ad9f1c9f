//! What ties a conversation together.

use http::HeaderName;

use super::default_session;
use super::jwt::claim;
use crate::names::SessionKey;
use crate::settings::{Principals, SessionSource};
use crate::source::{Field, Fields};

/// Headers that belong to the connection or the message, and carry nothing of an agent.
const RESERVED: [&str; 11] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn header(field: &Field<'_>) -> Option<HeaderName> {
    let text = field.text()?;
    let header = text.to_ascii_lowercase().parse::<HeaderName>().ok();
    let Some(header) = header.filter(|header| !RESERVED.contains(&header.as_str())) else {
        field.error(
            format!("`{text}` cannot be used here as a header"),
            "write a header's name, such as `authorization` or `x-api-key`",
        );
        return None;
    };
    Some(header)
}

pub(super) fn session(
    fields: &mut Fields<'_>,
    principals: Option<&mut Principals>,
) -> Option<SessionSource> {
    let Some(field) = fields.optional("session") else {
        return Some(default_session());
    };
    let mut fields = field.map()?;
    match fields.exactly_one(&["header", "fixed", "claim"])? {
        ("header", field) => {
            let header = header(&field)?;
            if principals.and_then(|it| it.header()) == Some(&header) {
                field.error(
                    format!("`{header}` already carries the caller's credential"),
                    "name another header, such as `holdpoint-session`",
                );
                return None;
            }
            Some(SessionSource::Header(header))
        }
        ("claim", field) => {
            let name = claim(&field)?;
            let Some(Principals::Jwt(jwt)) = principals else {
                field.error(
                    "there are no tokens whose claim could name the session",
                    "use `session: {header: holdpoint-session}`, or `principal: {jwt: ...}`",
                );
                return None;
            };
            if jwt.claims.session.as_ref().is_some_and(|it| *it != name) {
                field.error(
                    "`principal.jwt.claims.session` names another claim",
                    "keep one of the two",
                );
                return None;
            }
            jwt.claims.session = Some(name);
            Some(SessionSource::Token)
        }
        (_, field) => {
            let key = field.text()?;
            if principals.is_some_and(|it| !matches!(it, Principals::Fixed(_))) {
                field.error(
                    "one fixed session for several principals would mix their conversations",
                    "use `session: {header: holdpoint-session}`, or `principal: {fixed: ...}`",
                );
                return None;
            }
            Some(SessionSource::Fixed(SessionKey::from(key)))
        }
    }
}
