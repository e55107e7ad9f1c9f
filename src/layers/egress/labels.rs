//! Labels of a host name that carry data instead of a name.

/// Shorter labels say too little either way.
const SHORTEST: usize = 24;

/// Bits per character above which a label is no word: base32 and hexadecimal data lie above, names of people and things below.
const BITS: f64 = 3.3;

/// Whether a label looks like encoded data: long, letters and digits mixed, and nearly every character as likely as another.
/// Ids of machines look so too.
pub(super) fn is_random(label: &str) -> bool {
    if label.len() < SHORTEST || label.starts_with("xn--") {
        return false;
    }
    let digits = label.bytes().filter(u8::is_ascii_digit).count();
    let letters = label.bytes().filter(u8::is_ascii_alphabetic).count();
    digits * 10 >= label.len() && letters > 0 && bits_per_character(label) > BITS
}

/// Shannon's entropy of its characters.
fn bits_per_character(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    let mut length = 0_u32;
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
        length += 1;
    }
    let total = f64::from(length.max(1));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
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
