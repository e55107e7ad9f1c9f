//! The audit: one row for every step, each bound to the one before.

use futures_util::future::join_all;
use holdpoint::guard::Outcome;
use holdpoint::store::tickets::audit::{AuditRow, Event, Note, Verifier};
use holdpoint::store::tickets::{Cause, Verdict};
use serde_json::json;

use super::{Bed, Desk, answered, local, person, refund};

async fn rows(desk: &Desk) -> Vec<AuditRow> {
    desk.store.audit(0, 10_000).await.unwrap()
}

fn verify(rows: &[AuditRow]) -> holdpoint::store::tickets::audit::Head {
    let mut verifier = Verifier::new(None);
    for row in rows {
        verifier.take(row).unwrap();
    }
    verifier.end().unwrap()
}

pub async fn every_step_is_noted_and_the_chain_holds(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-1");
    call.terms.approvals = 2;
    let ticket = desk.request(&call).await;
    for who in ["carol", "dave"] {
        desk.answer(&ticket, Verdict::Approve, person(who))
            .await
            .unwrap();
    }
    let claim = desk.claim(&call, &ticket).await;
    claim.finish(Outcome::NotSent).await.unwrap();
    let claim = desk.claim(&call, &ticket).await;
    claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    desk.present(&call).await;
    let voided = desk.approved(&refund("A-2")).await;
    desk.store.void(voided, Cause::StateChanged).await.unwrap();
    let denied = desk.request(&refund("A-3")).await;
    desk.answer(&denied, Verdict::Deny, local()).await.unwrap();
    desk.request(&refund("A-4")).await;
    desk.clock.forward(std::time::Duration::from_mins(15));
    desk.present(&refund("A-4")).await;

    let rows = rows(&desk).await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.event.as_str(), row.actor.as_str()))
        .collect();
    let expected = [
        ("requested", "agent:bot"),
        ("answered", "idp:carol"),
        ("approved", "idp:dave"),
        ("claimed", "agent:bot"),
        ("not_sent", "holdpoint"),
        ("claimed", "agent:bot"),
        ("succeeded", "holdpoint"),
        ("requested", "agent:bot"),
        ("approved", "local:root"),
        ("cancelled", "holdpoint"),
        ("requested", "agent:bot"),
        ("denied", "local:root"),
        ("requested", "agent:bot"),
        ("expired", "holdpoint"),
    ];
    assert_eq!(told, expected);
    assert!(
        rows[..7]
            .iter()
            .all(|row| row.ticket.as_ref() == Some(&ticket))
    );
    assert_eq!(rows[6].details["status"], 200);
    assert_eq!(rows[9].details["cause"], "state_changed");
    let head = verify(&rows);
    assert_eq!(desk.store.head().await.unwrap(), head);
    let page = desk.store.audit(3, 2).await.unwrap();
    assert_eq!(page, rows[3..5]);
}

pub async fn no_argument_is_in_the_audit(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let mut call = refund("A-secret-1");
    call.said = Some("A-secret-2".to_owned());
    let ticket = desk.approved(&call).await;
    let claim = desk.claim(&call, &ticket).await;
    claim
        .finish(answered(&ticket, 200, "A-secret-3"))
        .await
        .unwrap();
    let rows = rows(&desk).await;
    let digest = desk.get(&ticket).await.digest.to_string();
    for row in &rows {
        let text = serde_json::to_string(row).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(row.details["digest"], digest);
    }
}

pub async fn chains_of_two_processes_are_one(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let beside = desk.beside(bed).await;
    let notes = (0..40).map(|n| {
        let store = if n % 2 == 0 {
            &desk.store
        } else {
            &beside.store
        };
        store.note(Note {
            event: Event::ForeignCredential,
            ticket: None,
            mandate: None,
            actor: format!("process:{}", n % 2),
            details: json!({"n": n, "text": "\u{e9}\u{202e}\n", "more": [1, 2.5, null]}),
        })
    });
    for noted in join_all(notes).await {
        noted.unwrap();
    }
    let rows = rows(&beside).await;
    assert_eq!(verify(&rows).seq, 40);
}

pub async fn a_follower_moves_by_one_hand(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let name = || "webhook".to_owned();
    assert_eq!(desk.store.cursor(name()).await.unwrap(), 0);
    assert!(!desk.store.advance(name(), 3, 4).await.unwrap());
    assert!(desk.store.advance(name(), 0, 3).await.unwrap());
    let asked = (0..10).map(|_| desk.store.advance(name(), 3, 5));
    let done = join_all(asked).await;
    let done = done.into_iter().filter(|done| *done.as_ref().unwrap());
    assert_eq!(done.count(), 1);
    assert_eq!(desk.store.cursor(name()).await.unwrap(), 5);
    assert_eq!(desk.store.cursor("other".to_owned()).await.unwrap(), 0);
}

pub async fn a_step_that_fails_notes_nothing(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let ticket = desk.approved(&refund("A-1")).await;
    let before = rows(&desk).await.len();
    // The digest of an open ticket under another principal: no second row may have it.
    let mut forged = super::by("bob", "s1", "A-9");
    forged.call.digest = desk.get(&ticket).await.digest;
    assert!(desk.store.present(forged).await.is_err());
    let late = desk
        .answer(&ticket, Verdict::Approve, person("carol"))
        .await;
    assert!(late.is_err());
    assert_eq!(rows(&desk).await.len(), before);
}
