//! Where the values of a call come from: what of a conversation the user or the operator said, and what only tools gave back.
//!
//! Adapters tell who said which text ([`Said`]), the proxy keeps it as [`Evidence`] for the calls of the same conversation or
//! session, and layers ask where a value stands. Nothing here judges. A value is compared in the form in which the layers
//! compare it, so that an address in a sentence equals the address in a call.

mod evidence;
mod fields;
mod flags;
mod gone;
mod leaves;
mod likeness;
mod pasted;
mod private;
mod sessions;
mod sole;
mod text;
mod texts;
mod trust;
mod urls;
mod values;

use std::sync::Arc;

pub use evidence::{Class, Evidence, Standing, Trace};
pub use fields::{Clean, FieldPath, OutputRule};
pub use flags::Flags;
pub use sessions::{Forgotten, Sessions, Tie};

use crate::names::ToolName;

/// What a value is: two kinds never vouch for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// `local@domain`, ASCII lower case, domain as A-label.
    Email,
    /// An absolute URL, whole: path and query are part of the value.
    Url,
    /// An account number without spaces, upper case; an IBAN too.
    Account,
    /// E.164 with `+`.
    Phone,
    /// An opaque id, or any other text, as it stands.
    Text,
}

/// Who says a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The end user.
    User,
    /// Who runs the agent: prompts of the roles system and developer.
    Operator,
    /// The model, as an argument of an earlier call: it vouches for nothing, but shows what the call was asked.
    Call {
        /// Id of the call.
        id: Arc<str>,
    },
    /// A tool, or nobody who is trusted.
    Tool {
        /// The tool, where that is known.
        tool: Option<ToolName>,
        /// Id of the call that it answers, where that is known.
        call: Option<Arc<str>>,
        /// JSON Pointer in what the tool gave back; empty for a text that is a whole answer, `None` for one that is no value.
        at: Option<String>,
    },
    /// A tool, as the key of a member of an object.
    Key {
        /// The tool, where that is known.
        tool: Option<ToolName>,
        /// Id of the call that it answers, where that is known.
        call: Option<Arc<str>>,
        /// JSON Pointer of the object in what the tool gave back.
        at: String,
    },
}

/// One text of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Whose.
    pub by: Speaker,
    /// The text, decoded.
    pub text: Arc<str>,
}
