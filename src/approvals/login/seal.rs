//! What a log-in at the identity provider needs to remember, sealed into a cookie: nothing is kept here for strangers, so
//! strangers can fill nothing.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

/// What the texts are for.
const PURPOSE: &[u8] = b"holdpoint-login-v1";

/// One log-in on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub state: String,
    pub nonce: String,
    pub verifier: String,
    pub next: String,
    pub fresh: bool,
    /// Seconds since 1970.
    pub until: i64,
}

/// A key of this process.
pub(super) struct Seal(RandomizedNonceKey);

impl Seal {
    pub(super) fn new() -> Result<Self, String> {
        let none = |_| "the system gives no randomness".to_owned();
        let mut key = [0; 32];
        rand::fill(&mut key).map_err(none)?;
        RandomizedNonceKey::new(&AES_256_GCM, &key)
            .map(Self)
            .map_err(none)
    }

    pub(super) fn close(&self, pending: &Pending) -> Option<String> {
        let mut text = serde_json::to_vec(pending).ok()?;
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(PURPOSE), &mut text);
        let mut sealed = nonce.ok()?.as_ref().to_vec();
        sealed.extend(text);
        Some(BASE64URL_NOPAD.encode(&sealed))
    }

    pub(super) fn open(&self, text: &str) -> Option<Pending> {
        let mut bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(PURPOSE), sealed)
            .ok()?;
        serde_json::from_slice(opened).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_process_opens_it_and_only_whole() {
        let (one, other) = (Seal::new().unwrap(), Seal::new().unwrap());
        let pending = Pending {
            state: "s".to_owned(),
            nonce: "n".to_owned(),
            verifier: "v".to_owned(),
            next: "/".to_owned(),
            fresh: false,
            until: 7,
        };
        let text = one.close(&pending).unwrap();
        assert_eq!(one.open(&text).unwrap().state, "s");
        assert!(other.open(&text).is_none());
        let (cut, _) = text.split_at(text.len() - 4);
        assert!(one.open(cut).is_none());
        assert!(one.open("").is_none());
        let other_digit = |(at, c): (usize, char)| match (at, c) {
            (20, 'A') => 'B',
            (20, _) => 'A',
            _ => c,
        };
        let touched: String = text.chars().enumerate().map(other_digit).collect();
        assert!(one.open(&touched).is_none());
    }
}
