//! Passwords of local accounts: Argon2id (RFC 9106) at OWASP's parameters, kept as PHC strings.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, Params};
use aws_lc_rs::rand;

/// Shortest password that is hashed, in characters: NIST SP 800-63B for a single factor.
pub const SHORTEST: usize = 15;

/// Longest password that is looked at, in bytes.
pub const LONGEST: usize = 1024;

/// Most memory that checking one password may take, in KiB, and most passes: a hash is work for whoever knocks.
const MOST: (u32, u32) = (256 << 10, 16);

/// Least of the same: less can be tried too fast.
const LEAST: (u32, u32) = (8 << 10, 1);

/// The hash of a password, as the config has it.
///
/// # Errors
/// The password is too short or too long, or the system gives no randomness.
pub fn hash(password: &str) -> Result<String, String> {
    if password.chars().count() < SHORTEST {
        return Err(format!(
            "the password is shorter than {SHORTEST} characters"
        ));
    }
    if password.len() > LONGEST {
        return Err(format!("the password is longer than {LONGEST} bytes"));
    }
    let mut salt = [0; 16];
    rand::fill(&mut salt).map_err(|_| "the system gives no randomness".to_owned())?;
    let hashed: Result<PasswordHash, _> =
        Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    hashed
        .map(|hash| hash.to_string())
        .map_err(|error| format!("the password cannot be hashed: {error}"))
}

/// Whether a text is a hash that [`verify`] can work with.
///
/// # Errors
/// Why not; the words hold nothing of it.
pub fn check(hash: &str) -> Result<(), &'static str> {
    let parsed = PasswordHash::new(hash).map_err(|_| "it is no PHC string")?;
    if parsed.algorithm.as_str() != "argon2id" {
        return Err("its algorithm is not argon2id");
    }
    if parsed.salt.is_none() || parsed.hash.is_none() {
        return Err("it lacks the salt or the hash");
    }
    let params = Params::try_from(&parsed).map_err(|_| "its parameters are wrong")?;
    let (memory, passes) = (params.m_cost(), params.t_cost());
    if memory > MOST.0 || passes > MOST.1 || params.p_cost() > 16 {
        return Err("its parameters ask for more than 256 MiB, 16 passes or 16 lanes");
    }
    if memory < LEAST.0 || passes < LEAST.1 {
        return Err("its parameters ask for less than 8 MiB: it could be guessed too fast");
    }
    Ok(())
}

/// Whether the password has the hash. Slow on purpose: not for a thread that serves others.
pub fn verify(password: &str, hash: &str) -> bool {
    if password.len() > LONGEST {
        return false;
    }
    PasswordHash::new(hash).is_ok_and(|hash| {
        Argon2::default()
            .verify_password(password.as_bytes(), &hash)
            .is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "correct horse battery";

    #[test]
    fn a_password_is_known_by_its_hash_alone() {
        let (one, other) = (hash(PASSWORD).unwrap(), hash(PASSWORD).unwrap());
        assert_ne!(one, other, "a salt of its own each");
        assert_eq!(check(&one), Ok(()));
        assert!(verify(PASSWORD, &one) && verify(PASSWORD, &other));
        for wrong in ["", "correct horse batterz", "Correct horse battery"] {
            assert!(!verify(wrong, &one), "{wrong}");
        }
        assert!(!verify(PASSWORD, "not a hash"));
        assert!(hash("short").is_err() && hash(&"x".repeat(2000)).is_err());
    }

    #[test]
    fn what_cannot_be_worked_with_is_refused() {
        let good = hash(PASSWORD).unwrap();
        for (text, fine) in [
            (good.clone(), true),
            (good.replace("argon2id", "argon2i"), false),
            (good.replace("m=19456", "m=1024"), false),
            (good.replace("m=19456", "m=4194304"), false),
            (good.replace("t=2", "t=200"), false),
            (
                "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA".to_owned(),
                false,
            ),
            (PASSWORD.to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(check(&text).is_ok(), fine, "{text}");
        }
    }
}
