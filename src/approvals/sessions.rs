//! Log-ins: a cookie holds a random name for one, and what keeps them its digest. They are kept in this process, or in the ticket
//! store where several processes share that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::people::Person;
use crate::identity::api_key::sha256;
use crate::settings::SessionTimes;
use crate::store::tickets::TicketError;
use crate::store::tickets::logins::{LogIn, LogInLife, LogIns};

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

/// What is written of a log-in where others keep it.
#[derive(Serialize, Deserialize)]
struct Facts {
    person: Arc<Person>,
    csrf: Arc<str>,
    shown: Option<Timestamp>,
}

/// Every log-in.
pub(crate) struct Sessions {
    times: SessionTimes,
    kept: Mutex<HashMap<Digest, Kept>>,
    /// Where they are kept for every process.
    shared: Option<Arc<dyn LogIns>>,
}

/// Why a log-in cannot be begun or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotKept {
    /// No name can be made.
    #[error("the system gives no randomness")]
    NoRandomness(#[from] NoRandomness),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] TicketError),
    /// A person that cannot be written.
    #[error("the log-in cannot be written: {0}")]
    Unwritten(#[from] serde_json::Error),
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
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no randomness")]
pub(crate) struct NoRandomness;

impl Sessions {
    pub(crate) fn new(times: SessionTimes, shared: Option<Arc<dyn LogIns>>) -> Self {
        Self {
            times,
            kept: Mutex::default(),
            shared,
        }
    }

    fn life(&self) -> LogInLife {
        LogInLife {
            idle: self.times.idle,
            absolute: self.times.absolute,
            each: u32::try_from(MOST_OF_ONE).unwrap_or(u32::MAX),
        }
    }

    /// A new log-in under a new name, which the cookie gets. The one under the name `old` ends.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn begin(
        &self,
        person: Person,
        shown: Option<Timestamp>,
        now: Timestamp,
        old: Option<&str>,
    ) -> Result<String, NotKept> {
        let (name, csrf) = (random()?, random()?);
        let Some(shared) = &self.shared else {
            self.keep((&name, csrf.into()), person, (shown, now), old);
            return Ok(name);
        };
        let human = serde_json::to_string(&person.id)?;
        let facts = Facts {
            person: Arc::new(person),
            csrf: csrf.into(),
            shown,
        };
        let log_in = LogIn {
            human,
            facts: serde_json::to_string(&facts)?,
            since: now,
            used: now,
        };
        let old = old.map(|old| sha256(old.as_bytes()));
        let begun = shared.begin(sha256(name.as_bytes()), log_in, old, self.life());
        begun.await?;
        Ok(name)
    }

    fn keep(
        &self,
        (name, csrf): (&str, Arc<str>),
        person: Person,
        (shown, now): (Option<Timestamp>, Timestamp),
        old: Option<&str>,
    ) {
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
            csrf,
            since: now,
            used: now,
            shown,
        };
        kept.insert(sha256(name.as_bytes()), session);
    }

    /// The log-in of that name, if it has not ended. It counts as used. A store that fails shows nobody in.
    pub(crate) async fn get(&self, name: &str, now: Timestamp) -> Option<Session> {
        let digest = sha256(name.as_bytes());
        let Some(shared) = &self.shared else {
            return self.known(&digest, now);
        };
        let found = match shared.get(digest, now, self.life()).await {
            Ok(found) => found?,
            Err(error) => {
                tracing::error!(%error, "a log-in cannot be looked up");
                return None;
            }
        };
        let facts: Facts = serde_json::from_str(&found.facts).ok()?;
        Some(Session {
            fresh: self.is_fresh(facts.shown, now),
            person: facts.person,
            csrf: facts.csrf,
        })
    }

    fn known(&self, digest: &Digest, now: Timestamp) -> Option<Session> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let session = kept.get_mut(digest)?;
        if !self.is_alive(session, now) {
            kept.remove(digest);
            return None;
        }
        session.used = session.used.max(now);
        Some(Session {
            person: Arc::clone(&session.person),
            csrf: Arc::clone(&session.csrf),
            fresh: self.is_fresh(session.shown, now),
        })
    }

    /// Ends the log-in of that name.
    ///
    /// # Errors
    /// The store failed: it may go on.
    pub(crate) async fn end(&self, name: &str) -> Result<(), NotKept> {
        let digest = sha256(name.as_bytes());
        if let Some(shared) = &self.shared {
            return Ok(shared.end(digest).await?);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&digest);
        Ok(())
    }

    fn is_fresh(&self, shown: Option<Timestamp>, now: Timestamp) -> bool {
        shown.is_some_and(|shown| since(shown, now) <= self.times.fresh)
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

    fn sessions() -> Sessions {
        Sessions::new(SessionTimes::default(), None)
    }

    #[tokio::test]
    async fn a_log_in_ends_by_idling_by_its_age_and_by_logging_out() {
        let sessions = sessions();
        let begin = async |at| {
            let begun = sessions.begin(person("ann"), Some(at), at, None);
            begun.await.unwrap()
        };
        let name = begin(after(0)).await;
        assert!(sessions.get(&name, after(5)).await.unwrap().fresh);
        assert!(!sessions.get(&name, after(20)).await.unwrap().fresh);
        assert!(sessions.get(&name, after(51)).await.is_none(), "idle");
        let for_good = sessions.get(&name, after(20)).await;
        assert!(for_good.is_none(), "ended for good");

        let name = begin(after(0)).await;
        for minutes in (0..=720).step_by(20) {
            let session = sessions.get(&name, after(minutes)).await;
            assert!(session.is_some(), "{minutes}");
        }
        assert!(sessions.get(&name, after(721)).await.is_none(), "too old");

        let name = begin(after(0)).await;
        sessions.end(&name).await.unwrap();
        assert!(sessions.get(&name, after(0)).await.is_none());
    }

    #[tokio::test]
    async fn a_new_log_in_has_a_new_name_and_ends_the_old_one() {
        let sessions = sessions();
        let at = after(0);
        let old = sessions.begin(person("ann"), None, at, None).await.unwrap();
        let new = sessions.begin(person("ann"), None, at, Some(&old));
        let new = new.await.unwrap();
        assert_ne!(old, new);
        assert!(sessions.get(&old, at).await.is_none());
        let session = sessions.get(&new, at).await.unwrap();
        assert!(!session.fresh, "nobody can tell when ann showed who she is");
        assert!(sessions.get("", at).await.is_none());
    }

    #[tokio::test]
    async fn one_person_does_not_fill_the_table() {
        let sessions = sessions();
        let other = sessions.begin(person("bob"), None, after(0), None);
        let other = other.await.unwrap();
        let mut names = Vec::new();
        for minute in 1..=25 {
            let begun = sessions.begin(person("ann"), None, after(minute), None);
            names.push(begun.await.unwrap());
        }
        let mut alive = 0;
        for name in &names {
            alive += usize::from(sessions.get(name, after(25)).await.is_some());
        }
        assert_eq!(alive, MOST_OF_ONE);
        assert!(sessions.get(&other, after(25)).await.is_some());
    }
}
