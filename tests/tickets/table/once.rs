//! An approved call is sent once, whatever happens around it.

use std::sync::Arc;

use holdpoint::store::tickets::TicketState;

use super::desk::{DONE, Desk, POLICY, Shelf, done, holding, refund};
use crate::support::upstream::{Gate, Step, answer};

pub async fn row_03_approved_then_sent_once(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    let ticket = desk.approved(&refund()).await;
    let sent = desk.ask(&refund()).await;
    assert_eq!((sent.status, sent.text()), (201, DONE));
    assert_eq!(sent.header("holdpoint-replayed"), None);
    let got = desk.upstream.only();
    assert_eq!(got.header("idempotency-key"), [ticket.as_str()]);
    let kept = desk.ticket(&ticket).await;
    assert_eq!(kept.state, TicketState::Succeeded);
    assert_eq!(kept.completed.unwrap().status, 201);
}

pub async fn row_04_again_after_success(shelf: &Shelf) {
    let desk = Desk::open(shelf).await;
    desk.approved(&refund()).await;
    assert_eq!(desk.ask(&refund()).await.status, 201);
    for _ in 0..2 {
        let again = desk.ask(&refund()).await;
        assert_eq!((again.status, again.text()), (201, DONE));
        assert_eq!(again.header("holdpoint-replayed"), Some("true"));
        assert_eq!(again.header("content-type"), Some("application/json"));
    }
    assert_eq!(desk.reached(), 1);
    // A second act on purpose is a request of its own, which names the first.
    let on_purpose = refund().with("holdpoint-again", "true");
    let second = desk.held(&on_purpose).await;
    let shown = desk.ticket(&second).await;
    assert_eq!(shown.earlier.unwrap().state, TicketState::Succeeded);
    assert_eq!(desk.reached(), 1);
}

pub async fn row_05_a_hundred_at_once(shelf: &Shelf) {
    // At once, and waiting for each other.
    for (policy, most) in [(POLICY.to_owned(), 100), (holding("20s"), 100 - 16)] {
        let gate = Gate::default();
        let opened = gate.clone();
        let script = move |_: &_| {
            let whole = answer("201 Created", "application/json", DONE);
            [vec![Step::Wait(opened.clone())], whole].concat()
        };
        let desk = Arc::new(Desk::with(shelf, &policy, "", script).await);
        let asked = refund();
        // Asked for by somebody who does not wait.
        let ticket = {
            let mut client = desk.begin(&asked).await;
            let ticket = desk.asked(1).await[0].id.clone();
            desk.approve(&ticket).await;
            if policy == POLICY {
                assert_eq!(client.answer().await.status, 403);
            }
            ticket
        };
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let (desk, asked) = (Arc::clone(&desk), asked.clone());
                tokio::spawn(async move { desk.ask(&asked).await })
            })
            .collect();
        desk.reaches(1).await;
        gate.open();
        let mut said = [0; 3];
        for call in calls {
            let answer = call.await.unwrap();
            let which = match answer.status {
                201 if answer.header("holdpoint-replayed").is_none() => 0,
                201 => 1,
                _ => {
                    assert_eq!(
                        (answer.status, answer.code().as_str()),
                        (409, "in_progress")
                    );
                    assert_eq!(answer.header("retry-after"), Some("1"));
                    2
                }
            };
            said[which] += 1;
        }
        assert!(said[0] <= 1 && said[2] <= most, "{said:?}");
        assert_eq!(desk.reached(), 1, "{said:?}");
        assert_eq!(desk.state(&ticket).await, TicketState::Succeeded);
    }
}

pub async fn row_26_the_client_leaves_while_held(shelf: &Shelf) {
    let desk = Desk::with(shelf, &holding("55s"), "", done).await;
    let client = desk.begin(&refund()).await;
    let ticket = desk.asked(1).await[0].id.clone();
    desk.waiting(1).await;
    drop(client);
    // Long before it would have been answered.
    desk.idle().await;
    desk.approve(&ticket).await;
    assert_eq!(desk.state(&ticket).await, TicketState::Approved);
    assert_eq!(desk.reached(), 0);
    assert_eq!(desk.ask(&refund()).await.status, 201);
    assert_eq!(desk.reached(), 1);
}
