//! What may vouch for a value of a call: a list, a look-up, or where the value comes from.

use crate::names::{ListName, LookupName};

/// Who may be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// An entry of the list.
    List(ListName),
    /// A value that the look-up returns.
    Lookup(LookupName),
}

/// The lists among them.
pub fn lists(allow: &[Allowed]) -> impl Iterator<Item = &ListName> {
    allow.iter().filter_map(|allowed| match allowed {
        Allowed::List(name) => Some(name),
        Allowed::Lookup(_) => None,
    })
}

/// The look-ups among them.
pub fn lookups(allow: &[Allowed]) -> impl Iterator<Item = &LookupName> {
    allow.iter().filter_map(|allowed| match allowed {
        Allowed::Lookup(name) => Some(name),
        Allowed::List(_) => None,
    })
}
