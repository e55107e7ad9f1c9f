//! What the proofs of databases behind a network have in common: attempts to write, each of which must be refused for want of a
//! privilege.

use futures_util::future::BoxFuture;

use super::SqlError;

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Refused for want of a privilege, or because the server is read-only.
    Refused,
    /// It ran, or would have.
    Wrote,
    /// It failed for another reason, such as a generated column: another attempt gives the clear answer.
    Unclear,
}

/// Who can try a statement in a transaction that says READ WRITE and is rolled back.
pub(super) trait Tries: Send {
    /// What it came to, or why it could not be tried: in words without a value.
    fn tried<'a>(&'a mut self, statement: &'a str) -> BoxFuture<'a, Result<Outcome, String>>;
}

/// The proof of one database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof<'d> {
    /// Its name in errors.
    pub(super) database: &'d str,
    /// What the server calls those who sign in: `role`, `account`.
    pub(super) who: &'d str,
}

impl Proof<'_> {
    /// It can be written through it.
    pub(super) fn writable(self, probe: impl Into<String>) -> SqlError {
        SqlError::Writable {
            database: self.database.to_owned(),
            probe: probe.into(),
        }
    }

    /// Nobody knows whether it can.
    pub(super) fn unproved(self, cause: impl std::fmt::Display) -> SqlError {
        SqlError::Open {
            database: self.database.to_owned(),
            cause: format!("cannot prove that it is read-only: {cause}"),
        }
    }

    /// Tries them all: none may write, and at least one must be refused.
    pub(super) async fn by(
        self,
        tries: &mut impl Tries,
        attempts: Vec<String>,
    ) -> Result<(), SqlError> {
        let mut refused = false;
        for attempt in attempts {
            match tries.tried(&attempt).await {
                Ok(Outcome::Refused) => refused = true,
                Ok(Outcome::Unclear) => {}
                Ok(Outcome::Wrote) => return Err(self.writable(attempt)),
                Err(cause) => return Err(self.unproved(cause)),
            }
        }
        if refused {
            return Ok(());
        }
        Err(self.unproved(format!(
            "there is no table that the {} may read, so nothing could be tried",
            self.who
        )))
    }
}

/// Statements that begin to write to a table and touch no row; names are quoted.
pub(super) fn on_rows(table: &str, column: &str) -> [String; 3] {
    [
        format!("INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0"),
        format!("UPDATE {table} SET {column} = {column} WHERE 1 = 0"),
        format!("DELETE FROM {table} WHERE 1 = 0"),
    ]
}

/// Whether the host of a URL is this machine by its name or address.
pub(super) fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers from a list.
    struct Listed(Vec<Result<Outcome, String>>);

    impl Tries for Listed {
        fn tried<'a>(&'a mut self, _: &'a str) -> BoxFuture<'a, Result<Outcome, String>> {
            let next = self.0.remove(0);
            Box::pin(async move { next })
        }
    }

    #[tokio::test]
    async fn one_attempt_that_writes_or_none_that_is_refused_is_no_proof() {
        use Outcome::{Refused, Unclear, Wrote};
        let proof = Proof {
            database: "d",
            who: "role",
        };
        for (answers, words) in [
            (vec![Ok(Refused), Ok(Unclear)], ""),
            (vec![Ok(Refused), Ok(Wrote)], "statement 1"),
            (
                vec![Ok(Unclear), Ok(Unclear)],
                "no table that the role may read",
            ),
            (vec![], "no table that the role may read"),
            (vec![Err("gone".to_owned())], "gone"),
        ] {
            let attempts = (0..answers.len())
                .map(|n| format!("statement {n}"))
                .collect();
            let said = proof.by(&mut Listed(answers), attempts).await;
            let said = said.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(said.is_empty(), words.is_empty(), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn this_machine_is_told_by_name_and_address() {
        for (host, expected) in [
            ("localhost", true),
            ("127.0.0.9", true),
            ("::1", true),
            ("[::1]", true),
            ("db.example", false),
            ("10.0.0.1", false),
            ("localhost.example", false),
        ] {
            assert_eq!(is_this_machine(host), expected, "{host}");
        }
    }
}
