//! Stores that fail.

use super::desk::{Desk, POLICY, Shelf, done, refund};
use crate::support::client::request;

pub async fn row_27_the_store_is_gone(shelf: &Shelf) {
    let desk = Desk::with(shelf, POLICY, "", done).await;
    desk.approved(&refund()).await;
    let broken = shelf.breaks(desk.rig.folder()).await;
    let other = refund().saying(r#"{"order":"A-2","amount":1}"#);
    for call in [refund(), other] {
        let refused = desk.ask(&call).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (503, "tickets_unavailable"),
            "{refused:?}"
        );
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(desk.reached(), 0);
    // What needs no ticket goes on.
    let key = [("x-agent-key", super::desk::ANN)];
    let free = desk
        .rig
        .ask(request("GET", "/shop/orders/1", &key, ""))
        .await;
    assert_eq!(free.status, 201);
    drop(broken);
    // The store is back, and so is the approval.
    desk.upstream.only();
    assert_eq!(desk.ask(&refund()).await.status, 201);
    assert_eq!(desk.reached(), 2);
}
