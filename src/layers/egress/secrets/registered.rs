//! Secrets that the deployment registers: salted hashes, so that whoever reads the config cannot read the secret.
//!
//! A line holds the secret's length, 16 bits of a fingerprint that is the same for all, a salt, and 128 bits of an HMAC under
//! that salt. The fingerprint rolls over a text in one pass for each length that is registered; the HMAC is asked only where it
//! agrees, on average once in 65 536 places and line. So the work is bounded by text × lengths, a secret is found wherever it
//! stands, and the 16 bits tell no more of it than one guess in 65 536 would.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use data_encoding::HEXLOWER;

/// Shortest secret in bytes: a shorter one could be guessed from its hash, and stands in texts by chance.
pub const SHORTEST: usize = 12;
/// Longest secret in bytes.
pub const LONGEST: usize = 8192;
/// Most different lengths: each costs a pass over what is sent.
const MOST_LENGTHS: usize = 64;

const SALT: usize = 16;
const TAG: usize = 16;
const VERSION: &str = "hp1";

/// Fingerprint of `length` bytes: a polynomial in this base, modulo 2^64, of which 16 bits of the upper half count.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why a secret cannot be registered, or a line not read. Never shows either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unregistered {
    /// Too short.
    #[error(
        "the secret is shorter than {SHORTEST} characters: its hash could be guessed, and it stands in texts by chance"
    )]
    Short,
    /// Too long.
    #[error("the secret is longer than {LONGEST} bytes")]
    Long,
    /// It repeats itself.
    #[error("the secret has fewer than 6 different characters")]
    Plain,
    /// Not a line.
    #[error("not a line that `holdpoint secret hash` prints")]
    Malformed,
    /// Too many lengths.
    #[error("secrets of more than {MOST_LENGTHS} different lengths")]
    Lengths,
    /// No salt could be drawn.
    #[error("the system gives no random numbers")]
    Random,
}

/// One registered secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Registered {
    length: usize,
    print: u16,
    salt: [u8; SALT],
    tag: [u8; TAG],
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[registered secret]")
    }
}

impl Registered {
    /// Registers a secret under a fresh salt.
    ///
    /// # Errors
    /// A secret that is too short, too long or no secret.
    pub fn new(secret: &str) -> Result<Self, Unregistered> {
        let mut salt = [0; SALT];
        SystemRandom::new()
            .fill(&mut salt)
            .map_err(|_| Unregistered::Random)?;
        let bytes = secret.as_bytes();
        if secret.chars().count() < SHORTEST {
            return Err(Unregistered::Short);
        }
        if bytes.len() > LONGEST {
            return Err(Unregistered::Long);
        }
        let mut seen: Vec<u8> = bytes.to_vec();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() < 6 {
            return Err(Unregistered::Plain);
        }
        Ok(Self {
            length: bytes.len(),
            print: upper(bytes.iter().fold(0, |hash, byte| step(hash, *byte))),
            salt,
            tag: tag(&salt, bytes),
        })
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is none.
    pub fn read(line: &str) -> Result<Self, Unregistered> {
        Self::parts(line).ok_or(Unregistered::Malformed)
    }

    fn parts(line: &str) -> Option<Self> {
        let mut parts = line.split(':');
        if parts.next()? != VERSION {
            return None;
        }
        let length = parts.next()?.parse().ok()?;
        let bytes = |text: &str| HEXLOWER.decode(text.as_bytes()).ok();
        let print = <[u8; 2]>::try_from(bytes(parts.next()?)?).ok()?;
        let salt = bytes(parts.next()?)?.try_into().ok()?;
        let tag = bytes(parts.next()?)?.try_into().ok()?;
        let whole = parts.next().is_none() && (SHORTEST..=LONGEST).contains(&length);
        whole.then_some(Self {
            length,
            print: u16::from_be_bytes(print),
            salt,
            tag,
        })
    }
}

/// The line for the config.
impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8]| HEXLOWER.encode(bytes);
        let print = hex(&self.print.to_be_bytes());
        let (salt, tag) = (hex(&self.salt), hex(&self.tag));
        write!(f, "{VERSION}:{}:{print}:{salt}:{tag}", self.length)
    }
}

fn step(hash: u64, byte: u8) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1)
}

fn upper(hash: u64) -> u16 {
    let [.., a, b, _, _, _, _] = hash.to_be_bytes();
    u16::from_be_bytes([a, b])
}

fn tag(salt: &[u8], secret: &[u8]) -> [u8; TAG] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, salt);
    let mut tag = [0; TAG];
    for (to, from) in tag.iter_mut().zip(hmac::sign(&key, secret).as_ref()) {
        *to = *from;
    }
    tag
}

/// All registered secrets, by length.
#[derive(Clone, Debug, Default)]
pub struct Register(BTreeMap<usize, OfLength>);

#[derive(Clone, Debug)]
struct OfLength {
    /// What a byte that leaves the window weighs.
    weight: u64,
    secrets: Vec<Registered>,
}

impl Register {
    /// A register of these.
    ///
    /// # Errors
    /// Too many different lengths.
    pub fn new(secrets: impl IntoIterator<Item = Registered>) -> Result<Self, Unregistered> {
        let mut lengths: BTreeMap<usize, OfLength> = BTreeMap::new();
        for secret in secrets {
            let weight = || (0..secret.length).fold(1_u64, |weight, _| weight.wrapping_mul(BASE));
            let of = lengths.entry(secret.length).or_insert_with(|| OfLength {
                weight: weight(),
                secrets: Vec::new(),
            });
            of.secrets.push(secret);
        }
        if lengths.len() > MOST_LENGTHS {
            return Err(Unregistered::Lengths);
        }
        Ok(Self(lengths))
    }

    /// Whether none is registered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a registered secret stands anywhere in the bytes.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|(length, of)| of.is_in(*length, bytes))
    }
}

impl OfLength {
    fn is_in(&self, length: usize, bytes: &[u8]) -> bool {
        let mut hash = 0_u64;
        let leaving = std::iter::repeat_n(None, length).chain(bytes.iter().map(Some));
        for (end, (byte, leaving)) in bytes.iter().zip(leaving).enumerate() {
            hash = step(hash, *byte);
            if let Some(left) = leaving {
                hash = hash.wrapping_sub(self.weight.wrapping_mul(u64::from(*left) + 1));
            }
            let Some(start) = (end + 1).checked_sub(length) else {
                continue;
            };
            let print = upper(hash);
            let mut alike = self.secrets.iter().filter(|secret| secret.print == print);
            let window = || bytes.get(start..=end).unwrap_or_default();
            if alike.any(|secret| tag(&secret.salt, window()) == secret.tag) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_back_and_shows_nothing() {
        let secret = "correct-horse-battery";
        let registered = Registered::new(secret).unwrap();
        let line = registered.to_string();
        assert_eq!(Registered::read(&line).unwrap(), registered);
        assert!(!line.contains("horse") && !format!("{registered:?}").contains(&line));
        // The same secret has another line each time.
        assert_ne!(Registered::new(secret).unwrap().to_string(), line);
        for wrong in [
            "",
            "hp1:4:0000::",
            "hp2:21:0000:00:00",
            line.trim_start_matches('h'),
            &format!("{line}:"),
        ] {
            assert_eq!(
                Registered::read(wrong),
                Err(Unregistered::Malformed),
                "{wrong}"
            );
        }
        assert_eq!(Registered::new("short-12345"), Err(Unregistered::Short));
        assert_eq!(Registered::new("aaaaabbbbbccccc"), Err(Unregistered::Plain));
    }

    proptest! {
        #[test]
        fn a_secret_is_found_wherever_it_stands(
            secrets in prop::collection::vec("[ -~]{12,40}", 1..4),
            before in "\\PC{0,60}",
            after in "\\PC{0,60}",
        ) {
            let registered: Vec<_> = secrets.iter().filter_map(|secret| Registered::new(secret).ok()).collect();
            prop_assume!(registered.len() == secrets.len());
            let register = Register::new(registered).unwrap();
            for secret in &secrets {
                prop_assert!(register.is_in(format!("{before}{secret}{after}").as_bytes()), "{secret}");
            }
            prop_assert!(!register.is_in(b"nothing of this kind stands in here, or so it is hoped"));
        }
    }
}
