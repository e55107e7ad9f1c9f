//! Names of resources: a URI that an MCP client asks its own server for.
//!
//! `note://a` and `file:///home/x/a.txt` are names that the server gave; nobody connects to a host for them, so no list of
//! hosts could ever allow them. What a general client of the scheme would open on the network stays a URL.

use super::{find, target};

/// Where MCP's methods name a resource of the server: the method, and the place in its params.
const PLACES: [(&str, &str); 4] = [
    ("resources/read", "/uri"),
    ("resources/subscribe", "/uri"),
    ("resources/unsubscribe", "/uri"),
    ("completion/complete", "/ref/uri"),
];

/// Where a subscription lists them.
const LISTED: (&str, &str) = (
    "subscriptions/listen",
    "/notifications/resourceSubscriptions/",
);

/// Schemes, besides those of [`target`], with which clients reach a host or a store of somebody's.
const REACHING: [&str; 55] = [
    "abfs",
    "abfss",
    "afp",
    "amqp",
    "amqps",
    "az",
    "cifs",
    "dav",
    "davs",
    "dict",
    "dns",
    "finger",
    "ftps",
    "gemini",
    "git",
    "gopher",
    "grpc",
    "grpcs",
    "gs",
    "hdfs",
    "imap",
    "imaps",
    "ipfs",
    "irc",
    "ircs",
    "kafka",
    "ldap",
    "ldaps",
    "mariadb",
    "mongodb",
    "mqtt",
    "mqtts",
    "mysql",
    "nats",
    "nfs",
    "nntp",
    "pop3",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "rsync",
    "rtmp",
    "rtsp",
    "s3",
    "scp",
    "sftp",
    "smb",
    "smtp",
    "smtps",
    "ssh",
    "svn",
    "telnet",
    "tftp",
    "webdav",
];

/// Whether the method names a resource there.
pub(super) fn is_at(method: &str, pointer: &str) -> bool {
    PLACES.contains(&(method, pointer)) || method == LISTED.0 && pointer.starts_with(LISTED.1)
}

/// What stands behind the scheme of a URI that connects to no host: URLs may stand in it all the same. `None` for a URI that
/// may connect to one, and for what readers may take for something else.
pub(super) fn inside(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    // One letter is a drive.
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_of_scheme);
    // Of `git+https` either part.
    let reaches = scheme
        .split(['+', '-', '.'])
        .any(|part| target::network(part).is_some() || find::is_active(part) || is_reaching(part));
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    if !is_scheme || reaches || rest.contains(odd) {
        return None;
    }
    let inside = rest.trim_start_matches('/');
    if scheme.eq_ignore_ascii_case("file") {
        return is_local(rest).then(|| inside.strip_prefix("localhost/").unwrap_or(inside));
    }
    Some(inside)
}

fn is_of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
}

fn is_reaching(scheme: &str) -> bool {
    REACHING
        .iter()
        .any(|name| name.eq_ignore_ascii_case(scheme))
}

/// `file:` with a host, or with a path that begins with two slashes, is a share on the network for some systems.
fn is_local(rest: &str) -> bool {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = path.strip_prefix("localhost").unwrap_or(path);
    path.strip_prefix('/')
        .is_some_and(|path| !path.starts_with(['/', '%']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_servers_own_is_told_from_a_url() {
        for (uri, rest) in [
            ("note://a", "a"),
            ("NOTE:a/b", "a/b"),
            ("x-acme.notes:///a", "a"),
            ("file:///home/x/a.txt", "home/x/a.txt"),
            ("file:/home/x", "home/x"),
            ("file://localhost/home/x", "home/x"),
            (
                "note://a?u=https://evil.example",
                "a?u=https://evil.example",
            ),
        ] {
            assert_eq!(inside(uri), Some(rest), "{uri}");
        }
        for uri in [
            "https://a.example",
            "FTP://a.example",
            "sftp://a.example",
            "s3://bucket/key",
            "git+ssh://a.example",
            "git+HTTPS://a.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "file://evil.example/share",
            "file:////evil.example/share",
            "file:///%2Fevil.example/share",
            "file://localhost.evil.example/x",
            "file:a",
            "note:\\\\evil.example",
            "no\tte://a",
            "note://a b",
            "1x://a",
            "c:/x",
            "a.example/x",
            "://a",
            "",
        ] {
            assert_eq!(inside(uri), None, "{uri}");
        }
    }
}
