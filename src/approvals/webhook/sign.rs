//! Signatures of webhooks: HMAC-SHA256 over `timestamp.body`, in hexadecimal digits.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use data_encoding::HEXLOWER;

/// The signature of a body that is sent at `timestamp`, seconds since 1970. Receivers refuse one that is 5 minutes old.
pub(super) fn signature(secret: &[u8], timestamp: i64, body: &[u8]) -> String {
    let key = Key::new(HMAC_SHA256, secret);
    let mut text = timestamp.to_string().into_bytes();
    text.push(b'.');
    text.extend_from_slice(body);
    HEXLOWER.encode(sign(&key, &text).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python: `hmac.new(b"a secret of the receiver", b'1700000000.{"id":"evt_1"}', "sha256").hexdigest()`.
    #[test]
    fn the_signature_is_what_others_compute() {
        let signed = signature(
            b"a secret of the receiver",
            1_700_000_000,
            br#"{"id":"evt_1"}"#,
        );
        assert_eq!(
            signed,
            "3540d18eb9e7e022d0219ebe867fa645c11620c7c8957e3c1e5d9408186931ba"
        );
    }
}
