//! Tickets that an orchestrator signed, once they are verified.

use std::time::Duration;

use holdpoint::store::tickets::{
    Channel, Grants, Issued, MandateFilter, MandateOffer, Mandated, Person, Presented, Standing,
    TicketLimits, TicketState, Verdict,
};

use super::mandates::all;
use super::{Bed, Desk, answered, local, refund};

fn signed(id: &str, grants: Grants) -> Issued {
    Issued {
        id: id.to_owned(),
        key: "shop:k1".to_owned(),
        by: Person::new("shop", "checkout"),
        expires_at: "2026-11-30T13:00:00Z".parse().unwrap(),
        grants,
    }
}

async fn admit(desk: &Desk, call: &Presented, issued: Issued) -> bool {
    desk.store.admit(call.clone(), issued).await.unwrap()
}

pub async fn a_signed_ticket_is_taken_once_ever(bed: &dyn Bed) {
    let limits = TicketLimits {
        keep_tickets: Duration::from_secs(1),
        keep_receipts: Duration::from_secs(1),
        replay_window: Duration::from_secs(1),
        ..TicketLimits::default()
    };
    let desk = Desk::with(bed, limits).await;
    let call = refund("A-1");
    assert!(admit(&desk, &call, signed("j1", Grants::Call)).await);
    let Standing::Approved(ticket) = desk.present(&call).await else {
        panic!("approved")
    };
    assert_eq!(ticket.votes[0].channel, Channel::Issued);
    assert_eq!(ticket.votes[0].by.record(), "shop:checkout");
    let claim = desk.claim(&call, &ticket.id).await;
    claim.finish(answered(&ticket.id, 200, "{}")).await.unwrap();
    // Not for another call, and not when the ticket is no longer kept.
    assert!(!admit(&desk, &refund("A-2"), signed("j1", Grants::Call)).await);
    desk.clock.forward(Duration::from_mins(30));
    assert_eq!(desk.store.prune().await.unwrap(), 1);
    for order in ["A-1", "A-2"] {
        assert!(!admit(&desk, &refund(order), signed("j1", Grants::Call)).await);
    }
    // Another one is another permission, and none outlives itself.
    desk.clock.forward(Duration::from_mins(30));
    assert!(!admit(&desk, &call, signed("j2", Grants::Call)).await);
}

pub async fn a_signed_ticket_changes_no_decision(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let denied = refund("A-1");
    let ticket = desk.request(&denied).await;
    desk.answer(&ticket, Verdict::Deny, local()).await.unwrap();
    assert!(!admit(&desk, &denied, signed("j1", Grants::Call)).await);
    let unknown = refund("A-2");
    desk.lost(&unknown).await;
    assert!(!admit(&desk, &unknown, signed("j1", Grants::Call)).await);
    let done = refund("A-3");
    desk.done(&done, 200).await;
    assert!(!admit(&desk, &done, signed("j1", Grants::Call)).await);
    // So it is still good. A request that waits for a person is approved by it.
    let waiting = refund("A-4");
    let ticket = desk.request(&waiting).await;
    assert!(admit(&desk, &waiting, signed("j1", Grants::Call)).await);
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
}

pub async fn a_signed_mandate_covers_its_calls(bed: &dyn Bed) {
    let desk = Desk::open(bed).await;
    let offered = |order: &str| {
        let mut call = refund(order);
        call.terms.mandate = Some(MandateOffer {
            amount: None,
            currency: None,
            at_most: None,
            uses: 10,
            within: Duration::from_mins(40),
            same: Vec::new(),
        });
        call
    };
    let grants = Grants::Mandate {
        uses: 2,
        at_most: None,
        currency: None,
        same: [("/currency".to_owned(), "EUR".into())].into(),
        session: true,
    };
    assert!(admit(&desk, &offered("A-1"), signed("j1", grants.clone())).await);
    assert!(!admit(&desk, &offered("A-1"), signed("j1", grants)).await);
    // It holds no longer than the rule offers, however long it was signed for.
    let live = desk.store.mandates(MandateFilter::default()).await.unwrap();
    assert_eq!(live[0].expires_at.to_string(), "2026-11-30T12:40:00Z");
    for order in ["A-1", "A-2"] {
        let said = desk.store.claim_under(offered(order), None, all());
        let said = said.await.unwrap();
        let Mandated::Claimed(claim) = said else {
            panic!("covered")
        };
        let ticket = claim.ticket().clone();
        claim.finish(answered(&ticket, 200, "{}")).await.unwrap();
    }
    let said = desk.store.claim_under(offered("A-3"), None, all());
    let said = said.await.unwrap();
    assert!(matches!(said, Mandated::Exceeded(_)));
}
