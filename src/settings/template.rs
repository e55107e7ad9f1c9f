//! Path templates: fixed segments and parameters of the form `{name}`, each a whole segment.

/// The name of a segment that is a parameter.
fn parameter(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Names of the parameters, in order.
pub fn parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(parameter)
}

/// Whether each segment is a plain text or one parameter.
pub fn is_plain(path: &str) -> bool {
    path.split('/').all(|segment| {
        let inner = parameter(segment).unwrap_or(segment);
        let named = parameter(segment).is_none_or(|name| !name.is_empty());
        !inner.contains(['{', '}']) && named && !inner.starts_with('*')
    })
}

/// The template with its parameters numbered: two templates may name the same segment differently. With `lower` its fixed
/// segments are in lower case.
pub fn positional(path: &str, lower: bool) -> String {
    let mut count = 0;
    let segments = path.split('/').map(|segment| {
        if parameter(segment).is_some() {
            count += 1;
            format!("{{{count}}}")
        } else if lower {
            segment.to_ascii_lowercase()
        } else {
            segment.to_owned()
        }
    });
    segments.collect::<Vec<_>>().join("/")
}
