//! What may vouch for a value: `allow` of rules.

use super::Names;
use crate::policy::{Allowed, List};
use crate::source::Field;

/// One entry: the name of a list, or `{lookup: NAME}`. `fault` says why a list cannot serve here.
pub(super) fn allowed(
    field: &Field<'_>,
    fault: impl FnOnce(&List) -> Option<(String, &'static str)>,
    names: &Names<'_>,
) -> Option<Allowed> {
    if field.is_map() {
        let mut fields = field.map()?;
        let lookup = fields.required("lookup")?;
        return names.lookup(&lookup).map(Allowed::Lookup);
    }
    names.list(field, fault).map(Allowed::List)
}
