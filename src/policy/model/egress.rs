//! Where URLs, tunnels and rendered links may lead.

use std::time::Duration;

use super::{Allowed, Fallback, Per, Selector};
use crate::layers::egress::Reading;
use crate::names::{ListName, RuleId};

/// How hosts of lists may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Schemes, lower case.
    pub schemes: Vec<String>,
    /// Ports at which hosts may be reached whose entry names none; empty: the scheme's own.
    pub ports: Vec<u16>,
    /// Most bytes of a query.
    pub max_query: Option<usize>,
    /// Most bytes of a path.
    pub max_path: Option<usize>,
    /// Most bytes of a label that a wildcard stands for.
    pub max_label: Option<usize>,
    /// Labels under a wildcard must not look like encoded data.
    pub deny_random_labels: bool,
}

impl Default for Reach {
    /// https and wss at their own ports, of any length.
    fn default() -> Self {
        Self {
            schemes: ["https", "wss"].map(str::to_owned).into(),
            ports: Vec::new(),
            max_query: None,
            max_path: None,
            max_label: None,
            deny_random_labels: false,
        }
    }
}

/// URLs at these places may lead only to these hosts.
#[derive(Clone, Debug)]
pub struct EgressRule {
    /// `tools[3].egress[0]`, or `egress`.
    pub id: RuleId,
    /// Where to look; every string below a selected value is read.
    pub at: Vec<Selector>,
    /// How strings are read there.
    pub reading: Reading,
    /// Lists with hosts, and what else vouches for a URL.
    pub allow: Vec<Allowed>,
    /// How these hosts may be reached.
    pub reach: Reach,
    /// How much a session may send to one host; `None`: any amount.
    pub budget: Option<Budget>,
    /// What otherwise.
    pub otherwise: Fallback,
}

/// How much a session may send to one host, or to all that one wildcard stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Bytes that these tell at most, by how often each byte stands in them.
    pub entropy: Option<u64>,
    /// How long a call counts; `None`: as long as the session is remembered.
    pub window: Option<Duration>,
    /// Whose calls count together.
    pub per: Per,
}

impl EgressRule {
    /// A rule with nothing but the usual.
    pub fn new(id: impl Into<RuleId>, at: Vec<Selector>, allow: Vec<Allowed>) -> Self {
        Self {
            id: id.into(),
            at,
            reading: Reading::default(),
            allow,
            reach: Reach::default(),
            budget: None,
            otherwise: Fallback::default(),
        }
    }
}

/// What the forward proxy lets pass.
#[derive(Clone, Debug)]
pub struct ForwardRule {
    /// `forward`.
    pub id: RuleId,
    /// Lists with hosts.
    pub allow: Vec<ListName>,
    /// How these hosts may be reached; of tunnels only the port counts.
    pub reach: Reach,
    /// Methods of plain requests, upper case; empty: every one.
    pub methods: Vec<String>,
    /// A tunnel must begin with TLS that asks for the tunnel's own name.
    pub require_sni: bool,
    /// How much a session may send to one host; `None`: any amount.
    pub budget: Option<Budget>,
}

/// Where images and links of rendered text may lead.
#[derive(Clone, Debug)]
pub struct RenderedRule {
    /// `rendered`.
    pub id: RuleId,
    /// Lists with hosts of what a client fetches as soon as it shows the text.
    pub images: Vec<ListName>,
    /// Lists with hosts of what a person may follow.
    pub links: Vec<ListName>,
    /// How these hosts may be reached.
    pub reach: Reach,
}
