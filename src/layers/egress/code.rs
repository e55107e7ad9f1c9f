//! Why a destination is refused: a closed list of fine codes.

use std::fmt;

use crate::verdict::Reason;

/// The fine code of a refusal. The words of [`Code::as_str`] are promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// No absolute URL with a host.
    MalformedUrl,
    /// The scheme is not one of the rule's.
    SchemeNotAllowed,
    /// User information before the host.
    Userinfo,
    /// Readers disagree about where the authority ends or what is in it.
    AmbiguousAuthority,
    /// Percent-encoding in the authority.
    EncodedHost,
    /// Characters in the host that readers map or drop.
    AmbiguousHost,
    /// The host is on no list.
    HostNotAllowed,
    /// The host is listed, but not with this port.
    PortNotAllowed,
    /// The host is listed, but not with this path.
    PathNotAllowed,
    /// Readers disagree about the path.
    AmbiguousPath,
    /// The method is not one of the rule's.
    MethodNotAllowed,
    /// An address where only names are allowed.
    IpLiteral,
    /// An address that is not plainly spelled.
    AmbiguousIp,
    /// A private, local, reserved or metadata address or name, or the guard's own.
    PrivateAddress,
    /// A control character.
    ControlChar,
    /// A redirect leads where the rule does not allow.
    RedirectNotAllowed,
    /// Redirects lead in a circle, or there are too many.
    RedirectLoop,
    /// No well-formed request to a forward proxy.
    MalformedRequest,
    /// The Host header names another place than the request.
    HostMismatch,
    /// TLS in the tunnel asks for another name than the tunnel leads to.
    SniMismatch,
    /// TLS in the tunnel names no server.
    SniMissing,
    /// The tunnel does not begin with TLS.
    NotTls,
    /// The query is longer than the rule allows.
    QueryTooLong,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 23] = [
        Self::MalformedUrl,
        Self::SchemeNotAllowed,
        Self::Userinfo,
        Self::AmbiguousAuthority,
        Self::EncodedHost,
        Self::AmbiguousHost,
        Self::HostNotAllowed,
        Self::PortNotAllowed,
        Self::PathNotAllowed,
        Self::AmbiguousPath,
        Self::MethodNotAllowed,
        Self::IpLiteral,
        Self::AmbiguousIp,
        Self::PrivateAddress,
        Self::ControlChar,
        Self::RedirectNotAllowed,
        Self::RedirectLoop,
        Self::MalformedRequest,
        Self::HostMismatch,
        Self::SniMismatch,
        Self::SniMissing,
        Self::NotTls,
        Self::QueryTooLong,
    ];

    /// The code in details, tests and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MalformedUrl => "malformed_url",
            Self::SchemeNotAllowed => "scheme_not_allowed",
            Self::Userinfo => "userinfo",
            Self::AmbiguousAuthority => "ambiguous_authority",
            Self::EncodedHost => "encoded_host",
            Self::AmbiguousHost => "ambiguous_host",
            Self::HostNotAllowed => "host_not_allowed",
            Self::PortNotAllowed => "port_not_allowed",
            Self::PathNotAllowed => "path_not_allowed",
            Self::AmbiguousPath => "ambiguous_path",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::IpLiteral => "ip_literal",
            Self::AmbiguousIp => "ambiguous_ip",
            Self::PrivateAddress => "private_address",
            Self::ControlChar => "control_char",
            Self::RedirectNotAllowed => "redirect_not_allowed",
            Self::RedirectLoop => "redirect_loop",
            Self::MalformedRequest => "malformed_request",
            Self::HostMismatch => "host_mismatch",
            Self::SniMismatch => "sni_mismatch",
            Self::SniMissing => "sni_missing",
            Self::NotTls => "not_tls",
            Self::QueryTooLong => "query_too_long",
        }
    }

    /// Whether the destination could not be read, as opposed to one that is read and not allowed.
    pub const fn is_unreadable(self) -> bool {
        matches!(
            self,
            Self::MalformedUrl
                | Self::Userinfo
                | Self::AmbiguousAuthority
                | Self::EncodedHost
                | Self::AmbiguousHost
                | Self::AmbiguousPath
                | Self::AmbiguousIp
                | Self::ControlChar
                | Self::MalformedRequest
        )
    }

    /// Whether something else than the rule's lists may still vouch for the destination: it is read, public, and merely
    /// unlisted.
    pub const fn is_unlisted(self) -> bool {
        matches!(
            self,
            Self::HostNotAllowed | Self::PathNotAllowed | Self::PortNotAllowed
        )
    }

    /// The reason that the agent is told.
    pub const fn reason(self) -> Reason {
        if self.is_unreadable() {
            Reason::UrlUnreadable
        } else {
            Reason::HostNotAllowed
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: the code, and fixed words for the operator that never hold text of what was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{code}: {why}")]
pub struct Denied {
    /// Which refusal.
    pub code: Code,
    /// What exactly is wrong.
    pub why: &'static str,
}

impl Denied {
    /// A refusal.
    pub const fn new(code: Code, why: &'static str) -> Self {
        Self { code, why }
    }
}
