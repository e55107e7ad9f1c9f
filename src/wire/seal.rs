//! Sealed notes of the proxy to itself, which others carry for it: AES-256-GCM (NIST SP 800-38D) with random nonces. Whoever
//! carries one can neither read nor change it, nor use it for what it was not sealed for.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};

/// Bytes of a key.
pub const KEY: usize = 32;

/// A key, kept out of logs.
#[derive(Clone, PartialEq, Eq)]
pub struct SealingKey(pub [u8; KEY]);

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

impl SealingKey {
    /// Written as 64 hex digits or as base64; `None` where it is anything but so many bytes.
    pub fn read(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
        let bytes = bytes.or_else(|_| BASE64.decode(text.as_bytes())).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }
}

/// The first key seals, every key opens: with two of them a fleet changes its key without a note that nobody can open.
pub struct Sealer(Vec<RandomizedNonceKey>);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({} keys)", self.0.len())
    }
}

impl Sealer {
    /// Of these keys; of one of this process alone, where there are none. `None`: no randomness is to be had.
    pub fn new(keys: &[SealingKey]) -> Option<Self> {
        let key = |bytes: &[u8]| RandomizedNonceKey::new(&AES_256_GCM, bytes).ok();
        if keys.is_empty() {
            let mut own = [0; KEY];
            rand::fill(&mut own).ok()?;
            return Some(Self(vec![key(&own)?]));
        }
        let keys: Option<Vec<_>> = keys.iter().map(|bytes| key(&bytes.0)).collect();
        keys.map(Self)
    }

    /// Seals a note for one use, which must be named again to open it: base64url text.
    pub fn seal(&self, used_for: &[u8], note: &[u8]) -> Option<String> {
        let mut sealed = note.to_vec();
        let nonce = self.0.first()?;
        let nonce = nonce.seal_in_place_append_tag(Aad::from(used_for), &mut sealed);
        let text = [nonce.ok()?.as_ref().as_slice(), &sealed].concat();
        Some(BASE64URL_NOPAD.encode(&text))
    }

    /// The note; `None` where it was not sealed so, for this use and with one of these keys.
    pub fn open(&self, used_for: &[u8], sealed: &str) -> Option<Vec<u8>> {
        let bytes = BASE64URL_NOPAD.decode(sealed.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        self.0.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut open = sealed.to_vec();
            let plain = key.open_in_place(nonce, Aad::from(used_for), &mut open);
            Some(plain.ok()?.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: SealingKey = SealingKey([1; KEY]);
    const NEW: SealingKey = SealingKey([2; KEY]);

    #[test]
    fn a_note_opens_for_its_use_alone_and_unchanged() {
        let own = Sealer::new(&[OLD]).unwrap();
        let sealed = own.seal(b"ann", b"tkt_1").unwrap();
        assert!(!sealed.contains("tkt"));
        assert_eq!(own.open(b"ann", &sealed).unwrap(), b"tkt_1");
        assert_eq!(own.open(b"bob", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(own.open(b"ann", &changed), None, "{at}");
        }
        let cut: String = sealed.chars().take(20).collect();
        for odd in ["", "A", "AAAA", "not base64!", &cut] {
            assert_eq!(own.open(b"ann", odd), None, "{odd}");
        }
        let again = own.seal(b"ann", b"tkt_1").unwrap();
        assert_ne!(again, sealed);
    }

    #[test]
    fn a_key_is_thirty_two_bytes() {
        assert_eq!(SealingKey::read(&"01".repeat(32)), Some(OLD));
        assert_eq!(SealingKey::read(&BASE64.encode(&[1; 32])), Some(OLD));
        for odd in ["", "01", &"01".repeat(33), &BASE64.encode(&[1; 31])] {
            assert_eq!(SealingKey::read(odd), None, "{odd}");
        }
        assert_eq!(format!("{OLD:?}"), "SealingKey");
    }

    #[test]
    fn a_fleet_changes_its_key_in_steps() {
        let before = Sealer::new(&[OLD]).unwrap();
        let between = Sealer::new(&[NEW, OLD]).unwrap();
        let after = Sealer::new(&[NEW]).unwrap();
        let old = before.seal(b"", b"note").unwrap();
        assert_eq!(between.open(b"", &old).unwrap(), b"note");
        assert_eq!(after.open(b"", &old), None);
        let new = between.seal(b"", b"note").unwrap();
        assert_eq!(after.open(b"", &new).unwrap(), b"note");
        assert_eq!(before.open(b"", &new), None);
        let own = Sealer::new(&[]).unwrap();
        let other = Sealer::new(&[]).unwrap();
        let sealed = own.seal(b"", b"note").unwrap();
        assert_eq!(own.open(b"", &sealed).unwrap(), b"note");
        assert_eq!(other.open(b"", &sealed), None);
    }
}
