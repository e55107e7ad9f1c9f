//! A file that an earlier version wrote.

use std::time::Duration;

use holdpoint::store::tickets::{
    Filter, Standing, TicketError, TicketLimits, TicketState, Verdict, sqlite,
};
use rusqlite::Connection;

use crate::conformance::clock::StillClock;
use crate::world::local;

/// Written by version 0.1.0 with schema 1, and dumped: a call that was carried out, one that is approved, one denied, one whose
/// approval was taken back, one that waits.
const SCHEMA_1: &str = include_str!("../fixtures/tickets/schema1.sql");

fn old_file(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("tickets.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(SCHEMA_1).unwrap();
    path
}

#[tokio::test]
async fn a_file_of_schema_1_is_brought_up_to_date_when_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = old_file(folder.path());
    let clock = StillClock::at("2026-11-30T22:25:00Z");
    let limits = TicketLimits::default;
    // The command line and the doctor change nothing.
    let older = sqlite::open_existing(&path, clock.clone(), limits());
    let Err(error @ TicketError::Older { found: 1, .. }) = older else {
        panic!("an older file")
    };
    assert!(error.to_string().contains("holdpoint serve"), "{error}");

    for _ in 0..2 {
        let store = sqlite::open_serving(&path, clock.clone(), limits()).unwrap();
        let mut all = store.list(Filter::default()).await.unwrap();
        all.reverse();
        let states: Vec<_> = all.iter().map(|ticket| ticket.state).collect();
        assert_eq!(
            states,
            [
                TicketState::Succeeded,
                TicketState::Approved,
                TicketState::Denied,
                TicketState::Denied,
                TicketState::Requested,
            ]
        );
        let votes: Vec<_> = all
            .iter()
            .map(|ticket| {
                let said = ticket.votes.iter().map(|vote| {
                    (
                        vote.by.record(),
                        vote.verdict,
                        vote.comment.as_deref().unwrap_or_default(),
                    )
                });
                said.collect::<Vec<_>>()
            })
            .collect();
        let root = |verdict, comment| vec![("local:root".to_owned(), verdict, comment)];
        assert_eq!(
            votes,
            [
                vec![(
                    "config:sam".to_owned(),
                    Verdict::Approve,
                    "seen in the demo"
                )],
                root(Verdict::Approve, "fine"),
                root(Verdict::Deny, "too much"),
                root(Verdict::Deny, ""),
                vec![],
            ]
        );
        assert!(all.iter().all(|ticket| ticket.roles == ["support"]));
        assert_eq!(all[0].completed.as_ref().unwrap().status, 200);
        assert_eq!(all[0].summary, "Refund 19.90 EUR on order A-1001");
    }

    // It lives on: what waits is answered, what is approved runs out, and both are noted.
    let store = sqlite::open_serving(&path, clock.clone(), limits()).unwrap();
    let waiting = store.list(Filter::state(TicketState::Requested)).await;
    let waiting = waiting.unwrap().remove(0);
    let answer = holdpoint::store::tickets::Answer {
        ticket: waiting.id,
        verdict: Verdict::Approve,
        by: local(),
        digest_prefix: None,
        comment: None,
    };
    assert_eq!(
        store.answer(answer).await.unwrap().state,
        TicketState::Approved
    );
    clock.forward(Duration::from_hours(1));
    let audit = store.audit(0, 10).await.unwrap();
    let events: Vec<_> = audit.iter().map(|row| row.event.as_str()).collect();
    assert_eq!(events, ["approved", "expired", "expired"]);
    let next = store
        .present(crate::conformance::refund("A-1"))
        .await
        .unwrap();
    let Standing::Waiting { ticket, new: true } = next else {
        panic!("a request")
    };
    assert_eq!(ticket.seq, 6);
}
