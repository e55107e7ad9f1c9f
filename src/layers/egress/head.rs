//! The head of a request to a forward proxy: what was asked, before anything is looked up.

use super::code::{Code, Denied};
use super::rules::Rule;
use super::target::{Host, Target, Url, read_authority};

const LINE: Denied = Denied::new(
    Code::MalformedRequest,
    "not a method, a target and a version, each apart by one blank",
);
const METHOD: Denied = Denied::new(Code::MalformedRequest, "not a method");
const VERSION: Denied = Denied::new(Code::MalformedRequest, "not HTTP/1.0 or HTTP/1.1");
const AUTHORITY_FORM: Denied = Denied::new(
    Code::MalformedRequest,
    "CONNECT takes a host and a port, and nothing else",
);
const ABSOLUTE_FORM: Denied = Denied::new(
    Code::MalformedRequest,
    "a request to a forward proxy takes a whole URL without fragment",
);
const HOSTS: Denied = Denied::new(Code::MalformedRequest, "not exactly one Host header");
const HOST: Denied = Denied::new(
    Code::HostMismatch,
    "the Host header names another place than the request",
);
const FIELD: Denied = Denied::new(
    Code::MalformedRequest,
    "a header's name or value has characters that readers split or drop",
);
const FRAMING: Denied = Denied::new(
    Code::MalformedRequest,
    "Content-Length and Transfer-Encoding, or several of one, or a coding other than chunked",
);
const BODY: Denied = Denied::new(
    Code::MalformedRequest,
    "CONNECT with a body, which some readers take for the first bytes of the tunnel",
);
const TUNNEL: Denied = Denied::new(
    Code::MalformedRequest,
    "CONNECT where a request is expected, or a request where CONNECT is",
);
const OVERRIDE: Denied = Denied::new(
    Code::MethodNotAllowed,
    "a header asks for another method than the request",
);

/// Method, target and headers as they came.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// Case-sensitive.
    pub method: &'a str,
    /// What stands between method and version.
    pub target: &'a str,
    /// Names in any case, and values without the blanks around them.
    pub headers: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Head<'a> {
    /// Reads a request line such as `CONNECT a.example:443 HTTP/1.1`.
    ///
    /// # Errors
    /// [`Code::MalformedRequest`] for another form, [`Code::ControlChar`] for control characters.
    pub fn read(line: &'a str, headers: Vec<(&'a str, &'a [u8])>) -> Result<Self, Denied> {
        if line.chars().any(char::is_control) {
            return Err(Denied::new(
                Code::ControlChar,
                "a control character in the request line",
            ));
        }
        let mut parts = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(LINE);
        };
        if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
            return Err(VERSION);
        }
        Ok(Self {
            method,
            target,
            headers,
        })
    }

    /// The one value of a header that may stand once; nothing where it is missing.
    fn values(&self, name: &str) -> Vec<&'a [u8]> {
        let named = |(given, _): &&(&str, &[u8])| given.eq_ignore_ascii_case(name);
        let of_name = self.headers.iter().filter(named);
        of_name.map(|(_, value)| *value).collect()
    }

    /// Every header is one that all readers see alike.
    fn plain(&self) -> Result<(), Denied> {
        if !is_token(self.method) {
            return Err(METHOD);
        }
        for (name, value) in &self.headers {
            let control = |b: &u8| b.is_ascii_control() && *b != b'\t';
            if !(is_token(name) || *name == AUTHORITY) || value.iter().any(control) {
                return Err(FIELD);
            }
        }
        let (lengths, codings) = (
            self.values("content-length"),
            self.values("transfer-encoding"),
        );
        let length = |value: &&[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let chunked = |value: &&[u8]| value.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let framed = match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => true,
            ([one], []) => length(&one.trim_ascii()),
            ([], [one]) => chunked(one),
            _ => false,
        };
        if framed { Ok(()) } else { Err(FRAMING) }
    }

    /// What the Host header names, and HTTP/2's `:authority`: each stands at most once, and they name the same.
    fn host(&self) -> Result<Option<Target>, Denied> {
        let mut named: Option<Target> = None;
        for name in [AUTHORITY, "host"] {
            let target = match self.values(name).as_slice() {
                [] => continue,
                [one] => {
                    let text = std::str::from_utf8(one).map_err(|_| HOST)?;
                    read_authority("", text.trim_matches([' ', '\t'])).map_err(|_| HOST)?
                }
                _ => return Err(HOSTS),
            };
            if named.is_some_and(|other| other != target) {
                return Err(HOST);
            }
            named = Some(target);
        }
        Ok(named)
    }
}

/// HTTP/2's name of the place that is asked (RFC 9113 section 8.3.1).
const AUTHORITY: &str = ":authority";

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Where a tunnel leads that the rule allows, before any look-up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// Host.
    pub host: Host,
    /// Port.
    pub port: u16,
}

/// Judges CONNECT: authority form only, host and port allowed, and a Host header, where there is one, that names the same.
///
/// # Errors
/// The first of these that does not hold.
pub fn connect(rule: &Rule, head: &Head<'_>) -> Result<Tunnel, Denied> {
    if head.method != "CONNECT" {
        return Err(TUNNEL);
    }
    if head.target.contains(['/', '?', '#']) {
        return Err(AUTHORITY_FORM);
    }
    let target = read_authority("", head.target)?;
    let port = target.port.ok_or(AUTHORITY_FORM)?;
    head.plain()?;
    let length = head.values("content-length");
    if length.iter().any(|value| value.trim_ascii() != b"0")
        || !head.values("transfer-encoding").is_empty()
    {
        return Err(BODY);
    }
    if let Some(host) = head.host()?
        && (host.host != target.host || host.port.is_some_and(|asked| asked != port))
    {
        return Err(HOST);
    }
    rule.judge_host(&target.host, port)?;
    Ok(Tunnel {
        host: target.host,
        port,
    })
}

/// Judges a plain request to a forward proxy: a whole URL that the rule allows, one Host header that names the same place, a
/// method that the rule allows, and one framing.
///
/// # Errors
/// The first of these that does not hold.
pub fn http_forward(rule: &Rule, head: &Head<'_>) -> Result<Url, Denied> {
    if head.target.contains('#') || !head.target.contains("://") {
        return Err(ABSOLUTE_FORM);
    }
    request(rule, head, Url::read(head.target)?)
}

/// Judges a request in a tunnel that was opened to read it: its target is a path, and Host names where the tunnel leads.
///
/// # Errors
/// As [`http_forward`].
pub fn intercepted(rule: &Rule, tunnel: &Tunnel, head: &Head<'_>) -> Result<Url, Denied> {
    if head.target.contains('#') {
        return Err(ABSOLUTE_FORM);
    }
    let url = if head.target.starts_with('/') {
        let whole = format!("https://{}:{}{}", tunnel.host, tunnel.port, head.target);
        Url::read(&whole)?
    } else {
        Url::read(head.target)?
    };
    if url.target.host != tunnel.host || url.target.port_number() != tunnel.port {
        return Err(HOST);
    }
    request(rule, head, url)
}

fn request(rule: &Rule, head: &Head<'_>, url: Url) -> Result<Url, Denied> {
    if head.method == "CONNECT" {
        return Err(TUNNEL);
    }
    head.plain()?;
    let host = head.host()?.ok_or(HOSTS)?;
    let asked = host.port.unwrap_or_else(|| url.target.standard_port());
    if host.host != url.target.host || asked != url.target.port_number() {
        return Err(HOST);
    }
    rule.judge(&url)?;
    rule.method(head.method)?;
    for name in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
    ] {
        let asks = |value: &[u8]| std::str::from_utf8(value).is_ok_and(|m| rule.method(m).is_ok());
        if !rule.methods.is_empty() && !head.values(name).into_iter().all(asks) {
            return Err(OVERRIDE);
        }
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::*;

    fn rule() -> Rule {
        let mut rule = Rule::new();
        rule.schemes = vec!["http".to_owned(), "https".to_owned()];
        for entry in ["api.example", "db.example:5432"] {
            rule.allow(Entry::read(entry).unwrap());
        }
        rule
    }

    fn code<T>(result: Result<T, Denied>) -> &'static str {
        result.map_or_else(|denied| denied.code.as_str(), |_| "ok")
    }

    fn tunnel(line: &str, headers: Vec<(&str, &[u8])>) -> &'static str {
        code(Head::read(line, headers).and_then(|head| connect(&rule(), &head)))
    }

    fn forward(line: &str, headers: Vec<(&str, &[u8])>) -> &'static str {
        code(Head::read(line, headers).and_then(|head| http_forward(&rule(), &head)))
    }

    #[test]
    fn connect_takes_a_host_and_a_port_and_nothing_else() {
        for (line, expected) in [
            ("CONNECT api.example:443 HTTP/1.1", "ok"),
            ("CONNECT API.example.:443 HTTP/1.1", "ok"),
            ("CONNECT db.example:5432 HTTP/1.1", "ok"),
            ("CONNECT db.example:443 HTTP/1.1", "port_not_allowed"),
            ("CONNECT api.example:80 HTTP/1.1", "port_not_allowed"),
            ("CONNECT evil.example:443 HTTP/1.1", "host_not_allowed"),
            ("CONNECT api.example HTTP/1.1", "malformed_request"),
            ("CONNECT api.example:443/x HTTP/1.1", "malformed_request"),
            (
                "CONNECT https://api.example:443 HTTP/1.1",
                "malformed_request",
            ),
            (
                "CONNECT api.example:443@evil.example:443 HTTP/1.1",
                "userinfo",
            ),
            ("CONNECT api%2eexample:443 HTTP/1.1", "encoded_host"),
            ("CONNECT api.example:443  HTTP/1.1", "malformed_request"),
            ("CONNECT api.example:443", "malformed_request"),
            ("CONNECT api.example:443 HTTP/2.0", "malformed_request"),
            ("connect api.example:443 HTTP/1.1", "malformed_request"),
            ("CONNECT api.example:443\tHTTP/1.1", "control_char"),
            ("CONNECT 10.0.0.1:443 HTTP/1.1", "private_address"),
            ("CONNECT 93.184.216.34:443 HTTP/1.1", "ip_literal"),
            ("CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1", "private_address"),
            ("CONNECT 0x7f.1:443 HTTP/1.1", "ambiguous_ip"),
            ("GET api.example:443 HTTP/1.1", "malformed_request"),
        ] {
            assert_eq!(tunnel(line, Vec::new()), expected, "{line}");
        }
    }

    #[test]
    fn host_of_connect_names_the_same_place_or_is_missing() {
        let line = "CONNECT api.example:443 HTTP/1.1";
        for (hosts, expected) in [
            (vec!["api.example:443"], "ok"),
            (vec!["API.EXAMPLE"], "ok"),
            (vec!["api.example:80"], "host_mismatch"),
            (vec!["evil.example:443"], "host_mismatch"),
            (
                vec!["api.example:443", "api.example:443"],
                "malformed_request",
            ),
            (vec!["api.example@evil.example"], "host_mismatch"),
        ] {
            let headers = hosts.iter().map(|host| ("Host", host.as_bytes())).collect();
            assert_eq!(tunnel(line, headers), expected, "{hosts:?}");
        }
    }

    #[test]
    fn a_plain_request_names_one_place_twice() {
        for (line, hosts, expected) in [
            (
                "GET http://api.example/x HTTP/1.1",
                vec!["api.example"],
                "ok",
            ),
            (
                "GET http://api.example/ HTTP/1.1",
                vec!["API.example.:80"],
                "ok",
            ),
            (
                "GET https://api.example/ HTTP/1.1",
                vec!["api.example:443"],
                "ok",
            ),
            (
                "GET http://api.example/ HTTP/1.1",
                vec!["evil.example"],
                "host_mismatch",
            ),
            (
                "GET http://api.example/ HTTP/1.1",
                vec!["api.example:8080"],
                "host_mismatch",
            ),
            (
                "GET http://api.example/ HTTP/1.1",
                vec![],
                "malformed_request",
            ),
            (
                "GET http://api.example/ HTTP/1.1",
                vec!["api.example", "api.example"],
                "malformed_request",
            ),
            ("GET / HTTP/1.1", vec!["api.example"], "malformed_request"),
            (
                "OPTIONS * HTTP/1.1",
                vec!["api.example"],
                "malformed_request",
            ),
            (
                "GET api.example/ HTTP/1.1",
                vec!["api.example"],
                "malformed_request",
            ),
            (
                "GET http://api.example/#x HTTP/1.1",
                vec!["api.example"],
                "malformed_request",
            ),
            (
                "GET http://u@api.example/ HTTP/1.1",
                vec!["api.example"],
                "userinfo",
            ),
            (
                "GET http://evil.example/ HTTP/1.1",
                vec!["evil.example"],
                "host_not_allowed",
            ),
            (
                "GET ftp://api.example/ HTTP/1.1",
                vec!["api.example"],
                "scheme_not_allowed",
            ),
            (
                "CONNECT http://api.example/ HTTP/1.1",
                vec!["api.example"],
                "malformed_request",
            ),
            (
                "G@T http://api.example/ HTTP/1.1",
                vec!["api.example"],
                "malformed_request",
            ),
        ] {
            let headers = hosts.iter().map(|host| ("host", host.as_bytes())).collect();
            assert_eq!(forward(line, headers), expected, "{line} {hosts:?}");
        }
    }

    #[test]
    fn a_body_is_framed_in_one_way() {
        for (headers, expected) in [
            (vec![("Content-Length", "3")], "ok"),
            (vec![("Transfer-Encoding", "chunked")], "ok"),
            (
                vec![("Content-Length", "3"), ("Transfer-Encoding", "chunked")],
                "malformed_request",
            ),
            (
                vec![("Content-Length", "3"), ("Content-Length", "4")],
                "malformed_request",
            ),
            (vec![("Content-Length", "+3")], "malformed_request"),
            (vec![("Content-Length", "3, 3")], "malformed_request"),
            (vec![("Transfer-Encoding", "xchunked")], "malformed_request"),
            (
                vec![("Transfer-Encoding", "gzip, chunked")],
                "malformed_request",
            ),
            (vec![("Transfer-Encoding ", "chunked")], "malformed_request"),
            (vec![("X", "a\r\nHost: evil.example")], "malformed_request"),
        ] {
            let mut given = vec![("Host", b"api.example".as_slice())];
            given.extend(
                headers
                    .iter()
                    .map(|(name, value)| (*name, value.as_bytes())),
            );
            let said = forward("POST http://api.example/ HTTP/1.1", given);
            assert_eq!(said, expected, "{headers:?}");
        }
    }

    #[test]
    fn a_method_of_the_rule_is_not_overridden() {
        let mut rule = rule();
        rule.methods = vec!["GET".to_owned()];
        let judged = |method: &str, headers: &[(&str, &str)]| {
            let mut given = vec![("Host", b"api.example".as_slice())];
            given.extend(
                headers
                    .iter()
                    .map(|(name, value)| (*name, value.as_bytes())),
            );
            let line = format!("{method} http://api.example/ HTTP/1.1");
            code(Head::read(&line, given).and_then(|head| http_forward(&rule, &head)))
        };
        assert_eq!(judged("GET", &[]), "ok");
        assert_eq!(judged("POST", &[]), "method_not_allowed");
        assert_eq!(judged("get", &[]), "method_not_allowed");
        let overriding = [("X-HTTP-Method-Override", "DELETE")];
        assert_eq!(judged("GET", &overriding), "method_not_allowed");
    }

    #[test]
    fn a_request_in_an_opened_tunnel_goes_where_the_tunnel_goes() {
        let tunnel = Tunnel {
            host: Host::Domain("api.example".to_owned()),
            port: 443,
        };
        for (line, host, expected) in [
            ("GET /x HTTP/1.1", "api.example", "ok"),
            ("GET https://api.example/x HTTP/1.1", "api.example", "ok"),
            ("GET /x HTTP/1.1", "other.example", "host_mismatch"),
            (
                "GET https://other.example/x HTTP/1.1",
                "other.example",
                "host_mismatch",
            ),
        ] {
            let headers = vec![
                (":authority", b"api.example".as_slice()),
                ("Host", host.as_bytes()),
            ];
            let head = Head::read(line, headers).unwrap();
            assert_eq!(
                code(intercepted(&rule(), &tunnel, &head)),
                expected,
                "{line}"
            );
        }
    }
}
