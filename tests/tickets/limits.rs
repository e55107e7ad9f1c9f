//! Caps, long receipts, modes, and a store that is missing or fails.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdpoint::guard::{Guard, Outcome, Parts, Receipt};
use holdpoint::store::tickets::audit::Event;
use holdpoint::store::tickets::{Cause, RECEIPT_BODY, TicketState};
use holdpoint::verdict::{LayerId, Mode, Reason};
use rusqlite::Connection;

use crate::world::{Call, Said, World, guard, policy, refund, send};

fn numbered(n: usize, session: &str) -> Call {
    Call {
        args: format!("{{\"order\":\"A-{n}\",\"amount\":1}}"),
        session: Some(session.to_owned()),
        ..refund()
    }
}

#[tokio::test]
async fn a_session_may_have_five_requests_open() {
    let world = World::new();
    let first = world.send(&numbered(0, "s1")).await.ticket();
    for n in 1..5 {
        assert_eq!(
            world.send(&numbered(n, "s1")).await.word(),
            "approval_required"
        );
    }
    assert_eq!(
        world.send(&numbered(5, "s1")).await.word(),
        "approval_limit"
    );
    assert_eq!(
        world.send(&numbered(0, "s1")).await.word(),
        "approval_pending"
    );
    assert_eq!(
        world.send(&numbered(5, "s2")).await.word(),
        "approval_required"
    );
    let other = Call {
        subject: "bob".to_owned(),
        ..numbered(5, "s1")
    };
    assert_eq!(world.send(&other).await.word(), "approval_required");
    world.deny(&first).await;
    assert_eq!(
        world.send(&numbered(5, "s1")).await.word(),
        "approval_required"
    );
}

#[tokio::test]
async fn a_user_may_ask_twenty_times_an_hour() {
    let world = World::new();
    for n in 0..20 {
        let session = format!("s{n}");
        assert_eq!(
            world.send(&numbered(n, &session)).await.word(),
            "approval_required"
        );
    }
    let said = world.send(&numbered(20, "s20")).await;
    let Said::Refused(finding) = said else {
        panic!("{}", said.word())
    };
    assert_eq!(finding.reason.as_str(), "approval_limit");
    assert!(finding.detail.contains("20 requests"), "{}", finding.detail);
    world.clock.forward(Duration::from_hours(1));
    assert_eq!(
        world.send(&numbered(20, "s20")).await.word(),
        "approval_required"
    );
}

#[tokio::test]
async fn a_long_receipt_keeps_hash_and_head_and_says_so() {
    let world = World::new();
    for (body, whole) in [
        (vec![b'x'; RECEIPT_BODY], true),
        (vec![b'y'; RECEIPT_BODY + 1], false),
    ] {
        let call = numbered(body.len(), "s1");
        let ticket = world.approved(&call).await;
        let receipt = Receipt {
            ticket: ticket.clone(),
            status: 201,
            content_type: Some("text/plain".to_owned()),
            body: Bytes::from(body.clone()),
            completed_at: "2026-11-30T12:00:00Z".parse().unwrap(),
        };
        let claim = world.send(&call).await.claim();
        claim
            .finish(Outcome::Answered(receipt.clone()))
            .await
            .unwrap();
        let replayed = world.send(&call).await.receipt();
        if whole {
            assert_eq!(replayed, receipt);
            continue;
        }
        assert_eq!(replayed.status, 201);
        assert_eq!(replayed.content_type.as_deref(), Some("application/json"));
        let said: serde_json::Value = serde_json::from_slice(&replayed.body).unwrap();
        assert_eq!(said["length"], body.len());
        assert_eq!(said["content_type"], "text/plain");
        assert!(said["head"].as_str().unwrap().starts_with("yyy"));
        let shown = world.store.get(ticket).await.unwrap().unwrap();
        let completed = shown.completed.unwrap();
        assert_eq!(said["sha256"], completed.sha256);
        assert!(!completed.whole);
    }
}

#[tokio::test]
async fn bytes_that_are_not_text_are_replayed_as_they_came() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let claim = world.send(&refund()).await.claim();
    let receipt = Receipt {
        ticket,
        status: 200,
        content_type: None,
        body: Bytes::from_static(b"\xff\x00\xfe"),
        completed_at: "2026-11-30T12:00:00Z".parse().unwrap(),
    };
    claim
        .finish(Outcome::Answered(receipt.clone()))
        .await
        .unwrap();
    assert_eq!(world.send(&refund()).await.receipt(), receipt);
}

#[tokio::test]
async fn shadow_and_off_make_no_request() {
    for mode in [Mode::Shadow, Mode::Off] {
        let mut policy = policy();
        policy.modes = policy.modes.with(LayerId::Tickets, mode);
        let world = World::with(policy);
        let decision = world.guard.decide(&refund().exchange()).await.unwrap();
        let shadowed = decision.rulings[0]
            .opinions
            .iter()
            .any(|o| o.verdict.label() == "hold");
        assert_eq!(shadowed, mode == Mode::Shadow);
        assert_eq!(world.send(&refund()).await.word(), "passed");
        assert_eq!(world.all().await.len(), 0);
    }
}

#[tokio::test]
async fn ticket_rules_without_a_store_do_not_start() {
    let ruled = Arc::new(policy());
    let modes = ruled.modes.clone();
    let problems = Guard::new(ruled, &modes, Parts::default()).unwrap_err();
    assert_eq!(
        problems.0[0].message,
        "the rule `tools[0].ticket` needs a ticket store and none is configured"
    );
    assert!(
        problems.0[0]
            .help
            .as_ref()
            .unwrap()
            .contains("tickets.store")
    );

    let mut bare = policy();
    bare.tools.retain(|rule| rule.ticket.is_none());
    let guard = guard(bare, None);
    assert_eq!(send(&guard, &refund()).await.word(), "no_approver");
}

#[tokio::test]
async fn a_store_that_fails_refuses_held_calls_and_no_others() {
    let world = World::new();
    let ticket = world.approved(&refund()).await;
    let claim = world.send(&refund()).await.claim();
    let raw = Connection::open(world.path()).unwrap();
    raw.execute_batch("ALTER TABLE ticket RENAME TO gone")
        .unwrap();
    for _ in 0..2 {
        assert_eq!(
            world.send(&numbered(1, "s1")).await.word(),
            "tickets_unavailable"
        );
    }
    let free = Call {
        tool: "get_order".to_owned(),
        ..refund()
    };
    assert_eq!(world.send(&free).await.word(), "passed");
    let failed = claim
        .finish(crate::world::answered(&ticket, 200, "{}"))
        .await
        .unwrap_err();
    assert!(
        failed.cause.contains("the ticket store failed"),
        "{}",
        failed.cause
    );
    raw.execute_batch("ALTER TABLE gone RENAME TO ticket")
        .unwrap();
    // The outcome could not be stored, so nobody knows it.
    assert_eq!(world.state(&ticket).await, TicketState::Unknown);
}

#[tokio::test]
async fn every_state_is_counted() {
    let world = World::new();
    let counts = world.store.counts().await.unwrap();
    assert_eq!(counts.len(), TicketState::ALL.len());
    world.send(&refund()).await;
    assert_eq!(world.counts().await, [(TicketState::Requested, 1)].into());
}

#[test]
fn the_reference_names_every_state_and_reason() {
    let reference = include_str!("../../docs/reference/tickets.md");
    for state in TicketState::ALL {
        assert!(reference.contains(&format!("| `{state}` | ")), "{state}");
    }
    for cause in Cause::ALL {
        assert!(
            reference.contains(&format!("`{}`", cause.as_str())),
            "{cause:?}"
        );
    }
    let audit = reference.split_once("## Audit").unwrap().1;
    for event in Event::ALL {
        assert!(audit.contains(&format!("`{event}`")), "{event}");
    }
    for reason in Reason::ALL {
        let code = reason.as_str();
        if code.starts_with("approval")
            || matches!(reason, Reason::InProgress | Reason::OutcomeUnknown)
        {
            assert!(reference.contains(&format!("| `{code}` | ")), "{code}");
        }
    }
}
