//! The one matcher: a pure function on a rule and a parsed URL, for arguments, fetches, redirects, rendered text and the
//! forward proxy alike.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::code::{Code, Denied};
use super::deny;
use super::entry::{Entry, Pattern};
use super::labels;
use super::path;
use super::target::{Host, SCHEMES, Url};

/// Where a rule lets requests go. Build it with [`Rule::new`], set what differs, and [`Rule::allow`] entries.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Schemes, lower case; empty: none.
    pub schemes: Vec<String>,
    /// Ports at which hosts may be reached whose entry names none; empty: the scheme's own.
    pub ports: Vec<u16>,
    /// Methods, upper case; empty: every one.
    pub methods: Vec<String>,
    /// Most bytes of a query as it is sent.
    pub max_query: Option<usize>,
    /// Most bytes of a path as it is sent.
    pub max_path: Option<usize>,
    /// Most bytes of a label that a wildcard stands for.
    pub max_label: Option<usize>,
    /// Refuse labels under a wildcard that look like data rather than names.
    pub deny_random_labels: bool,
    /// Refuse private, local, reserved and metadata addresses and names that no entry names itself.
    pub deny_private: bool,
    /// A tunnel must begin with TLS that asks for the tunnel's own name.
    pub require_sni: bool,
    /// Where the guard itself listens: never a destination.
    pub own: Vec<SocketAddr>,
    exact: HashMap<String, Vec<Entry>>,
    below: HashMap<String, Vec<Entry>>,
    public: Vec<Entry>,
    nets: Vec<Entry>,
}

impl Default for Rule {
    fn default() -> Self {
        Self::new()
    }
}

const SCHEME: Denied = Denied::new(
    Code::SchemeNotAllowed,
    "the scheme is not one of the rule's",
);
const LOCAL: Denied = Denied::new(
    Code::PrivateAddress,
    "a name of this machine or of a cloud's metadata",
);
const PRIVATE: Denied = Denied::new(
    Code::PrivateAddress,
    "a private, local, reserved or metadata address",
);
const OWN: Denied = Denied::new(Code::PrivateAddress, "the guard's own address");
const LITERAL: Denied = Denied::new(Code::IpLiteral, "an address that is not listed itself");
const HOST: Denied = Denied::new(
    Code::HostNotAllowed,
    "the host is on none of the rule's lists",
);
const PORT: Denied = Denied::new(
    Code::PortNotAllowed,
    "the host is not listed with this port",
);
const PATH: Denied = Denied::new(
    Code::PathNotAllowed,
    "the host is not listed with this path",
);
const LONG_PATH: Denied = Denied::new(
    Code::PathNotAllowed,
    "the path is longer than the rule allows",
);
const QUERY: Denied = Denied::new(
    Code::QueryTooLong,
    "the query is longer than the rule allows",
);
const METHOD: Denied = Denied::new(
    Code::MethodNotAllowed,
    "the method is not one of the rule's",
);

impl Rule {
    /// A rule that lets nothing pass: https and wss at their own ports, private addresses denied, TLS demanded of tunnels,
    /// no host.
    pub fn new() -> Self {
        Self {
            schemes: ["https", "wss"].map(str::to_owned).into(),
            ports: Vec::new(),
            methods: Vec::new(),
            max_query: None,
            max_path: None,
            max_label: None,
            deny_random_labels: false,
            deny_private: true,
            require_sni: true,
            own: Vec::new(),
            exact: HashMap::new(),
            below: HashMap::new(),
            public: Vec::new(),
            nets: Vec::new(),
        }
    }

    /// Lets one more entry pass.
    pub fn allow(&mut self, entry: Entry) {
        match &entry.pattern {
            Pattern::Exact(name) => self.exact.entry(name.clone()).or_default().push(entry),
            Pattern::Below(domain) => self.below.entry(domain.clone()).or_default().push(entry),
            Pattern::Public => self.public.push(entry),
            Pattern::Net(_) => self.nets.push(entry),
        }
    }

    /// Whether the scheme is one of the rule's.
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|allowed| allowed == scheme)
    }

    /// Whether the rule lets a URL pass. Nothing is looked up: what this denies must not be.
    ///
    /// # Errors
    /// The first thing that the rule does not allow: scheme, host, port, path, query.
    pub fn judge(&self, url: &Url) -> Result<(), Denied> {
        if !self.has_scheme(url.target.scheme) {
            return Err(SCHEME);
        }
        let standard = url.target.port.is_none();
        let entries = self.host(&url.target.host, url.target.port_number(), standard)?;
        if url.is_cut() && (self.max_query.is_some() || self.max_path.is_some()) {
            return Err(QUERY);
        }
        self.path(&entries, url)?;
        if let (Some(limit), Some(query)) = (self.max_query, url.query())
            && query.len() > limit
        {
            return Err(QUERY);
        }
        Ok(())
    }

    /// The same for a URL that a reader gives a scheme: one of the rule's must do.
    ///
    /// # Errors
    /// As [`Self::judge`] for the first of the rule's schemes.
    pub fn judge_bare(&self, url: &Url) -> Result<(), Denied> {
        let mut first = None;
        for scheme in SCHEMES.into_iter().filter(|scheme| self.has_scheme(scheme)) {
            match self.judge(&url.with_scheme(scheme)) {
                Ok(()) => return Ok(()),
                Err(denied) => first = first.or(Some(denied)),
            }
        }
        Err(first.unwrap_or(SCHEME))
    }

    /// Whether the rule lets a host be reached at a port; for a tunnel, which has neither scheme nor path.
    ///
    /// # Errors
    /// A host or a port that the rule does not allow.
    pub fn judge_host(&self, host: &Host, port: u16) -> Result<(), Denied> {
        self.host(host, port, port == 443).map(drop)
    }

    /// Whether a resolver may be asked for a host: as [`Self::judge_host`], where port 80 may be the scheme's own as well.
    ///
    /// # Errors
    /// A host or a port that the rule does not allow.
    pub fn may_look_up(&self, host: &Host, port: u16) -> Result<(), Denied> {
        self.host(host, port, matches!(port, 80 | 443)).map(drop)
    }

    /// What a host is counted under: itself where an entry names it, else the wildcard or range that lets it pass, so that
    /// what one entry stands for is one place, however many names it has. A host on no list is its own place.
    pub fn place(&self, host: &Host) -> String {
        match host {
            Host::Domain(name) if !self.exact.contains_key(name) => {
                let dots = name.match_indices('.').map(|(dot, _)| dot + 1);
                let mut parents = dots.filter_map(|at| name.get(at..));
                match parents.find(|parent| self.below.contains_key(*parent)) {
                    Some(parent) => format!("*.{parent}"),
                    None if !self.public.is_empty() && deny::is_public_name(name) => "*".to_owned(),
                    None => name.clone(),
                }
            }
            Host::Ip(address) => {
                let mut nets = self.nets.iter().filter_map(|entry| match &entry.pattern {
                    Pattern::Net(net) if net.contains(address) => Some(net),
                    _ => None,
                });
                nets.next()
                    .map_or_else(|| host.to_string(), ToString::to_string)
            }
            Host::Domain(name) => name.clone(),
        }
    }

    /// Entries for addresses.
    pub(super) fn nets(&self) -> impl Iterator<Item = &Entry> {
        self.nets.iter()
    }

    /// Whether the rule lets the method be used.
    ///
    /// # Errors
    /// [`Code::MethodNotAllowed`]. Methods are case-sensitive (RFC 9110 section 9.1).
    pub fn method(&self, method: &str) -> Result<(), Denied> {
        if self.methods.is_empty() || self.methods.iter().any(|allowed| allowed == method) {
            Ok(())
        } else {
            Err(METHOD)
        }
    }

    /// The entries for a host at a port. `standard`: the port is the scheme's own.
    fn host(&self, host: &Host, port: u16, standard: bool) -> Result<Vec<&Entry>, Denied> {
        self.not_local(host, port)?;
        let entries = self.entries(host);
        if entries.is_empty() {
            return Err(match host {
                Host::Domain(name) if self.deny_private && deny::is_loopback_name(name) => LOCAL,
                Host::Domain(_) => HOST,
                Host::Ip(address) if self.deny_private && is_private(*address) => PRIVATE,
                Host::Ip(_) => LITERAL,
            });
        }
        let at_port: Vec<_> = entries
            .into_iter()
            .filter(|entry| {
                if entry.ports.is_empty() {
                    self.ports.contains(&port) || self.ports.is_empty() && standard
                } else {
                    entry.ports.contains(&port)
                }
            })
            .collect();
        if at_port.is_empty() {
            return Err(PORT);
        }
        Ok(at_port)
    }

    /// What no entry can allow.
    fn not_local(&self, host: &Host, port: u16) -> Result<(), Denied> {
        match host {
            Host::Domain(name) => {
                if self.deny_private && deny::is_metadata_name(name) {
                    return Err(LOCAL);
                }
                let own = |listener: &SocketAddr| listener.port() == port;
                if deny::is_loopback_name(name) && self.own.iter().any(own) {
                    return Err(OWN);
                }
                Ok(())
            }
            Host::Ip(address) if self.is_own(*address, port) => Err(OWN),
            Host::Ip(_) => Ok(()),
        }
    }

    /// Whether the guard itself listens there.
    pub(super) fn is_own(&self, address: IpAddr, port: u16) -> bool {
        let asked = address.to_canonical();
        self.own.iter().any(|listener| {
            let ours = listener.ip().to_canonical();
            let local = asked.is_loopback() || asked.is_unspecified();
            let same = ours == asked || local && (ours.is_loopback() || ours.is_unspecified());
            listener.port() == port && same
        })
    }

    /// Every entry for the host, whatever its port and path.
    fn entries(&self, host: &Host) -> Vec<&Entry> {
        let mut found: Vec<&Entry> = Vec::new();
        match host {
            Host::Domain(name) => {
                found.extend(self.exact.get(name).into_iter().flatten());
                for (dot, _) in name.match_indices('.') {
                    let parent = name.get(dot + 1..).unwrap_or_default();
                    let label = name.get(..dot).unwrap_or_default();
                    if self.labels_pass(label) {
                        found.extend(self.below.get(parent).into_iter().flatten());
                    }
                }
                if !self.public.is_empty() && self.labels_pass(name) {
                    found.extend(&self.public);
                }
            }
            Host::Ip(_) => found.extend(&self.nets),
        }
        found.retain(|entry| entry.is_for(host, self.deny_private));
        found
    }

    /// Whether what a wildcard would stand for may be a name.
    fn labels_pass(&self, stands_for: &str) -> bool {
        stands_for.split('.').all(|label| {
            self.max_label.is_none_or(|limit| label.len() <= limit)
                && !(self.deny_random_labels && labels::is_random(label))
        })
    }

    /// The most precise of the entries decide about the path.
    fn path(&self, entries: &[&Entry], url: &Url) -> Result<(), Denied> {
        let path = url.path();
        if self.max_path.is_some_and(|limit| path.len() > limit) {
            return Err(LONG_PATH);
        }
        let precision = entries.iter().map(|entry| entry.precision()).max();
        let decide = || {
            let most = |entry: &&&Entry| Some(entry.precision()) == precision;
            entries.iter().filter(most)
        };
        if decide().any(|entry| entry.path.is_none()) {
            return Ok(());
        }
        if url.is_cut() {
            return Err(LONG_PATH);
        }
        path::unambiguous(path)?;
        let covers = |entry: &&Entry| {
            let prefix = entry.path.as_ref();
            prefix.is_some_and(|prefix| prefix.covers(path))
        };
        if decide().any(covers) {
            Ok(())
        } else {
            Err(PATH)
        }
    }
}

/// As itself, or as the IPv4 address that it carries.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(v6) => match deny::embedded(v6) {
            Some(inside) => deny::is_private(IpAddr::V4(inside)),
            None => deny::is_private(address),
        },
        IpAddr::V4(_) => deny::is_private(address),
    }
}

/// Reads a string that should be one URL, and judges it.
///
/// # Errors
/// What makes it unreadable, or what the rule does not allow.
pub fn url(rule: &Rule, text: &str) -> Result<Url, Denied> {
    let url = Url::read(text)?;
    rule.judge(&url)?;
    Ok(url)
}
