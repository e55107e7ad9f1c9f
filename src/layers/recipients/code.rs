//! Why a recipient does not pass: a closed list, finer than the reasons of verdicts.

use std::fmt;

/// Why a recipient does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// It is on no list.
    RecipientNotAllowed,
    /// It cannot be read.
    MalformedRecipient,
    /// It uses syntax that mail programs read differently: comments, groups, routes, quotes, encoded words.
    UnsupportedSyntax,
    /// A line break in what becomes a header line.
    HeaderInjection,
    /// Nobody is named.
    NoRecipient,
    /// No phone number.
    MalformedPhone,
    /// No IBAN.
    MalformedIban,
    /// Everybody is reached, or whoever has a link.
    PublicShare,
    /// The object is given away.
    OwnershipTransfer,
    /// Guests may bring others.
    GuestEscalation,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 10] = [
        Self::RecipientNotAllowed,
        Self::MalformedRecipient,
        Self::UnsupportedSyntax,
        Self::HeaderInjection,
        Self::NoRecipient,
        Self::MalformedPhone,
        Self::MalformedIban,
        Self::PublicShare,
        Self::OwnershipTransfer,
        Self::GuestEscalation,
    ];

    /// The word in findings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RecipientNotAllowed => "recipient_not_allowed",
            Self::MalformedRecipient => "malformed_recipient",
            Self::UnsupportedSyntax => "unsupported_syntax",
            Self::HeaderInjection => "header_injection",
            Self::NoRecipient => "no_recipient",
            Self::MalformedPhone => "malformed_phone",
            Self::MalformedIban => "malformed_iban",
            Self::PublicShare => "public_share",
            Self::OwnershipTransfer => "ownership_transfer",
            Self::GuestEscalation => "guest_escalation",
        }
    }

    /// Whether the call was understood, so that a list, a switch or a person may allow it.
    pub const fn is_understood(self) -> bool {
        matches!(
            self,
            Self::RecipientNotAllowed
                | Self::PublicShare
                | Self::OwnershipTransfer
                | Self::GuestEscalation
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is wrong with one value: fixed words, never the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Fault {
    /// Which kind of fault.
    pub code: Code,
    /// For the operator.
    pub why: &'static str,
}

impl Fault {
    pub(super) const fn new(code: Code, why: &'static str) -> Self {
        Self { code, why }
    }

    pub(super) const fn malformed(why: &'static str) -> Self {
        Self::new(Code::MalformedRecipient, why)
    }

    pub(super) const fn unsupported(why: &'static str) -> Self {
        Self::new(Code::UnsupportedSyntax, why)
    }
}

/// One reason why a call does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {code}: {why}")]
pub struct Objection {
    /// Which kind.
    pub code: Code,
    /// JSON Pointer in the arguments.
    pub at: String,
    /// Fixed words, never the value.
    pub why: &'static str,
}
