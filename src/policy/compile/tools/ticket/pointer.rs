//! JSON Pointers of single arguments.

use crate::source::Field;

/// A pointer to one argument.
pub(super) fn pointer(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    match syntax(text) {
        Ok(()) => Some(text.to_owned()),
        Err(why) => {
            field.error(
                format!("`{text}` does not name an argument: {why}"),
                "write its JSON Pointer, such as `/amount`",
            );
            None
        }
    }
}

/// RFC 6901.
pub(super) fn syntax(pointer: &str) -> Result<(), String> {
    if !pointer.starts_with('/') {
        return Err("a JSON Pointer starts with `/`".to_owned());
    }
    if pointer.split('/').any(|step| step == "*" || step == "**") {
        return Err("a wildcard may name many arguments".to_owned());
    }
    let mut tildes = pointer.split('~').skip(1);
    if tildes.any(|after| !after.starts_with(['0', '1'])) {
        return Err("write `~0` for `~` and `~1` for `/`".to_owned());
    }
    Ok(())
}
