//! People and accounts that a call may reach.

use std::collections::BTreeSet;

use super::{Allowed, Fallback, Selector};
use crate::layers::recipients::Region;
use crate::names::RuleId;

/// How a recipient is read and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipientKind {
    /// A mailbox list (RFC 5322), every mailbox must pass.
    Email,
    /// A whole message (RFC 5322), base64url, base64 or plain: every recipient of its header must pass.
    RawEmail,
    /// One phone number, compared as E.164.
    Phone,
    /// A bank account or another opaque account id: spaces removed, ASCII upper-cased, compared exactly.
    Account,
    /// An IBAN: as `Account`, and its length and check digits must be right.
    Iban,
    /// The id of a chat or channel, compared exactly; integers by their digits.
    Chat,
    /// Attendees of a calendar event, and what else of the event reaches people.
    Calendar,
    /// A grant on a file or another object: who gets it, and how widely.
    Share,
}

impl RecipientKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Email,
        Self::RawEmail,
        Self::Phone,
        Self::Account,
        Self::Iban,
        Self::Chat,
        Self::Calendar,
        Self::Share,
    ];

    /// The word in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::RawEmail => "raw_email",
            Self::Phone => "phone",
            Self::Account => "account",
            Self::Iban => "iban",
            Self::Chat => "chat",
            Self::Calendar => "calendar",
            Self::Share => "share",
        }
    }

    /// Kinds whose recipients are one another's: what they are compared as.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Email | Self::RawEmail | Self::Calendar | Self::Share => "mailbox",
            Self::Phone => "phone",
            Self::Account | Self::Iban => "account",
            Self::Chat => "chat",
        }
    }

    /// Whether its recipients are mailboxes, so that `plus` has a meaning.
    pub const fn has_mailboxes(self) -> bool {
        matches!(
            self,
            Self::Email | Self::RawEmail | Self::Calendar | Self::Share
        )
    }
}

/// Whether `ann+x@example.com` is `ann@example.com`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Plus {
    /// They are two.
    #[default]
    Distinct,
    /// They are one.
    Fold,
}

/// What a rule lets through beyond its recipients; each is refused unless named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permit {
    /// A call without any recipient: `none: allow`.
    Nobody,
    /// An event whose guests may invite or change.
    GuestInvite,
    /// An event that everybody sees.
    Public,
    /// An event that calls people up.
    DialOut,
    /// A grant to everybody, or by link.
    Anyone,
    /// A grant that gives the object away.
    OwnershipTransfer,
}

impl Permit {
    /// Those that are switches of a rule, with their keys and the kind that they belong to.
    pub const SWITCHES: [(Self, &'static str, RecipientKind); 5] = [
        (
            Self::GuestInvite,
            "allow_guest_invite",
            RecipientKind::Calendar,
        ),
        (Self::Public, "allow_public", RecipientKind::Calendar),
        (Self::DialOut, "allow_dial_out", RecipientKind::Calendar),
        (Self::Anyone, "allow_anyone", RecipientKind::Share),
        (
            Self::OwnershipTransfer,
            "allow_ownership_transfer",
            RecipientKind::Share,
        ),
    ];
}

/// Recipients at these places must be allowed.
#[derive(Clone, Debug)]
pub struct RecipientRule {
    /// `tools[3].recipients[0]`.
    pub id: RuleId,
    /// Where they stand; for a share the grants.
    pub at: Vec<Selector>,
    /// How they are read.
    pub kind: RecipientKind,
    /// Who passes.
    pub allow: Vec<Allowed>,
    /// What otherwise.
    pub otherwise: Fallback,
    /// For mailboxes.
    pub plus: Plus,
    /// For phone numbers written in the form of their country.
    pub region: Option<Region>,
    /// Texts besides the known ones that become header lines of a mail.
    pub headers: Vec<Selector>,
    /// What passes though it reaches further than the recipients.
    pub permits: BTreeSet<Permit>,
}

impl RecipientRule {
    /// A rule that allows nobody.
    pub fn new(id: impl Into<RuleId>, at: Vec<Selector>, kind: RecipientKind) -> Self {
        Self {
            id: id.into(),
            at,
            kind,
            allow: Vec::new(),
            otherwise: Fallback::default(),
            plus: Plus::Distinct,
            region: None,
            headers: Vec::new(),
            permits: BTreeSet::new(),
        }
    }

    /// Whether it lets this through.
    pub fn permits(&self, permit: Permit) -> bool {
        self.permits.contains(&permit)
    }
}

/// What becomes of a text that looks like a recipient where no rule asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Undeclared {
    /// It is logged.
    #[default]
    Warn,
    /// The call is refused.
    Deny,
}
