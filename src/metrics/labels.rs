//! Values of labels: closed sets, so that nobody outside makes a series.

use crate::verdict::Mode;

/// What went wrong with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamFault {
    /// No connection or no TLS: nothing was sent.
    Connect,
    /// No answer in time.
    FirstByte,
    /// The connection broke before the answer's head.
    Broken,
    /// The body stood still for too long.
    Idle,
    /// The body ended early.
    Cut,
    /// The body is larger than the limit.
    TooLarge,
    /// The body's encoding is unknown or broken.
    Encoding,
    /// The message is not valid in the route's protocol.
    Unreadable,
}

impl UpstreamFault {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::FirstByte,
        Self::Broken,
        Self::Idle,
        Self::Cut,
        Self::TooLarge,
        Self::Encoding,
        Self::Unreadable,
    ];

    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first_byte",
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::Cut => "cut",
            Self::TooLarge => "too_large",
            Self::Encoding => "encoding",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Which limit a connection is above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionLimit {
    /// `limits.connections`.
    All,
    /// `limits.connections_per_address`.
    Address,
}

impl ConnectionLimit {
    /// Every limit.
    pub const ALL: [Self; 2] = [Self::All, Self::Address];

    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "connections",
            Self::Address => "connections_per_address",
        }
    }
}

/// Why an exchange was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unrecorded {
    /// Exchanges came faster than they could be written.
    QueueFull,
    /// The disk took no more: recording has stopped with this one.
    Disk,
    /// Recording had stopped before.
    Stopped,
}

impl Unrecorded {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::Disk, Self::Stopped];

    /// The label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Disk => "disk",
            Self::Stopped => "stopped",
        }
    }
}

/// Values of the label `verdict`: as [`crate::verdict::Verdict::label`] gives them, and a failed layer's denial apart from the others.
pub(super) const VERDICTS: [&str; 5] = ["allow", "rewrite", "hold", "deny", UNDECIDED];
/// The label of a layer that failed.
pub(super) const UNDECIDED: &str = "undecided";
/// Modes in which a layer judges.
pub(super) const MODES: [Mode; 2] = [Mode::Shadow, Mode::Enforce];
/// Values of the label `status`: classes, and `gone` for a client that left before the answer's head.
pub(super) const STATUSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "gone"];
/// The label `route` of a request that matched none.
pub const NO_ROUTE: &str = "-";
