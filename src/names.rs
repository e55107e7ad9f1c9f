//! Names that the whole crate passes around, each a type of its own so that a tool is never taken for a route.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name!(
    /// A tool as the model names it, case-sensitive.
    ToolName
);
name!(
    /// A route of the proxy, as the config names it.
    RouteName
);
name!(
    /// A backend behind the proxy, as the config names it.
    UpstreamName
);
name!(
    /// A read-only database that look-ups may ask, as the config names it.
    StoreName
);
name!(
    /// A secret that agents write as a placeholder, as the config names it.
    SecretName
);
name!(
    /// A named list of the policy.
    ListName
);
name!(
    /// A named look-up of the policy.
    LookupName
);
name!(
    /// Stable id of the rule that gave a verdict, such as `tools[2].recipients[0]` or `override.ignore_previous`.
    RuleId
);
name!(
    /// Ties a conversation to its tool calls.
    SessionKey
);
name!(
    /// Id of a ticket: `tkt_` and a sortable unique part.
    TicketId
);
name!(
    /// Id of a mandate: `mdt_` and a sortable unique part.
    MandateId
);
