//! Where to listen, and who is let in at the agents' listener.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use super::Reading;
use crate::settings::{Listen, ListenTls};
use crate::source::{Field, Fields};

const HOST_HELP: &str = "write a name alone, such as `holdpoint` or `gateway.shop.example`";
const ORIGIN_HELP: &str =
    "write scheme, host and perhaps port, such as `https://app.example` or `http://localhost:3000`";

impl Reading<'_> {
    pub(super) fn listen(&self, fields: &mut Fields<'_>, approvers: bool) -> Option<Listen> {
        let default = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let field = fields.optional("listen");
        let mut inner = match &field {
            Some(field) => Some(field.map()?),
            None => None,
        };
        let mut read = |key| inner.as_mut().and_then(|fields| fields.optional(key));
        let (agents, with_approvers, operations) =
            (read("agents"), read("approvers"), read("operations"));
        let (forward, forward_tls) = (read("forward"), read("forward_tls"));
        let (hosts, origins, tls, h2c) = (read("hosts"), read("origins"), read("tls"), read("h2c"));
        if let (Some(field), false) = (&with_approvers, approvers) {
            field.error(
                "there is a listener for approvers and nobody who may use it",
                "add `approvers`, or remove `listen.approvers`",
            );
        }
        if let (None, Some(field)) = (&forward, &forward_tls) {
            field.error(
                "there is TLS for a forward listener that is not there",
                "add `listen.forward`, or remove `listen.forward_tls`",
            );
        }
        let fields = [agents, with_approvers, operations, forward];
        let [agents, for_approvers, operations, forward] = &fields;
        let or = |field: &Option<Field<'_>>, port| match field {
            Some(field) => address(field),
            None => Some(default(port)),
        };
        let agents = or(agents, 8080);
        let (for_approvers, approvers_tls) = match (for_approvers, approvers) {
            (None, false) => (Some(None), Some(None)),
            (Some(field), _) if field.is_map() => self.listen_in_tls(field),
            (field, _) => (or(field, 8081).map(Some), Some(None)),
        };
        let operations = or(operations, 9090);
        let forward = forward
            .as_ref()
            .map_or(Some(None), |field| address(field).map(Some));
        let hosts = hosts.map_or(Some(None), |field| each(&field, host).map(Some));
        let origins = origins.map_or(Some(None), |field| each(&field, origin).map(Some));
        let files = tls
            .as_ref()
            .map_or(Some(None), |field| self.listen_tls(field).map(Some));
        let forward_files = forward_tls
            .as_ref()
            .map_or(Some(None), |field| self.listen_tls(field).map(Some));
        let plain_http2 = h2c.as_ref().map_or(Some(false), Field::bool);
        if let (Some(_), Some(true), Some(field)) = (&tls, plain_http2, &h2c) {
            field.error(
                "with `listen.tls` there is no HTTP/2 without TLS",
                "remove `h2c`: with TLS, HTTP/2 is always offered",
            );
        }
        let listen = Listen {
            agents: agents?,
            approvers: for_approvers?,
            approvers_tls: approvers_tls?,
            operations: operations?,
            forward: forward?,
            forward_tls: forward_files?,
            hosts: hosts?,
            origins: origins?,
            tls: files?,
            h2c: plain_http2?,
        };
        distinct(&listen, &fields)
    }

    /// `{address, tls}` of the approvers' listener.
    #[expect(
        clippy::option_option,
        reason = "each of the two may be left out, and each may be wrong"
    )]
    fn listen_in_tls(
        &self,
        field: &Field<'_>,
    ) -> (Option<Option<SocketAddr>>, Option<Option<ListenTls>>) {
        let Some(mut fields) = field.map() else {
            return (None, None);
        };
        let at = fields.required("address").and_then(|f| address(&f));
        let files = fields.optional("tls").map_or(Some(None), |field| {
            let files = self.listen_tls(&field)?;
            if files.client_ca.is_some() {
                field.error(
                    "approvers are not known by certificates",
                    "remove `client_ca`",
                );
                return None;
            }
            Some(Some(files))
        });
        (at.map(Some), files)
    }

    fn listen_tls(&self, field: &Field<'_>) -> Option<ListenTls> {
        let mut fields = field.map()?;
        let certificate = fields.required("certificate").and_then(|f| self.path(&f));
        let key = fields.required("key").and_then(|f| self.path(&f));
        let client_ca = fields.optional("client_ca");
        let client_ca = client_ca.map_or(Some(None), |field| self.path(&field).map(Some));
        Some(ListenTls {
            certificate: certificate?,
            key: key?,
            client_ca: client_ca?,
        })
    }
}

fn each(field: &Field<'_>, read: fn(&Field<'_>) -> Option<String>) -> Option<Vec<String>> {
    let read: Vec<_> = field.list()?.iter().map(read).collect();
    read.into_iter().collect()
}

/// A name as clients send it: A-labels, lower case.
fn host(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        field.error(
            format!("`{text}` is an IP address"),
            "remove it: IP addresses are always taken, since no name leads astray",
        );
        return None;
    }
    match Host::parse(text) {
        Ok(Host::Domain(name)) if !text.ends_with('.') => Some(name),
        _ => {
            field.error(format!("`{text}` is not the name of a host"), HOST_HELP);
            None
        }
    }
}

/// An origin as browsers write it (RFC 6454 section 6.2).
fn origin(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let url = Url::parse(text).ok();
    let whole = url.filter(|url| {
        let bare = matches!(url.path(), "" | "/") && url.query().is_none();
        bare && url.fragment().is_none() && url.has_host() && !text.ends_with('/')
    });
    let Some(url) = whole else {
        field.error(format!("`{text}` is not an origin"), ORIGIN_HELP);
        return None;
    };
    let origin = url.origin();
    // A browser's own schemes have no origin that the standard can write.
    Some(if origin.is_tuple() {
        origin.ascii_serialization()
    } else {
        text.to_ascii_lowercase()
    })
}

fn address(field: &Field<'_>) -> Option<SocketAddr> {
    let text = field.text()?;
    let address = text.parse().ok();
    if address.is_none() {
        let port = text.trim_start_matches(':');
        let help = match (text.rsplit_once(':'), port.parse::<u16>()) {
            (_, Ok(port)) => format!("write an address too: `127.0.0.1:{port}`"),
            (Some(("localhost", port)), _) => format!("write `127.0.0.1:{port}`"),
            _ => "write ADDRESS:PORT, such as `127.0.0.1:8080` or `[::]:8080`".to_owned(),
        };
        field.error(format!("`{text}` is not an address to listen on"), help);
    }
    address
}

/// Agents must not reach approvers, nor anybody take one for the other.
fn distinct(listen: &Listen, fields: &[Option<Field<'_>>; 4]) -> Option<Listen> {
    let [agents, approvers, operations, forward] = fields;
    let places = [
        (Some(listen.agents), "agents", agents),
        (listen.approvers, "approvers", approvers),
        (Some(listen.operations), "operations", operations),
        (listen.forward, "forward", forward),
    ];
    let mut fine = true;
    for (index, (one, name, field)) in places.iter().enumerate() {
        for (other, other_name, other_field) in places.iter().skip(index + 1) {
            let (Some(one), Some(other)) = (one, other) else {
                continue;
            };
            let same_ip =
                one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
            if one.port() == 0 || one.port() != other.port() || !same_ip {
                continue;
            }
            fine = false;
            let message = format!(
                "`listen.{name}` and `listen.{other_name}` share port {}",
                one.port()
            );
            if let Some(at) = other_field.as_ref().or(field.as_ref()) {
                at.error(message, "give each listener a port of its own");
            }
        }
    }
    fine.then(|| listen.clone())
}
