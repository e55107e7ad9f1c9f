//! Labels of a host name that carry data instead of a name.

/// Shorter labels say too little either way.
const SHORTEST: usize = 24;

/// Data changes between letters and digits at least once in so many characters: hexadecimal every second or third, base32
/// every third or fourth.
const CHANGE: usize = 6;

/// Whether a label looks like encoded data: long, and letters and digits stand in no order. Random ids of machines look so too.
pub(super) fn is_random(label: &str) -> bool {
    if label.len() < SHORTEST || label.starts_with("xn--") {
        return false;
    }
    let bytes = label.as_bytes();
    let changes = bytes.iter().zip(bytes.iter().skip(1)).filter(|(a, b)| {
        a.is_ascii_digit() && b.is_ascii_alphabetic()
            || a.is_ascii_alphabetic() && b.is_ascii_digit()
    });
    changes.count() * CHANGE >= label.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_differs_from_names() {
        for label in [
            "4a6f686e20446f653b34313131313131313131",
            "mzxw6ytboi4dsmjrgezdgnbvgy3tqojq",
            "9f86d081884c7d659a2feaa0c55ad015",
        ] {
            assert!(is_random(label), "{label}");
        }
        for label in [
            "www",
            "eu-west-1",
            "d111111abcdef8",
            "my-very-long-project-name-for-production",
            "customer-portal-staging-2026",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaa1111",
        ] {
            assert!(!is_random(label), "{label}");
        }
    }
}
