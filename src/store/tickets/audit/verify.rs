//! Walks a chain and says where it does not hold, and which tickets are not as it says.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{AuditRow, Event, Head};
use crate::names::TicketId;
use crate::store::tickets::{Ticket, TicketState};

/// Where and why a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A row is missing, or out of its order.
    #[error("row {expected} is missing: {found} stands in its place")]
    Missing {
        /// What should come.
        expected: u64,
        /// What comes.
        found: u64,
    },
    /// A row is not bound to the one before it.
    #[error("row {0} does not follow the row before it: one of the two was replaced")]
    Unlinked(u64),
    /// A row is not what its hash says.
    #[error("row {0} was changed")]
    Changed(u64),
    /// The chain ends before the row that was noted.
    #[error(
        "the audit ends at row {found}, and row {noted} was noted: rows were removed from its end"
    )]
    Truncated {
        /// The last row.
        found: u64,
        /// The noted one.
        noted: u64,
    },
    /// The noted row is another.
    #[error("row {0} is not the one that was noted: the audit was rewritten")]
    Rewritten(u64),
}

/// Takes rows in order and says where they do not hold.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    head: Head,
    noted: Option<Head>,
    /// When the first row was written.
    since: Option<Timestamp>,
    /// The last event that says where a ticket stands.
    last: HashMap<TicketId, Event>,
}

impl Verifier {
    /// From the first row on; `noted` is a head that was noted earlier.
    pub fn new(noted: Option<Head>) -> Self {
        Self {
            noted,
            ..Self::default()
        }
    }

    /// The last row that was taken.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The next row.
    ///
    /// # Errors
    /// It does not belong there, or is not what was written.
    pub fn take(&mut self, row: &AuditRow) -> Result<(), Broken> {
        let expected = self.head.seq + 1;
        if row.seq != expected {
            let found = row.seq;
            return Err(Broken::Missing { expected, found });
        }
        if row.prev != self.head.hash {
            return Err(Broken::Unlinked(row.seq));
        }
        if row.computed() != row.hash {
            return Err(Broken::Changed(row.seq));
        }
        if let Some(noted) = self.noted
            && noted.seq == row.seq
            && noted.hash != row.hash
        {
            return Err(Broken::Rewritten(row.seq));
        }
        self.head = row.head();
        self.since.get_or_insert(row.at);
        if let Some(ticket) = &row.ticket
            && leads_to(row.event).is_some()
        {
            self.last.insert(ticket.clone(), row.event);
        }
        Ok(())
    }

    /// Whether the rows taken so far lead to where this ticket stands. A ticket of which there is no row must be older than the
    /// first one.
    pub fn agrees(&self, ticket: &Ticket) -> bool {
        match self.last.get(&ticket.id) {
            Some(event) => leads_to(*event).is_some_and(|states| states.contains(&ticket.state)),
            None => self.since.is_none_or(|since| ticket.created_at < since),
        }
    }

    /// After the last row: its number and hash, to be noted.
    ///
    /// # Errors
    /// The chain ends before the row that was noted.
    pub fn end(&self) -> Result<Head, Broken> {
        match self.noted {
            Some(noted) if noted.seq > self.head.seq => Err(Broken::Truncated {
                found: self.head.seq,
                noted: noted.seq,
            }),
            _ => Ok(self.head),
        }
    }
}

/// Where a ticket may stand after an event; `None`: it says nothing of that.
const fn leads_to(event: Event) -> Option<&'static [TicketState]> {
    Some(match event {
        Event::Requested | Event::Answered => &[TicketState::Requested],
        Event::Approved | Event::Admitted => &[TicketState::Approved],
        Event::Denied => &[TicketState::Denied],
        Event::Revoked => &[TicketState::Revoked],
        Event::Expired => &[TicketState::Expired],
        Event::Cancelled => &[TicketState::Cancelled],
        Event::Claimed => &[TicketState::Redeeming],
        Event::NotSent => &[
            TicketState::Approved,
            TicketState::Cancelled,
            TicketState::Unknown,
        ],
        Event::Succeeded => &[TicketState::Succeeded],
        Event::Failed => &[TicketState::Failed],
        Event::Unknown => &[TicketState::Unknown],
        Event::ResolvedDone => &[TicketState::ResolvedDone],
        Event::ResolvedNotDone => &[TicketState::ResolvedNotDone],
        Event::MandateGranted
        | Event::MandateEnded
        | Event::Pruned
        | Event::SelfApprovalRefused
        | Event::ForeignCredential => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::tickets::audit::{Event, ITSELF, Note};

    fn chain(rows: u64) -> Vec<AuditRow> {
        let mut head = Head::default();
        (0..rows)
            .map(|n| {
                let note = Note {
                    event: Event::Requested,
                    ticket: Some(format!("tkt_{n}").into()),
                    mandate: None,
                    actor: ITSELF.to_owned(),
                    details: json!({"state": "requested", "n": n}),
                };
                let row = AuditRow::after(head, "2026-11-30T12:00:00Z".parse().unwrap(), note);
                head = row.head();
                row
            })
            .collect()
    }

    fn verify(rows: &[AuditRow], noted: Option<Head>) -> Result<Head, Broken> {
        let mut verifier = Verifier::new(noted);
        for row in rows {
            verifier.take(row)?;
        }
        verifier.end()
    }

    /// Computed apart from this code:
    /// `printf 'holdpoint-audit-v1\0%s' "$json" | sha256sum`.
    #[test]
    fn the_hash_is_the_documented_one() {
        let row = chain(1).remove(0);
        let json = r#"{"actor":"holdpoint","at":"2026-11-30T12:00:00Z","details":{"n":0,"state":"requested"},"event":"requested","mandate":null,"prev":"0000000000000000000000000000000000000000000000000000000000000000","seq":1,"ticket":"tkt_0"}"#;
        let bytes = [b"holdpoint-audit-v1\0".as_slice(), json.as_bytes()].concat();
        let expected = crate::store::tickets::digest::sha256_hex(&bytes);
        assert_eq!(row.hash.to_string(), expected);
    }

    #[test]
    fn every_kind_of_tampering_is_found() {
        let rows = chain(5);
        let head = verify(&rows, None).unwrap();
        assert_eq!(Head::from_text(&head.to_string()), Some(head));
        assert_eq!(verify(&rows, Some(head)), Ok(head));
        assert_eq!(verify(&rows, Some(rows[2].head())), Ok(head));

        let mut changed = rows.clone();
        changed[2].actor = "somebody".to_owned();
        assert_eq!(verify(&changed, None), Err(Broken::Changed(3)));
        // With a hash that fits again the next row no longer follows.
        changed[2].hash = changed[2].computed();
        assert_eq!(verify(&changed, None), Err(Broken::Unlinked(4)));

        let mut deleted = rows.clone();
        deleted.remove(2);
        let missing = Broken::Missing {
            expected: 3,
            found: 4,
        };
        assert_eq!(verify(&deleted, None), Err(missing));

        let mut swapped = rows.clone();
        swapped.swap(1, 2);
        assert!(verify(&swapped, None).is_err());

        let truncated = &rows[..3];
        assert!(verify(truncated, None).is_ok());
        let cut = Broken::Truncated { found: 3, noted: 5 };
        assert_eq!(verify(truncated, Some(head)), Err(cut));

        // A chain that is consistent in itself, and another than the one that was noted.
        let mut rewritten = chain(2);
        rewritten[1].details = json!({});
        rewritten[1].hash = rewritten[1].computed();
        assert!(verify(&rewritten, None).is_ok());
        let noted = Some(rows[1].head());
        assert_eq!(verify(&rewritten, noted), Err(Broken::Rewritten(2)));
    }
}
