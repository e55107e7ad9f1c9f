//! What is kept, and for how long.

use std::time::Duration;

use holdpoint::store::tickets::{Standing, TicketLimits};

use super::{Bed, Desk, refund};

const DAY: Duration = Duration::from_hours(24);

fn limits() -> TicketLimits {
    TicketLimits {
        replay_window: DAY * 2,
        keep_receipts: DAY,
        keep_tickets: DAY * 5,
        ..TicketLimits::default()
    }
}

pub async fn what_ended_is_removed_in_time(bed: &dyn Bed) {
    let desk = Desk::with(bed, limits()).await;
    let call = refund("A-1");
    let done = desk.done(&call, 200).await;
    let ran_out = desk.request(&refund("A-2")).await;
    desk.clock
        .forward((DAY * 2).saturating_sub(Duration::from_micros(1)));
    // A receipt that may still be given back is kept.
    assert_eq!(desk.store.prune().await.unwrap(), 0);
    assert!(matches!(desk.present(&call).await, Standing::Done(_)));
    desk.clock.forward(DAY);
    assert_eq!(desk.store.prune().await.unwrap(), 0);
    // Its body has gone, what came of it has not.
    assert_eq!(desk.get(&done).await.completed.unwrap().status, 200);
    assert_ne!(desk.request(&call).await, done);
    desk.clock.forward(DAY * 2 + Duration::from_hours(1));
    assert_eq!(desk.store.prune().await.unwrap(), 2);
    for gone in [done, ran_out] {
        assert!(desk.store.get(gone).await.unwrap().is_none());
    }
    let audit = desk.store.audit(0, 1000).await.unwrap();
    assert_eq!(audit[0].event.as_str(), "requested");
    assert_eq!(audit.last().unwrap().details["tickets"], 2);
}

pub async fn what_is_unknown_or_open_is_kept(bed: &dyn Bed) {
    let desk = Desk::with(bed, limits()).await;
    let lost = desk.lost(&refund("A-1")).await;
    let under_way = refund("A-2");
    let ticket = desk.approved(&under_way).await;
    let claim = desk.claim(&under_way, &ticket).await;
    desk.clock.forward(DAY * 1000);
    assert_eq!(desk.store.prune().await.unwrap(), 0);
    for kept in [lost, ticket] {
        assert!(desk.store.get(kept).await.unwrap().is_some());
    }
    drop(claim);
}
