//! Keys that agents present. They are kept as SHA-256 digests: a fast hash is right for a key of 256 random bits, since
//! guessing it is hopeless at any speed, and slow hashes protect only what people can remember. That is why short keys are
//! refused. A key is looked up by its digest, so that the time tells nothing of how much of a key is right.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};

/// Before every key that is made here: secret scanners and people tell by it what they have found.
const PREFIX: &str = "hpk_";
/// Random bytes of a key.
const ENTROPY: usize = 32;
/// Shortest key whose digest may be written down: 128 bits, however it is written.
pub const SHORTEST: usize = 32;

/// A new key of 256 random bits: `hpk_` and 43 characters.
///
/// # Errors
/// The system gives no randomness.
pub fn new() -> Result<String, &'static str> {
    let mut bytes = [0; ENTROPY];
    rand::fill(&mut bytes).map_err(|_| "the system gives no randomness")?;
    Ok(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)))
}

/// The digest that the proxy keeps of a key.
pub fn sha256(key: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key).as_ref());
    bytes
}

/// The digest as a config has it: `sha256:` and 64 hexadecimal digits.
pub fn written(digest: &[u8; 32]) -> String {
    format!("sha256:{}", HEXLOWER.encode(digest))
}

/// Reads a digest, with or without `sha256:` before it.
pub fn read(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
    bytes.try_into().ok()
}

/// Why a key must not be used, if so.
///
/// # Errors
/// It is too short, or has characters that no header carries.
pub fn check(key: &str) -> Result<(), String> {
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a key has visible ASCII characters alone".to_owned());
    }
    if key.len() < SHORTEST {
        return Err(format!(
            "the key is shorter than {SHORTEST} characters: its digest could be guessed"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_long_and_its_digest_is_read_back() {
        let (one, other) = (new().unwrap(), new().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 47);
        assert_eq!(check(&one), Ok(()));
        let digest = sha256(one.as_bytes());
        assert_eq!(read(&written(&digest)), Some(digest));
        assert_eq!(read(&HEXLOWER.encode(&digest).to_uppercase()), Some(digest));
    }

    /// FIPS 180-4, the message "abc".
    #[test]
    fn the_digest_is_sha_256() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(written(&sha256(b"abc")), known);
    }

    #[test]
    fn what_is_no_digest_or_no_key_is_refused() {
        for text in ["", "sha256:", "sha256:00", "md5:00", &"g".repeat(64)] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(check("short").is_err());
        assert!(check(&" ".repeat(40)).is_err());
        assert!(check(&"ä".repeat(40)).is_err());
    }
}
