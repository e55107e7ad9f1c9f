//! Stores that fail, and others that are told and do not answer.

use tokio::net::TcpListener;

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

pub async fn a_webhook_that_is_never_answered_holds_up_nobody(shelf: &Shelf) {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hook = mute.local_addr().unwrap();
    let more = format!(
        "  webhooks: [{{name: mute, url: \"http://{hook}/\", secret_env: HOOK_SECRET, private: true}}]"
    );
    let secret = (
        "HOOK_SECRET".to_owned(),
        "a secret of some length".to_owned(),
    );
    let shelf = shelf.with(shelf.tickets.clone(), vec![secret]);
    let mut desk = Desk::with(&shelf, POLICY, &more, done).await;
    let ticket = desk.held(&refund()).await;
    // It has been told, and says nothing.
    let (told, _) = mute.accept().await.unwrap();
    assert_eq!(desk.posts("boss", "approve", &ticket).await.status, 200);
    assert_eq!(desk.ask(&refund()).await.status, 201);
    // Nor does a shutdown wait for it.
    desk.rig = desk.rig.again(&[]).await;
    let again = desk.ask(&refund()).await;
    assert_eq!(again.header("holdpoint-replayed"), Some("true"));
    assert_eq!(desk.reached(), 1);
    drop(told);
}
