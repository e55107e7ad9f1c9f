//! What was true at the approval, and is not any more.

use std::time::Duration;

use holdpoint::store::tickets::TicketState;

use super::desk::{Desk, POLICY, Shelf, done, refund};
use crate::support::clock::StillClock;

pub async fn row_12_the_policy_was_tightened(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    let ticket = desk.approved(&refund()).await;
    let tightened = POLICY.replace("catalog: off", "catalog: enforce").replace(
        "role: finance, ttl: 15m, summary: \"Refund {/amount} on {/order}\"}",
        "role: finance, ttl: 15m, summary: \"Refund {/amount} on {/order}\"}, when: [{at: /amount, at_most: \"10\"}]",
    );
    let desk = desk.under(&tightened).await;
    assert_eq!(
        desk.code(&refund()).await,
        (403, "condition_failed".to_owned())
    );
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
    assert_eq!(desk.reached(), 0);
    // And allowed again.
    let desk = desk.under(POLICY).await;
    assert_eq!(desk.ask(&refund()).await.status, 201);
}

pub async fn row_14_expired_and_the_clock_steps_back(shelf: &Shelf) {
    let clock = StillClock::new();
    let desk = Desk::at(shelf, POLICY, "", clock.clone(), done).await;
    let ticket = desk.approved(&refund()).await;
    clock.forward(Duration::from_secs(15 * 60 + 1));
    assert_eq!(
        desk.code(&refund()).await,
        (403, "approval_expired".to_owned())
    );
    assert_eq!(desk.state(&ticket).await, TicketState::Expired);
    clock.back(Duration::from_secs(10 * 60));
    assert_eq!(desk.state(&ticket).await, TicketState::Expired);
    // It is a new request, and the old answer does not count for it.
    let asked = desk.held(&refund()).await;
    assert_ne!(asked, ticket);
    assert_eq!(
        (desk.state(&asked).await, desk.reached()),
        (TicketState::Requested, 0)
    );
}
