//! `egress`.

use serde_json::{Value, json};

use super::allowed::allow;
use super::{at, described, object, otherwise};

/// `with_at`: for the arguments that a tool's rule names.
pub(super) fn rule(with_at: bool) -> Value {
    let allow = allow("Lists with hosts");
    if with_at {
        let properties = json!({"at": at(), "allow": allow, "otherwise": otherwise()});
        return object(&["at", "allow"], &properties);
    }
    let properties = json!({"allow": allow, "otherwise": otherwise()});
    described(
        object(&["allow"], &properties),
        "URLs in any argument of a tool whose rule has no egress",
    )
}
