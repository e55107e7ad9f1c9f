//! The first bytes of a tunnel: TLS that asks for the name that the tunnel leads to.

use super::code::{Code, Denied};
use super::head::Tunnel;
use super::rules::Rule;
use super::target::{Host, read_domain};

/// What a tunnel begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A `ClientHello`, with the server's name where it has one (RFC 6066 section 3). With an encrypted one inside, this is the
    /// outer name.
    Hello {
        /// As it was sent.
        sni: Option<String>,
    },
    /// Anything else.
    NotTls,
}

/// Most bytes of a `ClientHello` that are waited for.
pub const MAX_HELLO: usize = 64 * 1024;

impl Opening {
    /// What these bytes begin; nothing as long as more are needed.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // A TLS record of a handshake: RFC 8446 section 5.1.
        let record = [0x16, 0x03];
        if !bytes
            .iter()
            .zip(record)
            .all(|(byte, expected)| *byte == expected)
        {
            return Some(Self::NotTls);
        }
        let mut acceptor = rustls::server::Acceptor::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            match acceptor.read_tls(&mut rest) {
                Ok(0) | Err(_) => return Some(Self::NotTls),
                Ok(_) => {}
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let sni = accepted.client_hello().server_name().map(str::to_owned);
                    return Some(Self::Hello { sni });
                }
                Err(_) => return Some(Self::NotTls),
            }
        }
        (bytes.len() > MAX_HELLO).then_some(Self::NotTls)
    }
}

const NOT_TLS: Denied = Denied::new(Code::NotTls, "the tunnel does not begin with TLS");
const MISSING: Denied = Denied::new(Code::SniMissing, "TLS in the tunnel names no server");
const MISMATCH: Denied = Denied::new(
    Code::SniMismatch,
    "TLS in the tunnel asks for another name than the tunnel leads to",
);

/// Judges what a tunnel begins with: TLS that asks for the tunnel's own name, where the rule demands it; never for another.
///
/// # Errors
/// What the rule does not allow.
pub fn opening(rule: &Rule, tunnel: &Tunnel, first: &Opening) -> Result<(), Denied> {
    let sni = match first {
        Opening::NotTls if rule.require_sni => return Err(NOT_TLS),
        Opening::NotTls => return Ok(()),
        Opening::Hello { sni } => sni,
    };
    match sni {
        None if rule.require_sni => Err(MISSING),
        None => Ok(()),
        Some(name) => match (read_domain(name), &tunnel.host) {
            (Ok(asked), Host::Domain(host)) if asked == *host => Ok(()),
            _ => Err(MISMATCH),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn hello(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let name = name.to_owned().try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    fn sni(name: &str) -> Opening {
        Opening::Hello {
            sni: Some(name.to_owned()),
        }
    }

    #[test]
    fn a_hello_is_read_however_it_is_cut() {
        let bytes = hello("api.example");
        for end in 0..bytes.len() {
            assert_eq!(Opening::read(&bytes[..end]), None, "{end}");
        }
        assert_eq!(Opening::read(&bytes), Some(sni("api.example")));
        let address = Opening::Hello { sni: None };
        assert_eq!(Opening::read(&hello("192.0.2.7")), Some(address));
    }

    #[test]
    fn plain_bytes_are_not_tls() {
        for bytes in [
            b"GET / HTTP/1.1\r\n".as_slice(),
            b"SSH-2.0-x\r\n",
            b"\x16\x02\x00\x00\x05hello",
            b"\x16\x03\x01\x00\x05hello",
            b"\x17\x03\x03\x00\x01a",
        ] {
            assert_eq!(Opening::read(bytes), Some(Opening::NotTls), "{bytes:?}");
        }
    }

    #[test]
    fn tls_must_ask_for_the_name_of_the_tunnel() {
        let mut rule = Rule::new();
        let tunnel = |host: Host| Tunnel { host, port: 443 };
        let named = tunnel(Host::Domain("api.example".to_owned()));
        let judged = |rule: &Rule, tunnel: &Tunnel, first: &Opening| {
            opening(rule, tunnel, first).map_err(|denied| denied.code)
        };
        let none = Opening::Hello { sni: None };
        assert_eq!(judged(&rule, &named, &sni("API.example")), Ok(()));
        for (first, code) in [
            (sni("evil.example"), Code::SniMismatch),
            (sni("x.api.example"), Code::SniMismatch),
            (sni(""), Code::SniMismatch),
            (none.clone(), Code::SniMissing),
            (Opening::NotTls, Code::NotTls),
        ] {
            assert_eq!(judged(&rule, &named, &first), Err(code), "{first:?}");
        }
        let address = tunnel(Host::Ip([93, 184, 216, 34].into()));
        assert_eq!(
            judged(&rule, &address, &sni("a.example")),
            Err(Code::SniMismatch)
        );
        rule.require_sni = false;
        assert_eq!(judged(&rule, &named, &none), Ok(()));
        assert_eq!(judged(&rule, &named, &Opening::NotTls), Ok(()));
        assert_eq!(
            judged(&rule, &named, &sni("evil.example")),
            Err(Code::SniMismatch)
        );
    }
}
