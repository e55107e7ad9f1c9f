//! Log-ins, kept here and nowhere else: a cookie holds a random name for one, and this table its digest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;

use super::people::Person;
use crate::identity::api_key::sha256;
use crate::settings::SessionTimes;

/// Log-ins at once; the longest unused is ended. Of one person, so many.
const MOST: usize = 10_000;
const MOST_OF_ONE: usize = 20;

/// The digest of the cookie's value.
type Digest = [u8; 32];

/// One log-in, as a request sees it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub person: Arc<Person>,
    pub csrf: Arc<str>,
    /// Whether the person has shown who they are just now.
    pub fresh: bool,
}

struct Kept {
    person: Arc<Person>,
    csrf: Arc<str>,
    since: Timestamp,
    used: Timestamp,
    /// When the person has last shown who they are; `None`: nobody can tell.
    shown: Option<Timestamp>,
}

/// Every log-in.
pub(crate) struct Sessions {
    times: SessionTimes,
    kept: Mutex<HashMap<Digest, Kept>>,
}

/// 256 random bits as text.
///
/// # Errors
/// The system gives no randomness.
pub(crate) fn random() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

/// The system gives no randomness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRandomness;

impl Sessions {
    pub(crate) fn new(times: SessionTimes) -> Self {
        Self {
            times,
            kept: Mutex::default(),
        }
    }

    /// A new log-in under a new name, which the cookie gets. The one under the name `old` ends.
    pub(crate) fn begin(
        &self,
        person: Person,
        shown: Option<Timestamp>,
        now: Timestamp,
        old: Option<&str>,
    ) -> Result<String, NoRandomness> {
        let (name, csrf) = (random()?, random()?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = old {
            kept.remove(&sha256(old.as_bytes()));
        }
        kept.retain(|_, session| self.is_alive(session, now));
        let own = |session: &Kept| session.person.id == person.id;
        while kept.values().filter(|session| own(session)).count() >= MOST_OF_ONE {
            if !forget_one(&mut kept, own) {
                break;
            }
        }
        if kept.len() >= MOST {
            forget_one(&mut kept, |_| true);
        }
        let session = Kept {
            person: Arc::new(person),
            csrf: csrf.into(),
            since: now,
            used: now,
            shown,
        };
        kept.insert(sha256(name.as_bytes()), session);
        Ok(name)
    }

    /// The log-in of that name, if it has not ended. It counts as used.
    pub(crate) fn get(&self, name: &str, now: Timestamp) -> Option<Session> {
        let digest = sha256(name.as_bytes());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let session = kept.get_mut(&digest)?;
        if !self.is_alive(session, now) {
            kept.remove(&digest);
            return None;
        }
        session.used = session.used.max(now);
        let fresh = session
            .shown
            .is_some_and(|shown| since(shown, now) <= self.times.fresh);
        Some(Session {
            person: Arc::clone(&session.person),
            csrf: Arc::clone(&session.csrf),
            fresh,
        })
    }

    /// Whether the log-in of that name has not ended; asking is no use of it.
    pub(crate) fn is_open(&self, name: &str, now: Timestamp) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let session = kept.get(&sha256(name.as_bytes()));
        session.is_some_and(|session| self.is_alive(session, now))
    }

    /// Ends the log-in of that name.
    pub(crate) fn end(&self, name: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&sha256(name.as_bytes()));
    }

    fn is_alive(&self, session: &Kept, now: Timestamp) -> bool {
        since(session.used, now) <= self.times.idle
            && since(session.since, now) <= self.times.absolute
    }
}

fn forget_one(kept: &mut HashMap<Digest, Kept>, among: impl Fn(&Kept) -> bool) -> bool {
    let candidates = kept.iter().filter(|(_, session)| among(session));
    let oldest = candidates.min_by_key(|(_, session)| session.used);
    let Some(oldest) = oldest.map(|(digest, _)| *digest) else {
        return false;
    };
    kept.remove(&oldest).is_some()
}

/// None for a clock that was set back.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::HumanId;

    fn person(subject: &str) -> Person {
        let id = HumanId::new("config", subject);
        Person {
            aliases: BTreeSet::from([id.clone()]),
            id,
            name: subject.into(),
            roles: Vec::new(),
            tenants: None,
            own: None,
        }
    }

    fn after(minutes: i64) -> Timestamp {
        let start: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        start + jiff::SignedDuration::from_mins(minutes)
    }

    #[test]
    fn a_log_in_ends_by_idling_by_its_age_and_by_logging_out() {
        let sessions = Sessions::new(SessionTimes::default());
        let begin = |at| sessions.begin(person("ann"), Some(at), at, None).unwrap();
        let name = begin(after(0));
        assert!(sessions.get(&name, after(5)).unwrap().fresh);
        assert!(!sessions.get(&name, after(20)).unwrap().fresh);
        assert!(sessions.get(&name, after(51)).is_none(), "idle");
        assert!(sessions.get(&name, after(20)).is_none(), "ended for good");
        let name = begin(after(0));
        assert!(sessions.is_open(&name, after(30)) && !sessions.is_open(&name, after(31)));
        assert!(
            sessions.get(&name, after(31)).is_none(),
            "asking was no use"
        );

        let name = begin(after(0));
        for minutes in (0..=720).step_by(20) {
            assert!(sessions.get(&name, after(minutes)).is_some(), "{minutes}");
        }
        assert!(sessions.get(&name, after(721)).is_none(), "too old");

        let name = begin(after(0));
        sessions.end(&name);
        assert!(sessions.get(&name, after(0)).is_none());
    }

    #[test]
    fn a_new_log_in_has_a_new_name_and_ends_the_old_one() {
        let sessions = Sessions::new(SessionTimes::default());
        let at = after(0);
        let old = sessions.begin(person("ann"), None, at, None).unwrap();
        let new = sessions.begin(person("ann"), None, at, Some(&old)).unwrap();
        assert_ne!(old, new);
        assert!(sessions.get(&old, at).is_none());
        let session = sessions.get(&new, at).unwrap();
        assert!(!session.fresh, "nobody can tell when ann showed who she is");
        assert!(sessions.get("", at).is_none());
    }

    #[test]
    fn one_person_does_not_fill_the_table() {
        let sessions = Sessions::new(SessionTimes::default());
        let other = sessions.begin(person("bob"), None, after(0), None).unwrap();
        let names: Vec<_> = (1..=25)
            .map(|minute| sessions.begin(person("ann"), None, after(minute), None))
            .collect();
        let alive = names
            .iter()
            .filter(|name| sessions.get(name.as_ref().unwrap(), after(25)).is_some());
        assert_eq!(alive.count(), MOST_OF_ONE);
        assert!(sessions.get(&other, after(25)).is_some());
    }
}
