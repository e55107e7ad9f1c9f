//! One URL, read so that no two readers can disagree about where it leads.
//!
//! RFC 3986 and the WHATWG standard differ on backslashes, user information, missing slashes, control characters,
//! percent-encoded and mapped host names and on IPv4 spellings. Every form on which they differ is refused; what is left is
//! read by the `url` crate as a second opinion and must give the same host and port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::code::{Code, Denied};

/// Schemes that are followed by `//` and a host to connect to, with their default ports.
const NETWORK: [(&str, u16); 5] = [
    ("http", 80),
    ("https", 443),
    ("ws", 80),
    ("wss", 443),
    ("ftp", 21),
];

/// Longest host name in DNS, without the trailing dot (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;

/// Longest label of a host name (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;

/// A host as it is compared: a name in A-label form, lower case, without trailing dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Domain(String),
    /// An address literal.
    Ip(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Scheme, lower case: one that connects to a host.
    pub scheme: &'static str,
    /// Host.
    pub host: Host,
    /// Port, where it is not the scheme's default.
    pub port: Option<u16>,
}

impl Target {
    /// The port to connect to.
    pub fn port_number(&self) -> u16 {
        self.port
            .or_else(|| default_port(self.scheme))
            .unwrap_or_default()
    }

    /// The port that the scheme goes without saying.
    pub(super) fn standard_port(&self) -> u16 {
        default_port(self.scheme).unwrap_or_default()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A whole URL: where it leads, and what it asks for there. Its display is the one serialisation: what was approved is what
/// is sent. The fragment is never sent and is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    /// Scheme, host and port.
    pub target: Target,
    path: String,
    query: Option<String>,
    /// It goes on in the text that it was found in.
    cut: bool,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.target, self.path)?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

impl Url {
    /// Reads a whole string as one absolute URL with a host.
    ///
    /// # Errors
    /// The first thing that makes it unreadable, or a scheme that does not connect to a host.
    pub fn read(text: &str) -> Result<Self, Denied> {
        if text.chars().any(char::is_control) {
            return Err(CONTROL);
        }
        if text.chars().any(char::is_whitespace) {
            return Err(BLANK);
        }
        let (scheme, rest) = text.split_once(':').ok_or(NO_SCHEME)?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if !is_scheme {
            return Err(NO_SCHEME);
        }
        let scheme = network(scheme).ok_or(SCHEME)?;
        let after = rest.trim_start_matches(['/', '\\']);
        let slashes = rest.get(..rest.len() - after.len()).unwrap_or_default();
        match slashes {
            "//" => {}
            _ if slashes.contains('\\') => return Err(BACKSLASH),
            _ => return Err(SLASHES),
        }
        let end = after.find(['/', '?', '#', '\\']).unwrap_or(after.len());
        let (authority, tail) = after.split_at_checked(end).unwrap_or((after, ""));
        if tail.starts_with('\\') {
            return Err(BACKSLASH);
        }
        let target = read_authority(scheme, authority)?;
        let url = Self::with_tail(target, tail)?;
        if tail.contains('\\') {
            return Err(TAIL_BACKSLASH);
        }
        second_opinion(text, &url.target)?;
        Ok(url)
    }

    /// Reads a URL without its scheme: `a.example:8080/x`. Its scheme is empty.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_bare(text: &str) -> Result<Self, Denied> {
        let mut url = Self::read(&format!("http://{text}"))?;
        let end = text.find(['/', '?', '#']).unwrap_or(text.len());
        url.target = read_authority("", text.get(..end).unwrap_or_default())?;
        Ok(url)
    }

    /// The same place by another scheme.
    #[must_use]
    pub(super) fn with_scheme(&self, scheme: &'static str) -> Self {
        let mut url = self.clone();
        url.target.scheme = scheme;
        url.target.port = url
            .target
            .port
            .filter(|port| default_port(scheme) != Some(*port));
        url
    }

    /// A URL from where it leads and what follows the authority: a path, a query, a fragment, each of them or none.
    ///
    /// # Errors
    /// A backslash in the path: the WHATWG standard takes it for a slash, RFC 3986 forbids it.
    pub(super) fn with_tail(target: Target, tail: &str) -> Result<Self, Denied> {
        let sent = tail.split('#').next().unwrap_or_default();
        let (path, query) = match sent.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (sent, None),
        };
        if path.contains('\\') {
            return Err(PATH_BACKSLASH);
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            target,
            path: encoded(path),
            query: query.map(encoded),
            cut: false,
        })
    }

    /// The same, longer than what was read of it.
    #[must_use]
    pub(super) fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    /// Whether only its beginning was read.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// The path as it is sent: it begins with a slash, and what is not ASCII is percent-encoded.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query as it is sent, without the question mark.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }
}

/// Percent-encodes what no reader sends as it stands.
fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, UNSENT).to_string()
}

/// What the WHATWG standard encodes in a query of a web URL.
const UNSENT: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>');

const USERINFO: Denied = Denied::new(Code::Userinfo, "user information before the host");
pub(super) const BACKSLASH: Denied =
    Denied::new(Code::AmbiguousAuthority, "a backslash in the authority");
const PATH_BACKSLASH: Denied = Denied::new(Code::AmbiguousPath, "a backslash in the path");
const TAIL_BACKSLASH: Denied = Denied::new(Code::MalformedUrl, "a backslash in the query");
const ENCODED: Denied = Denied::new(Code::EncodedHost, "percent-encoding in the host");
pub(super) const CONTROL: Denied = Denied::new(Code::ControlChar, "a control character inside");
pub(super) const BLANK: Denied = Denied::new(Code::MalformedUrl, "white space around or inside");
const NO_SCHEME: Denied = Denied::new(Code::MalformedUrl, "no scheme");
const NO_HOST: Denied = Denied::new(Code::MalformedUrl, "no host");
pub(super) const SCHEME: Denied = Denied::new(
    Code::SchemeNotAllowed,
    "the scheme is not one that connects to a host",
);
pub(super) const SLASHES: Denied = Denied::new(
    Code::MalformedUrl,
    "not exactly two slashes after the scheme",
);
const NAME: Denied = Denied::new(Code::MalformedUrl, "not a plain host name");
const MAPPED: Denied = Denied::new(
    Code::AmbiguousHost,
    "characters in the host that readers map or drop",
);
const ADDRESS: Denied = Denied::new(Code::AmbiguousIp, "not a plain spelling of an address");
const PORT: Denied = Denied::new(Code::MalformedUrl, "not a plain port");
const DISAGREE: Denied = Denied::new(Code::AmbiguousAuthority, "URL readers disagree about it");

/// Reads a whole string as one absolute URL and says where it leads.
///
/// # Errors
/// As [`Url::read`].
pub fn read(url: &str) -> Result<Target, Denied> {
    Url::read(url).map(|url| url.target)
}

/// The scheme in the form that [`Target`] holds, if it is one that connects to a host.
pub(super) fn network(scheme: &str) -> Option<&'static str> {
    NETWORK
        .iter()
        .map(|(name, _)| *name)
        .find(|name| name.eq_ignore_ascii_case(scheme))
}

/// The port that the scheme goes without saying.
fn default_port(scheme: &str) -> Option<u16> {
    NETWORK
        .iter()
        .find(|(name, _)| *name == scheme)
        .map(|(_, port)| *port)
}

/// Every scheme that connects to a host, best first.
pub const SCHEMES: [&str; 5] = ["https", "wss", "http", "ws", "ftp"];

/// Reads `host`, `host:port`, `[v6]` or `[v6]:port`: what stands between the slashes of a URL, or in a CONNECT line.
///
/// # Errors
/// Whatever is not a plain host with a plain port.
pub fn read_authority(scheme: &'static str, authority: &str) -> Result<Target, Denied> {
    for (mark, refusal) in [('@', USERINFO), ('\\', BACKSLASH), ('%', ENCODED)] {
        if authority.contains(mark) {
            return Err(refusal);
        }
    }
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or(ADDRESS)?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port),
            None if rest.is_empty() => None,
            None => return Err(ADDRESS),
        };
        (Host::Ip(IpAddr::V6(read_v6(address)?)), port)
    } else {
        let (name, port) = match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        };
        (read_host(name)?, port)
    };
    let port = port.map(read_port).transpose()?;
    Ok(Target {
        scheme,
        host,
        port: port.filter(|port| default_port(scheme) != Some(*port)),
    })
}

fn read_port(text: &str) -> Result<u16, Denied> {
    // As it would be written again: a zero before it is octal to some readers, and `0` is no port.
    let plain = text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit());
    if !plain || text.starts_with('0') {
        return Err(PORT);
    }
    text.parse().map_err(|_| PORT)
}

fn read_host(text: &str) -> Result<Host, Denied> {
    if !ends_in_a_number(text) {
        return read_domain(text).map(Host::Domain);
    }
    // The standard library takes four decimal numbers without leading zeros, and nothing else.
    let address: Ipv4Addr = text.parse().map_err(|_| ADDRESS)?;
    Ok(Host::Ip(IpAddr::V4(address)))
}

/// WHATWG URL section 3.5: such a host is an IPv4 address or a failure, never a name.
fn ends_in_a_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last
        .get(..2)
        .is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    hex || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// An IPv6 literal. An address with a zone, or another form that not all readers take, is none.
fn read_v6(text: &str) -> Result<Ipv6Addr, Denied> {
    text.parse().map_err(|_| ADDRESS)
}

/// Reads a host name into the form that lists hold: A-labels, lower case, without the one trailing dot it may have.
///
/// A name in Unicode is taken only as it would be displayed: normalised, lower case, nothing that UTS 46 maps or drops.
///
/// # Errors
/// [`Code::AmbiguousHost`] for characters that readers map or drop, [`Code::MalformedUrl`] for everything else.
pub fn read_domain(text: &str) -> Result<String, Denied> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() {
        return Err(NO_HOST);
    }
    let lower = name.to_ascii_lowercase();
    let ascii = if lower.is_ascii() && !lower.contains("xn--") {
        lower
    } else {
        // Joiners are valid in some scripts, and nobody sees them.
        if lower.contains(['\u{200c}', '\u{200d}']) {
            return Err(MAPPED);
        }
        let ascii = idna::domain_to_ascii(&lower).map_err(|_| MAPPED)?;
        let (shown, valid) = idna::domain_to_unicode(&ascii);
        valid.map_err(|_| MAPPED)?;
        if lower != ascii && lower != shown {
            return Err(MAPPED);
        }
        ascii
    };
    let plain = |label: &str| {
        !label.is_empty()
            && label.len() <= MAX_LABEL
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if ascii.len() > MAX_NAME || !ascii.split('.').all(plain) || ends_in_a_number(&ascii) {
        return Err(NAME);
    }
    Ok(ascii)
}

/// What the `url` crate makes of it must be the same place.
fn second_opinion(url: &str, target: &Target) -> Result<(), Denied> {
    let parsed = url::Url::parse(url).map_err(|_| DISAGREE)?;
    let same_host = match (parsed.host(), &target.host) {
        (Some(url::Host::Domain(theirs)), Host::Domain(ours)) => {
            theirs.strip_suffix('.').unwrap_or(theirs) == ours
        }
        (Some(url::Host::Ipv4(theirs)), Host::Ip(ours)) => IpAddr::V4(theirs) == *ours,
        (Some(url::Host::Ipv6(theirs)), Host::Ip(ours)) => IpAddr::V6(theirs) == *ours,
        _ => false,
    };
    let same = same_host
        && parsed.scheme() == target.scheme
        && parsed.port() == target.port
        && parsed.username().is_empty()
        && parsed.password().is_none();
    if same { Ok(()) } else { Err(DISAGREE) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(url: &str) -> String {
        read(url).unwrap().host.to_string()
    }

    #[test]
    fn plain_forms_give_one_host() {
        assert_eq!(host("https://api.shop.example/x"), "api.shop.example");
        assert_eq!(host("HTTPS://API.Shop.Example.:443?q"), "api.shop.example");
        assert_eq!(host("http://b\u{fc}cher.example"), "xn--bcher-kva.example");
        assert_eq!(
            host("http://xn--bcher-kva.example#f"),
            "xn--bcher-kva.example"
        );
        assert_eq!(host("https://my_host.example/@bob:x"), "my_host.example");
        assert_eq!(host("http://192.0.2.7/"), "192.0.2.7");
        assert_eq!(host("http://[2001:db8::1]:8080/"), "[2001:db8::1]");
        assert_eq!(read("https://a.example:443/").unwrap().port, None);
        assert_eq!(read("http://a.example:443/").unwrap().port, Some(443));
    }

    #[test]
    fn forms_that_readers_differ_on_are_refused() {
        for url in [
            "https://a.example@b.example/",
            "https://u:p@a.example/",
            "https://b.example\\@a.example/",
            "https:\\\\a.example/",
            "https:/a.example/",
            "https:///a.example/",
            "https:a.example",
            "https://a.ex\tample/",
            "https://a.example /",
            " https://a.example/",
            "https://a%2Eexample/",
            "https://a\u{ff0e}example/",
            "https://a.e\u{ad}xample/",
            "https://a.e\u{200b}xample/",
            "https://\u{ff41}.example/",
            "https://B\u{dc}cher.example/",
            "https://a..example/",
            "https://.example/",
            "https://a.example../",
            "https://a.example,b.example/",
            "https://xn--a.example/",
            "https:///",
            "https://",
            "https://:80/",
            "https://a.example:/",
            "https://a.example:+80/",
            "https://a.example:080/",
            "https://a.example:80:80/",
            "https://a.example:99999/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://0300.0250.1.1/",
            "http://2130706433/",
            "http://192.0.2.7./",
            "http://1.2.3.4.5/",
            "http://[fe80::1%25eth0]/",
            "http://[::1/",
            "http://[::1]x/",
        ] {
            assert!(read(url).unwrap_err().code.is_unreadable(), "{url}");
        }
        for url in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:,x",
            "gopher://a",
        ] {
            assert_eq!(read(url), Err(SCHEME), "{url}");
        }
        assert!(read("a.example").is_err());
    }

    #[test]
    fn look_alike_letters_are_another_name() {
        assert_ne!(
            host("https://p\u{430}y.example/"),
            host("https://pay.example/")
        );
    }

    proptest! {
        #[test]
        fn reading_never_panics_and_agrees_with_the_url_crate(url in "(https?:)?[/\\\\]{0,3}\\PC{0,30}") {
            if let Ok(target) = read(&url) {
                let theirs = url::Url::parse(&url).unwrap();
                let theirs = theirs.host_str().unwrap().trim_end_matches('.');
                prop_assert_eq!(theirs, target.host.to_string());
            }
        }
    }
}
