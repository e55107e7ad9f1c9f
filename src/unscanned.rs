//! Why bytes of a message pass without being judged: a closed list. `docs/reference/metrics.md` explains each.

/// Why bytes passed without being judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unscanned {
    /// What the user, the operator or the model said in a request: trusted, or judged when it was first sent.
    UserText,
    /// What a model wrote, outside calls.
    ModelText,
    /// Keys, numbers and punctuation around the judged texts.
    Structure,
    /// An error of the model's provider.
    ErrorBody,
    /// A message in which the protocol has nothing to judge.
    NoItem,
    /// An item that no active layer has a rule for.
    NoRule,
    /// What no text can be made of: images, audio, files.
    Binary,
    /// What only the provider can read: encrypted content, signatures.
    Sealed,
    /// What a tool that the provider runs gave back, on its way to the agent: the model has read it already.
    ProviderResult,
    /// Inside a tunnel of the forward proxy, in either direction: encrypted between the agent and its peer.
    Tunnel,
    /// Bodies of plain HTTP through the forward proxy, in either direction.
    Forward,
}

impl Unscanned {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::UserText,
        Self::ModelText,
        Self::Structure,
        Self::ErrorBody,
        Self::NoItem,
        Self::NoRule,
        Self::Binary,
        Self::Sealed,
        Self::ProviderResult,
        Self::Tunnel,
        Self::Forward,
    ];

    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserText => "user_text",
            Self::ModelText => "model_text",
            Self::Structure => "structure",
            Self::ErrorBody => "error_body",
            Self::NoItem => "no_item",
            Self::NoRule => "no_rule",
            Self::Binary => "binary",
            Self::Sealed => "sealed",
            Self::ProviderResult => "provider_result",
            Self::Tunnel => "tunnel",
            Self::Forward => "forward",
        }
    }
}
